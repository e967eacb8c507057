"""Rotors whose angles are whole multiples of 2π/k: their phases are integers, however long a row is."""

import math

import numpy as np
import pytest
import torch
from torch import Generator, Tensor

from csprop import CSP, Rotor, use_backend
from tests.helpers import options

TOKENS, LENGTH = 3, 10_000


def make(width: int = 6) -> tuple[CSP, Tensor]:
    """Return a rotor whose gates close now and then, and a long row."""
    model = options.model(options.config(Rotor(parts=64), depth=1, width=width, decoder="linear"))
    block, draws = model.layers[0], Generator().manual_seed(1)
    block.get_buffer("parts").copy_(torch.tensor([2, 3, 5, 9, 64, 7]))
    with torch.no_grad():
        block.get_parameter("gate.bias").fill_(0.3)
    return model, torch.randint(TOKENS, (1, LENGTH), generator=draws)


def phases(model: CSP, row: Tensor) -> list[int]:
    """Return the phase of each channel after a row, from h_0 in parts of a turn, as a plain loop."""
    weights = {name: value.double().numpy() for name, value in model.state_dict().items()}
    z = weights["embedding"]
    linear = {
        name: z.reshape(len(z), -1) @ weights[f"blocks.0.{name}.weight"].T
        + weights[f"blocks.0.{name}.bias"]
        for name in ("angle", "gate")
    }
    start = np.angle(weights["blocks.0.h0"][0] + 1j * weights["blocks.0.h0"][1])
    points = np.angle(z[:, 0] + 1j * z[:, 1]) - start
    counts = []
    for channel, k in enumerate(weights["blocks.0.parts"].astype(int).tolist()):
        turns, sets = (
            [round(float(x) * k / math.tau) for x in angles[:, channel]]
            for angles in (linear["angle"], points)
        )
        count = 0
        for token in row.tolist():
            kept = linear["gate"][token, channel] > 0
            count = (count + turns[token] if kept else sets[token]) % k
        counts.append(count)
    return counts


@pytest.mark.parametrize("backend", ["torch", "native"])
@pytest.mark.parametrize("pieces", [1, 50])
def test_the_phase_is_an_integer_after_ten_thousand_tokens(backend: str, pieces: int) -> None:
    model, row = make()
    state = model.initial_state()
    start = torch.view_as_complex(state[0, 0].T.contiguous())
    with use_backend(backend), torch.no_grad():  # pyright: ignore[reportArgumentType]
        for piece in row.chunk(pieces, dim=1):
            _, state = model(piece, state, return_state=True)
    parts = model.layers[0].get_buffer("parts")
    turned = torch.polar(torch.ones(6), math.tau * torch.tensor(phases(model, row[0])) / parts)
    reached = torch.view_as_complex(state[0, 0].T.contiguous())
    torch.testing.assert_close(reached, turned * start, rtol=0, atol=1e-6)


def test_an_angle_has_the_gradient_of_what_is_rounded() -> None:
    """The same gradient as that of a free rotor with these very angles, in torch and in the kernel."""
    model, row = make()
    block, free = model.layers[0], options.model(options.config(Rotor(), depth=1, decoder="linear"))
    free.load_state_dict(
        {name: each for name, each in model.state_dict().items() if not name.endswith("parts")}
    )
    with torch.no_grad():  # token 0 has whole angles in both models
        z = model.rows[:1, None]
        for each in (block, free.layers[0]):
            each.get_parameter("gate.bias").fill_(99)
        free.layers[0].angle.bias += (block.theta(z) - free.layers[0].theta(z))[0, 0]  # pyright: ignore
    expected = None
    for backend in ("torch", "native"):
        for each in (free, model):
            each.zero_grad()
            with use_backend(backend):  # pyright: ignore[reportArgumentType]
                each(row[:, :9] * 0).square().sum().backward()
            found = each.layers[0].get_parameter("angle.weight").grad
            assert found is not None
            assert found.abs().max() > 1e-3
            expected = found if expected is None else expected
            torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def test_without_the_option_nothing_is_new() -> None:
    assert "blocks.0.parts" not in CSP(options.config(Rotor())).state_dict()
    assert "parts" not in str(options.config(Rotor()).to_digest())
