"""The paper's equations once more: per step, per channel, in plain Python complex numbers.

Nothing here imports the model's mathematics; it takes a model's weights and must arrive at its logits.
"""

import cmath
import dataclasses
import math
from itertools import pairwise
from typing import Any, get_args, get_type_hints

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Generator

from csprop import CSP, CSPConfig, tasks
from csprop.nn.config import ModelOptions
from csprop.training.presets import preset

TOKENS = [2, 0, 1, 1, 2, 0]
Vector = list[complex]


def softplus(x: float) -> float:
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))


def sigmoid(x: float) -> float:
    return 0.5 + 0.5 * math.tanh(x / 2)


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


def route(options: ModelOptions, weights: dict[str, Any], z: Vector, h: Vector) -> Vector:
    """What is in each place, at the place to which the map that the input chooses sends it."""
    chosen = weights["maps"][largest(matvec(weights["keys.weight"], planes(z), weights["keys.bias"]))]
    moved = [0j] * options.width
    for group, logits in enumerate(chosen):
        first = group * options.places
        for source in range(options.places):
            target = largest([row[source] for row in logits])
            moved[first + target] += h[first + source]
    return moved


def step(options: ModelOptions, weights: dict[str, Any], z: Vector, h: Vector, extra: Vector) -> tuple:
    """One token through one block: its output and its new state."""
    width = options.width

    def each(values: list[float]) -> list[float]:
        return values * width if len(values) == 1 else values

    if options.rotate == "none":
        theta = [0.0] * width
    elif options.angle == "tanh":
        theta = [
            math.pi * math.tanh(v) for v in each(matvec(weights["angle.weight"], [c.real for c in z]))
        ]
    else:
        theta = each(matvec(weights["angle.weight"], planes(z), weights["angle.bias"]))
    delta = [0.0] * width
    if options.decay not in ("none", "count"):
        delta = each(matvec(weights["gate.weight"], planes(z), weights["gate.bias"]))
    before = h
    if options.places:
        turns = theta if options.rotate == "state" else [0.0] * width
        h = route(options, weights, z, [cmath.exp(1j * t) * c for t, c in zip(turns, h, strict=True)])
        theta = [0.0] * width
    out, state = [], []
    for d in range(width):
        gamma, entering = softplus(delta[d]), z[d]
        alpha = {"softplus": gamma, "exp": math.exp(-gamma), "unit": 1.0}.get(options.decay, 0.0)
        if options.decay == "reset":
            alpha, gamma, entering = sigmoid(delta[d]), 1 - sigmoid(delta[d]), unit(z[d])
        if options.decay == "none":
            alpha, gamma = 1.0, 0.0
        if options.decay == "count":
            alpha, gamma, entering = 1.0, 1.0, complex(round(z[d].real))
        if options.decay == "switch":
            alpha, gamma, entering = float(delta[d] > 0), float(delta[d] <= 0), unit(z[d])
        if options.enter == "point":
            entering = complex(weights["point"][0][d], weights["point"][1][d])
            entering /= abs(entering)
        turn = cmath.exp(1j * theta[d])
        if options.rotate == "state":
            new = alpha * turn * h[d] + gamma * entering
        else:
            new = alpha * h[d] + gamma * turn * entering
        new += extra[d]
        if options.activation == "step":
            new = silu(new)
        state.append(new)
        value = silu(new) if options.activation == "boundary" else new
        if options.skip:
            value += sigmoid(weights["skip"][d]) * z[d]
        if options.recall:
            value += weights["recall"][d] * before[d]
        bounded = value / max(1.0, abs(value) / 2**20)  # the project's limit, where no norm holds it
        out.append(unit(value) if options.norm == "complex" else bounded)
    if options.norm == "layer":
        out = layer_norm(out, weights["norm.weight"], weights["norm.bias"])
    return out, state


def transcribed(model: CSP, tokens: list[int]) -> list[list[float]]:
    """The logits after every token."""
    options = model.config
    weights = {name: value.tolist() for name, value in model.state_dict().items()}
    blocks = [
        {
            name.removeprefix(f"blocks.{layer}."): value
            for name, value in weights.items()
            if name.startswith(f"blocks.{layer}.")
        }
        for layer in range(options.depth)
    ]
    layers = [of_layer(options, layer) for layer in range(options.depth)]
    states = [start(each, block) for each, block in zip(layers, blocks, strict=True)]
    logits = []
    for token in tokens:
        z = [complex(re, im) for re, im in zip(*weights["embedding"][token], strict=True)]
        for layer, block in enumerate(blocks):
            extra = [0j] * options.width
            if layer and options.coupling_rank:
                link = 0 if options.coupling == "shared" else layer - 1
                u, v = weights[f"couplings.{link}.u"], weights[f"couplings.{link}.v"]
                inner = [
                    sum(v[d][r] * z[d] for d in range(options.width))
                    for r in range(options.coupling_rank)
                ]
                extra = [complex(sum(a * b for a, b in zip(row, inner, strict=True))) for row in u]
            z, states[layer] = step(layers[layer], block, z, states[layer], extra)
        logits.append(decoded(options, weights, z))
    return logits


ROTOR: dict[str, Any] = {"rotate": "state", "rotation": "per_channel", "angle": "free"}
ROTOR |= {"decay": "switch", "gate": "per_channel", "activation": "none", "norm": "none"}
ROTOR |= {"h0": "learned", "places": 0, "maps": 0, "enter": "input"}
ROUTER: dict[str, Any] = {"rotate": "none", "decay": "none", "activation": "none", "skip": False}
ROUTER |= {"recall": False, "norm": "none", "h0": "place", "enter": "input"}
COUNTER: dict[str, Any] = {"rotate": "none", "decay": "count", "activation": "none", "skip": True}
COUNTER |= {"recall": False, "norm": "complex", "h0": "line", "places": 0, "maps": 0, "enter": "input"}
SWITCH: dict[str, Any] = {"rotate": "none", "decay": "switch", "gate": "per_channel", "skip": True}
SWITCH |= {"activation": "none", "recall": False, "norm": "none", "h0": "learned", "places": 0}
SWITCH |= {"maps": 0, "enter": "point"}


def of_layer(options: CSPConfig, layer: int) -> ModelOptions:
    if not options.kinds:
        return options
    router = ROUTER | {"places": options.places or options.width}
    known = {"rotor": ROTOR, "router": router, "counter": COUNTER, "switch": SWITCH}
    return dataclasses.replace(options, kinds=(), **known[options.kinds[layer]])


def start(options: ModelOptions, block: dict[str, Any]) -> Vector:
    if options.h0 == "place":
        return [complex(d % options.places == 0) for d in range(options.width)]
    if options.h0 in ("zero", "line"):
        return [1j if options.h0 == "line" else 0j] * options.width
    learned = [complex(re, im) for re, im in zip(*block["h0"], strict=True)]
    return [c / abs(c) for c in learned] if options.decay in ("reset", "switch") else learned


def decoded(options: CSPConfig, weights: dict[str, Any], h: Vector) -> list[float]:
    matrix = weights["decoder.linear.weight"]
    if options.decoder == "complex":
        along, bias = weights["decoder.projection"], weights["decoder.bias"]
        numbers = [sum(w * c for w, c in zip(row, h, strict=True)) for row in matrix]
        return [n.real * along[0][v] + n.imag * along[1][v] + bias[v] for v, n in enumerate(numbers)]
    # Next to 0, where its gradient would be infinite, φ is taken of Im h alone.
    features = [cmath.phase(c) if abs(c) ** 2 >= 1e-30 else math.atan2(c.imag, 1) for c in h]
    if options.decoder == "cos_sin" and of_layer(options, options.depth - 1).norm == "complex":
        features = planes(h)  # cos φ and sin φ, but for the ε of the norm
    elif options.decoder == "linear":
        features = planes(h)
    elif options.decoder == "cos_sin":
        # cos φ and sin φ, but where |h| nears the 1e-15 that keeps the gradient finite.
        features = planes([c / math.sqrt(abs(c) ** 2 + 1e-30) for c in h])
    return matvec(matrix, features, weights["decoder.linear.bias"])


def randomised(options: dict[str, Any]) -> CSP:
    """A small model in float64 with every weight away from its start."""
    small: dict[str, Any] = options | {"width": 4, "depth": 3, "vocab_size": 3, "num_classes": 4}
    model = CSP(CSPConfig(**small)).double().eval()
    g = Generator().manual_seed(7)
    with torch.no_grad():
        for parameter in model.parameters():
            noise = torch.randn(parameter.shape, generator=g, dtype=parameter.dtype)
            parameter.add_(0.2 * noise)
    return model


def agrees(options: dict[str, Any]) -> None:
    model = randomised(options)
    with torch.no_grad():
        got = model(torch.tensor([TOKENS]))[0]
    want = torch.tensor(transcribed(model, TOKENS), dtype=torch.float64)
    torch.testing.assert_close(got, want, rtol=1e-6, atol=1e-6)


def choices() -> dict[str, list[Any]]:
    hints = get_type_hints(ModelOptions)
    found = {
        name: [True, False] if hint is bool else list(get_args(hint)) for name, hint in hints.items()
    }
    for size in ("width", "depth", "order"):  # those of `randomised`; a complex number has order 2
        del found[size]
    kinds = [(), ("router", "rotor", "router"), ("rotor", "router", "rotor")]
    kinds += [("counter", "switch", "counter"), ("counter", "router", "switch")]
    return found | {"coupling_rank": [0, 2], "places": [0, 1, 2, 4], "maps": [0, 2], "kinds": kinds}


def sensible(options: dict[str, Any]) -> dict[str, Any]:
    """per_layer coupling exists only with a rank; a router moves what it has, and nothing enters; a
    counter adds whole numbers and nothing else; only what replaces a state can be a point."""
    if options["kinds"]:
        options = options | {"coupling_rank": 0}
    elif options["places"]:
        options = options | {"coupling_rank": 0, "decay": "none"}
        replaced = {"rotate": "input", "activation": "step", "h0": "zero"}
        others = {"rotate": "state", "activation": "none", "h0": "place"}
        options |= {name: others[name] for name, bad in replaced.items() if options[name] == bad}
        options |= {"h0": "place"} if options["h0"] == "line" else {}
    else:
        options = options | {"maps": 0, "h0": "zero" if options["h0"] == "place" else options["h0"]}
        if options["decay"] == "count":
            options |= {"coupling_rank": 0, "rotate": "none"}
            options |= {"h0": "line"} if options["h0"] == "learned" else {}
            options |= {"activation": "none"} if options["activation"] == "step" else {}
    if options["decay"] not in ("switch", "reset"):
        options |= {"enter": "input"}
    return options | ({} if options["coupling_rank"] else {"coupling": "shared"})


def test_every_option_has_values_to_draw() -> None:
    assert [name for name, values in choices().items() if not values] == []


@pytest.mark.parametrize(
    ("recipe", "task"), [("paper", "parity"), ("rotor", "parity"), ("rotor", "parenthesis")]
)
@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in choices().items() for value in values]
)
def test_every_single_option_equals_the_transcription(
    recipe: str, task: str, name: str, value: Any
) -> None:
    options = dataclasses.asdict(preset(recipe, tasks.get(task)).model)
    agrees(sensible(options | {"depth": 3, "coupling_rank": 2, name: value}))


@settings(max_examples=300)
@given(st.fixed_dictionaries({name: st.sampled_from(values) for name, values in choices().items()}))
def test_options_in_any_combination_equal_the_transcription(options: dict[str, Any]) -> None:
    agrees(sensible(options))


def test_the_transcription_notices_a_wrong_weight() -> None:
    model = randomised({})
    before = transcribed(model, TOKENS)
    for name, parameter in model.named_parameters():
        with torch.no_grad():
            parameter.view(-1)[0] += 0.01
        after = transcribed(model, TOKENS)
        assert max(abs(a - b) for a, b in pairwise([before[-1][0], after[-1][0]])) > 1e-9, name
        before = after
