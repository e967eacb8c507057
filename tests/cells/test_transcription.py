"""The equations of all cells once more: per step, per channel, in plain Python complex numbers.

Nothing here imports the mathematics of a model; it takes a model's weights and must arrive at its
scores.
"""

import cmath
import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from torch import Generator

from csprop import CSP, CSPConfig
from csprop.cells import BUILT_IN, Cell, Counter, Paper, Rotor, Router
from tests.helpers.options import DECODERS, STACKS, config, models

TOKENS = [2, 0, 1, 1, 2, 0]
Vector = list[complex]
Weights = dict[str, Any]


def softplus(x: float) -> float:
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))


def sigmoid(x: float) -> float:
    small = math.exp(-abs(x))  # far below 0 all digits count: a phase depends on them
    return (1.0 if x > 0 else small) / (1 + small)


def silu(z: complex) -> complex:
    return complex(z.real * sigmoid(z.real), z.imag * sigmoid(z.imag))


def matvec(rows: list[list[float]], x: list[float], bias: list[float] | None = None) -> list[float]:
    out = [sum(w * v for w, v in zip(row, x, strict=True)) for row in rows]
    return out if bias is None else [o + b for o, b in zip(out, bias, strict=True)]


def planes(z: Vector) -> list[float]:
    return [c.real for c in z] + [c.imag for c in z]


def points(parts: list[list[float]]) -> Vector:
    return [complex(re, im) for re, im in zip(*parts, strict=True)]


def on_circle(z: Vector) -> Vector:
    return [c / abs(c) for c in z]


def unit(z: complex) -> complex:
    return z / (abs(z) + 1e-8)


def limit(z: complex) -> complex:
    """Scale back what is beyond the limit of an output without a norm."""
    return z / max(1.0, abs(z) / 2**20)


def layer_norm(z: Vector, weight: list[float], bias: list[float]) -> Vector:
    x = planes(z)
    mean = sum(x) / len(x)
    deviation = math.sqrt(sum((v - mean) ** 2 for v in x) / len(x) + 1e-5)
    y = [(v - mean) / deviation * w + b for v, w, b in zip(x, weight, bias, strict=True)]
    return points([y[: len(z)], y[len(z) :]])


def largest(scores: list[float]) -> int:
    return max(range(len(scores)), key=scores.__getitem__)


def gate(w: Weights, z: Vector) -> list[float]:
    """δ, one for each channel."""
    delta = matvec(w["gate.weight"], planes(z), w["gate.bias"])
    return delta * len(z) if len(delta) == 1 else delta


def add_skip(w: Weights, h: Vector, z: Vector) -> Vector:
    if "skip" not in w:
        return h
    return [c + sigmoid(g) * x for c, g, x in zip(h, w["skip"], z, strict=True)]


def paper(cell: Paper, w: Weights, z: Vector, h: Vector, extra: Vector) -> tuple[Vector, Vector]:
    turns = [1 + 0j] * len(z)
    if cell.rotate != "none":
        theta = [math.pi * math.tanh(v) for v in matvec(w["angle.weight"], [c.real for c in z])]
        turns = [cmath.exp(1j * t) for t in (theta * len(z) if len(theta) == 1 else theta)]
    gammas = [softplus(delta) for delta in gate(w, z)]
    new = []
    for d, gamma in enumerate(gammas):
        alpha = {"softplus": gamma, "exp": math.exp(-gamma), "unit": 1.0}[cell.decay]
        kept = turns[d] * h[d] if cell.rotate == "state" else h[d]
        entering = turns[d] * z[d] if cell.rotate == "input" else z[d]
        state = alpha * kept + gamma * entering + extra[d]
        new.append(silu(state) if cell.activation == "step" else state)
    out = [silu(c) for c in new] if cell.activation == "boundary" else new
    out = add_skip(w, out, z)
    if cell.norm == "complex":
        return [unit(c) for c in out], new
    out = [limit(c) for c in out]
    return (layer_norm(out, w["norm.weight"], w["norm.bias"]) if cell.norm == "layer" else out), new


def rotor(cell: Rotor, w: Weights, z: Vector, h: Vector) -> tuple[Vector, Vector]:
    theta = matvec(w["angle.weight"], planes(z), w["angle.bias"])
    keep = [delta > 0 for delta in gate(w, z)]
    new = [cmath.exp(1j * theta[d]) * h[d] if keep[d] else unit(z[d]) for d in range(len(z))]
    out = add_skip(w, new, z)
    if cell.recall:
        out = [c + b * before for c, b, before in zip(out, w["recall"], h, strict=True)]
    return [limit(c) for c in out], new


def router(cell: Router, w: Weights, z: Vector, h: Vector) -> tuple[Vector, Vector]:
    chosen = w["maps"][largest(matvec(w["keys.weight"], planes(z), w["keys.bias"]))]
    places, moved = cell.places or len(z), [0j] * len(z)
    for group, logits in enumerate(chosen):
        for source in range(places):
            target = largest([row[source] for row in logits])
            moved[group * places + target] += h[group * places + source]
    return moved, moved


def counter(w: Weights, z: Vector, h: Vector) -> tuple[Vector, Vector]:
    new = [c + round(x.real) for c, x in zip(h, z, strict=True)]
    return [unit(c) for c in add_skip(w, new, z)], new


def switch(w: Weights, z: Vector, h: Vector) -> tuple[Vector, Vector]:
    point = on_circle(points(w["point"]))
    new = [h[d] if delta > 0 else point[d] for d, delta in enumerate(gate(w, z))]
    return [limit(c) for c in add_skip(w, new, z)], new


def step(cell: Cell, w: Weights, z: Vector, h: Vector, extra: Vector) -> tuple[Vector, Vector]:
    """Return the output and the new state of one block after one token."""
    match cell:
        case Paper():
            return paper(cell, w, z, h, extra)
        case Rotor():
            return rotor(cell, w, z, h)
        case Router():
            return router(cell, w, z, h)
        case Counter():
            return counter(w, z, h)
    return switch(w, z, h)


def start(cell: Cell, w: Weights, width: int) -> Vector:
    match cell:
        case Paper():
            return points(w["h0"]) if cell.h0 == "learned" else [0j] * width
        case Router():
            return [complex(d % (cell.places or width) == 0) for d in range(width)]
        case Counter():
            return [1j] * width
    return on_circle(points(w["h0"]))


def decode(model: CSPConfig, w: Weights, h: Vector) -> list[float]:
    matrix, last = w["decoder.linear.weight"], model.layers[-1]
    if model.decoder == "complex":
        along, bias = w["decoder.projection"], w["decoder.bias"]
        numbers = [sum(w * c for w, c in zip(row, h, strict=True)) for row in matrix]
        return [n.real * along[0][v] + n.imag * along[1][v] + bias[v] for v, n in enumerate(numbers)]
    features = planes(h)
    if model.decoder == "phase":  # next to 0, where its gradient would be infinite, φ is of Im h alone
        features = [cmath.phase(c) if abs(c) ** 2 >= 1e-30 else math.atan2(c.imag, 1) for c in h]
    if model.decoder == "cos_sin" and getattr(last, "norm", "") != "complex" and last != Counter():
        features = planes([c / math.sqrt(abs(c) ** 2 + 1e-30) for c in h])
    return matvec(matrix, features, w["decoder.linear.bias"])


def transcribe(model: CSP, tokens: list[int]) -> list[list[float]]:
    """Return the scores after every token."""
    options, width = model.config, model.config.width
    w = {name: value.tolist() for name, value in model.state_dict().items()}
    cells = options.layers
    blocks = [
        {name.removeprefix(f"blocks.{n}."): w[name] for name in w if name.startswith(f"blocks.{n}.")}
        for n in range(len(cells))
    ]
    states = [start(cell, block, width) for cell, block in zip(cells, blocks, strict=True)]
    scores = []
    for token in tokens:
        z = points(w["embedding"][token])
        for n, (cell, block) in enumerate(zip(cells, blocks, strict=True)):
            extra = [0j] * width
            if n and isinstance(cell, Paper) and cell.coupling_rank:
                link = 0 if cell.coupling == "shared" else n - 1
                u, v = w[f"couplings.{link}.u"], w[f"couplings.{link}.v"]
                inner = [sum(v[d][r] * z[d] for d in range(width)) for r in range(cell.coupling_rank)]
                extra = [sum((a * b for a, b in zip(row, inner, strict=True)), 0j) for row in u]
            z, states[n] = step(cell, block, z, states[n], extra)
        scores.append(decode(options, w, z))
    return scores


def randomise(options: CSPConfig) -> CSP:
    """Return a model in float64 with every weight away from its start; gates open and close."""
    model = CSP(options).double().eval()
    g = Generator().manual_seed(7)
    with torch.no_grad():
        for parameter in model.parameters():
            noise = torch.randn(parameter.shape, generator=g, dtype=parameter.dtype)
            parameter.mul_(0.5).add_(0.5 * noise)
    return model


def assert_equal(options: CSPConfig) -> None:
    model = randomise(options)
    with torch.no_grad():
        got = model(torch.tensor([TOKENS]))[0]
    want = torch.tensor(transcribe(model, TOKENS), dtype=torch.float64)
    torch.testing.assert_close(got, want, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", [name for name in STACKS if STACKS[name][0].order == 2])
def test_a_model_of_every_option_equals_the_transcription(name: str) -> None:
    for decoder in DECODERS:
        assert_equal(config(STACKS[name], width=4, decoder=decoder))


@settings(max_examples=150)
@given(options=models(width=4).filter(lambda options: options.order == 2))
def test_any_model_equals_the_transcription(options: CSPConfig) -> None:
    assert_equal(options)


@pytest.mark.parametrize("kind", BUILT_IN.values(), ids=lambda kind: kind.kind)
def test_the_transcription_depends_on_every_weight(kind: type[Cell]) -> None:
    """Where a weight only decides a gate or a map, a change is large enough to decide otherwise."""
    model = randomise(config([kind()]))
    for name, parameter in model.named_parameters():
        with torch.no_grad():
            before, value = transcribe(model, TOKENS), parameter.clone()
            parameter.copy_(-3 * value - 1)
            assert transcribe(model, TOKENS) != before, name
            parameter.copy_(value)
