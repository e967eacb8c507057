"""The equations of every cell once more: per step, per channel, in plain Python complex numbers.

Nothing here imports the model's mathematics; it takes a model's weights and must arrive at its logits.
"""

import cmath
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings

from csprop import CSP, Cell, Counter, CSPConfig, Paper, Rotor, Router, Switch, use_backend
from csprop.ops import native
from tests.helpers import options
from tests.helpers.options import configs, vary

TOKENS = [2, 0, 1, 1, 2, 0]
BACKENDS = ["torch"] if native.WHY_NOT else ["torch", "native"]
Vector = list[complex]
Weights = dict[str, Any]
Step = tuple[Vector, Vector]
"""The output and the next state."""


def softplus(x: float) -> float:
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))


def sigmoid(x: float) -> float:
    small = math.exp(-abs(x))  # of what is far below 0 all digits count: a phase depends on them
    return (1.0 if x > 0 else small) / (1 + small)


def silu(z: complex) -> complex:
    return complex(z.real * sigmoid(z.real), z.imag * sigmoid(z.imag))


def matvec(rows: list[list[float]], x: list[float], bias: list[float] | None = None) -> list[float]:
    out = [sum(w * v for w, v in zip(row, x, strict=True)) for row in rows]
    return out if bias is None else [o + b for o, b in zip(out, bias, strict=True)]


def planes(z: Vector) -> list[float]:
    return [c.real for c in z] + [c.imag for c in z]


def unit(z: complex) -> complex:
    return z / (abs(z) + 1e-8)


def layer_norm(z: Vector, weight: list[float], bias: list[float]) -> Vector:
    x = planes(z)
    mean = sum(x) / len(x)
    deviation = math.sqrt(sum((v - mean) ** 2 for v in x) / len(x) + 1e-5)
    y = [(v - mean) / deviation * w + b for v, w, b in zip(x, weight, bias, strict=True)]
    half = len(z)
    return [complex(y[d], y[half + d]) for d in range(half)]


def largest(scores: list[float]) -> int:
    return max(range(len(scores)), key=scores.__getitem__)


def points(pairs: list[list[float]]) -> Vector:
    """Numbers on the unit circle, from two planes."""
    return [complex(re, im) / math.hypot(re, im) for re, im in zip(*pairs, strict=True)]


def linear(weights: Weights, name: str, z: Vector) -> list[float]:
    """Linear(z) of all planes, one number for each channel."""
    values = matvec(weights[f"{name}.weight"], planes(z), weights[f"{name}.bias"])
    return values * len(z) if len(values) == 1 else values


def bounded(value: complex) -> complex:
    return value / max(1.0, abs(value) / 2**20)  # the project's limit, where no norm holds it


def paper(cell: Paper, weights: Weights, z: Vector, h: Vector, extra: Vector) -> Step:
    theta = [0.0] * len(z)
    if cell.rotate != "none":
        angles = [math.pi * math.tanh(v) for v in matvec(weights["angle.weight"], [c.real for c in z])]
        theta = angles * len(z) if len(angles) == 1 else angles
    out, state = [], []
    for d, delta in enumerate(linear(weights, "gate", z)):
        gamma, turn = softplus(delta), cmath.exp(1j * theta[d])
        alpha = {"softplus": gamma, "exp": math.exp(-gamma), "unit": 1.0}[cell.decay]
        if cell.rotate == "input":
            new = alpha * h[d] + gamma * turn * z[d] + extra[d]
        else:
            new = alpha * turn * h[d] + gamma * z[d] + extra[d]
        new = silu(new) if cell.activation == "step" else new
        state.append(new)
        value = silu(new) if cell.activation == "boundary" else new
        value += sigmoid(weights["skip"][d]) * z[d] if cell.skip else 0
        out.append(unit(value) if cell.norm == "complex" else bounded(value))
    if cell.norm == "layer":
        out = layer_norm(out, weights["norm.weight"], weights["norm.bias"])
    return out, state


def whole(angle: float, k: float) -> float:
    """The nearest whole multiple of 2π/k, if there is a k."""
    return round(angle * k / math.tau) * math.tau / k if k else angle


def rotor(cell: Rotor, weights: Weights, z: Vector, h: Vector, extra: Vector) -> Step:
    angles, deltas = linear(weights, "angle", z), linear(weights, "gate", z)
    parts, state = weights.get("parts") or [0.0] * len(z), []
    for k, angle, delta, past, c, *h_0 in zip(
        parts, angles, deltas, h, z, *weights["h0"][:2], strict=True
    ):
        new = cmath.exp(1j * whole(angle, k)) * past if delta > 0 else unit(c)
        phase = cmath.phase(complex(*h_0))
        state.append(cmath.exp(1j * (phase + whole(cmath.phase(new) - phase, k))) if k else new)
    out = []
    for d, new in enumerate(state):
        value = new + (sigmoid(weights["skip"][d]) * z[d] if cell.skip else 0)
        out.append(bounded(value + (weights["recall"][d] * h[d] if cell.recall else 0)))
    return out, state


def router(cell: Router, weights: Weights, z: Vector, h: Vector, extra: Vector) -> Step:
    """What is in each place, at the place to which the map that the input chooses sends it."""
    scores = matvec(weights["keys.weight"], planes(z), weights["keys.bias"])
    chosen = weights["maps"][largest(scores)]
    places, moved = cell.places or len(z), [0j] * len(z)
    for group, logits in enumerate(chosen):
        for source in range(places):
            target = largest([row[source] for row in logits])
            moved[group * places + target] += h[group * places + source]
    return moved, moved


def counter(cell: Counter, weights: Weights, z: Vector, h: Vector, extra: Vector) -> Step:
    state = [past + round(c.real) for past, c in zip(h, z, strict=True)]
    skip = [sigmoid(g) for g in weights["skip"]]
    return [unit(new + g * c) for new, g, c in zip(state, skip, z, strict=True)], state


def switch(cell: Switch, weights: Weights, z: Vector, h: Vector, extra: Vector) -> Step:
    deltas, targets = linear(weights, "gate", z), points(weights["point"])
    state = [h[d] if deltas[d] > 0 else targets[d] for d in range(len(z))]
    return [bounded(state[d] + sigmoid(weights["skip"][d]) * z[d]) for d in range(len(z))], state


STEPS: dict[type, Callable[..., Step]] = {
    Paper: paper, Rotor: rotor, Router: router, Counter: counter, Switch: switch,
}  # fmt: skip


def start(cell: Cell, width: int, weights: Weights) -> Vector:
    if isinstance(cell, Router):
        return [complex(d % (cell.places or width) == 0) for d in range(width)]
    if isinstance(cell, Rotor | Switch):
        return points(weights["h0"])
    if isinstance(cell, Paper) and cell.h0 == "learned":
        return [complex(re, im) for re, im in zip(*weights["h0"], strict=True)]
    return [1j if isinstance(cell, Counter) else 0j] * width


def coupled(config: CSPConfig, layer: int, weights: Weights, z: Vector) -> Vector:
    """u vᵀ z."""
    if not (layer and config.coupling_rank):
        return [0j] * config.width
    assert isinstance(config.cell, Paper)
    link = 0 if config.cell.coupling == "shared" else layer - 1
    u, v = weights[f"couplings.{link}.u"], weights[f"couplings.{link}.v"]
    inner = [sum(v[d][r] * z[d] for d in range(config.width)) for r in range(config.coupling_rank)]
    return [complex(sum(a * b for a, b in zip(row, inner, strict=True))) for row in u]


def transcribe(model: CSP, tokens: list[int]) -> list[list[float]]:
    """Return the logits after every token."""
    config, weights = model.config, {name: value.tolist() for name, value in model.state_dict().items()}
    blocks: list[Weights] = [{} for _ in config.layers]
    for name, value in weights.items():
        if name.startswith("blocks."):
            _, layer, rest = name.split(".", 2)
            blocks[int(layer)][rest] = value
    states = [
        start(*each) for each in zip(config.layers, [config.width] * config.depth, blocks, strict=True)
    ]
    logits = []
    for token in tokens:
        z = [complex(re, im) for re, im in zip(*weights["embedding"][token], strict=True)]
        for layer, cell in enumerate(config.layers):
            extra = coupled(config, layer, weights, z)
            z, states[layer] = STEPS[type(cell)](cell, blocks[layer], z, states[layer], extra)
        logits.append(decode(config, weights, z))
    return logits


def decode(config: CSPConfig, weights: Weights, h: Vector) -> list[float]:
    matrix, last = weights["decoder.linear.weight"], config.layers[-1]
    if config.decoder == "complex":
        along, bias = weights["decoder.projection"], weights["decoder.bias"]
        numbers = [sum(w * c for w, c in zip(row, h, strict=True)) for row in matrix]
        return [n.real * along[0][v] + n.imag * along[1][v] + bias[v] for v, n in enumerate(numbers)]
    features = planes(h)  # of a normed state cos φ and sin φ, but for the ε of the norm
    normed = isinstance(last, Counter) or (isinstance(last, Paper) and last.norm == "complex")
    if config.decoder == "phase":
        # Next to 0, where its gradient would be infinite, φ is taken of Im h alone.
        features = [cmath.phase(c) if abs(c) ** 2 >= 1e-30 else math.atan2(c.imag, 1) for c in h]
    elif config.decoder == "cos_sin" and not normed:
        # cos φ and sin φ, but where |h| nears the 1e-15 that keeps the gradient finite.
        features = planes([c / math.sqrt(abs(c) ** 2 + 1e-30) for c in h])
    return matvec(matrix, features, weights["decoder.linear.bias"])


def agree(config: CSPConfig) -> None:
    model = options.model(config).double().eval()
    want = torch.tensor(transcribe(model, TOKENS), dtype=torch.float64)
    for backend in BACKENDS:  # the kernel, and the blocks in torch operations
        with torch.no_grad(), use_backend(backend):
            got = model(torch.tensor([TOKENS]))[0]
        torch.testing.assert_close(got, want, rtol=1e-6, atol=1e-6)


ORDER_2 = {name: cell for name, cell in vary().items() if cell.order == 2}


@pytest.mark.parametrize("decoder", options.DECODERS)
@pytest.mark.parametrize("name", ORDER_2)
def test_every_single_option_equals_the_transcription(name: str, decoder: str) -> None:
    agree(options.config(ORDER_2[name], 3, decoder=decoder))


@settings(max_examples=300)
@given(config=configs(order=2))
def test_options_in_any_combination_equal_the_transcription(config: CSPConfig) -> None:
    agree(config)
