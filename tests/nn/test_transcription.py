"""The paper's equations once more: per step, per channel, in plain Python complex numbers.

So are the parts of the authors' code: sums of angles, matrices, sines, sums with products of decays.
Nothing here imports the model's mathematics; it takes a model's weights and must arrive at its logits.
"""

import cmath
import dataclasses
import math
from dataclasses import dataclass
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


@dataclass
class Memory:
    """What a layer carries from step to step."""

    h: Vector
    angle: list[float]
    """The sum of all angles so far, one for each channel."""
    product: list[float]
    """The product of all decays so far, one for each channel."""
    total: Vector
    """h_0 and the sum of all that entered, each divided by the product of decays before it."""


def remembering(h: Vector) -> Memory:
    """Before the first token."""
    return Memory(h, [0.0] * len(h), [1.0] * len(h), h)


def angles(options: ModelOptions, weights: dict[str, Any], z: Vector) -> list[float]:
    """θ of one step, one for all channels or one for each."""
    matrix, bias = weights["angle.weight"], weights.get("angle.bias")
    if options.angle == "free":
        return matvec(matrix, planes(z), bias)
    if options.projection == "tanh":
        return [math.pi * math.tanh(v) for v in matvec(matrix, [c.real for c in z])]
    projected = [math.tanh(v) for v in matvec(matrix, planes(z), bias)]
    if options.projection == "affine":
        return [math.pi * v for v in projected]
    half = len(projected) // 2
    return [math.atan2(y, x) for x, y in zip(projected[:half], projected[half:], strict=True)]


def mapped(options: ModelOptions, weights: dict[str, Any], x: Vector) -> Vector:
    """B x, plane by plane, and the bias on each."""
    if options.input_map == "none":
        return x
    parts = [[c.real for c in x], [c.imag for c in x]]
    re, im = (matvec(weights["map.weight"], part, weights.get("map.bias")) for part in parts)
    return [complex(a, b) for a, b in zip(re, im, strict=True)]


def normed(norm: str, value: complex) -> complex:
    """A channel's output."""
    if norm == "complex":
        return unit(value)
    if norm == "root":
        return value / math.sqrt(abs(value) ** 2 + 1e-8)
    return value / max(1.0, abs(value) / 2**20)  # the project's limit, where no norm holds it


def step(
    options: ModelOptions, weights: dict[str, Any], z: Vector, memory: Memory, extra: Vector
) -> tuple[Vector, Memory]:
    """One token through one block: its output and what it carries on."""
    width, h, before = options.width, memory.h, memory.h

    def each(values: list[float]) -> list[float]:
        return values * width if len(values) == 1 else values

    def projected(name: str, seen: Vector) -> list[float]:
        return each(matvec(weights[f"{name}.weight"], planes(seen), weights[f"{name}.bias"]))

    theta = [0.0] * width if options.rotate == "none" else each(angles(options, weights, z))
    if options.angle == "accumulated":
        theta = [t + so_far for t, so_far in zip(theta, memory.angle, strict=True)]
    turns = [cmath.exp(1j * t) for t in theta]
    entering = list(z)
    if options.decay in ("reset", "switch"):
        entering = [unit(c) for c in z]
    if options.decay == "count":
        entering = [complex(round(c.real)) for c in z]
    if options.enter == "point":
        entering = [complex(re, im) for re, im in zip(*weights["point"], strict=True)]
        entering = [c / abs(c) for c in entering]
    if options.rotate == "input":
        entering = [turn * c for turn, c in zip(turns, entering, strict=True)]
    entering = mapped(options, weights, entering)

    seen = entering if options.gate_input == "entering" else z
    delta = [0.0] * width
    if options.gate_input == "state":
        delta = projected("gate", [c + past for c, past in zip(z, h, strict=True)])
    elif options.decay not in ("none", "count"):
        delta = projected("gate", seen)
    if options.entrance == "sine":
        gammas = [(1 + math.sin(e)) / 2 for e in projected("entrance", seen)]
    else:
        gammas = [softplus(e) for e in delta]
    if options.recurrence == "cumulative" and options.gate_input == "entering":
        delta = projected("gate", [g * x for g, x in zip(gammas, entering, strict=True)])

    if options.places:
        if options.rotate == "state":
            h = [turn * c for turn, c in zip(turns, h, strict=True)]
        h = route(options, weights, z, h)
        turns = [1 + 0j] * width
    out, state = [], []
    product, total = list(memory.product), list(memory.total)
    for d in range(width):
        keep, gamma = softplus(delta[d]), gammas[d]
        alpha = {"softplus": keep, "exp": math.exp(-keep), "unit": 1.0}.get(options.decay, 0.0)
        if options.decay == "reset":
            alpha, gamma = sigmoid(delta[d]), 1 - sigmoid(delta[d])
        if options.decay == "none":
            alpha, gamma = 1.0, 0.0
        if options.decay == "count":
            alpha, gamma = 1.0, 1.0
        if options.decay == "switch":
            alpha, gamma = float(delta[d] > 0), float(delta[d] <= 0)
        if options.recurrence == "cumulative":
            total[d] += gamma * entering[d] / (product[d] + 1e-9)
            product[d] *= alpha
            new = product[d] * total[d]
        else:
            kept = turns[d] * h[d] if options.rotate == "state" else h[d]
            new = alpha * kept + gamma * entering[d]
        new += extra[d]
        if options.activation == "step":
            new = silu(new)
        state.append(new)
        value = silu(new) if options.activation == "boundary" else new
        if options.skip:
            value += sigmoid(weights["skip"][d]) * z[d]
        if options.recall:
            value += weights["recall"][d] * before[d]
        out.append(normed(options.norm, value))
    if options.norm == "layer":
        out = layer_norm(out, weights["norm.weight"], weights["norm.bias"])
    return out, Memory(state, theta, product, total)


def embedded(options: ModelOptions, weights: dict[str, Any], token: int) -> Vector:
    """What a token enters the first layer as."""
    row = weights["embedding"][token]
    if options.embedding == "complex":
        return [complex(re, im) for re, im in zip(*row, strict=True)]
    wide = matvec(weights["widen.weight"], row, weights["widen.bias"])
    return [complex(math.tanh(v) if options.embedding == "scalar" else v) for v in wide]


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
    states = [remembering(start(each, block)) for each, block in zip(layers, blocks, strict=True)]
    logits = []
    for token in tokens:
        z = embedded(options, weights, token)
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
    options |= going_together(options)
    return options | ({} if options["coupling_rank"] else {"coupling": "shared"})


PRINTED: dict[str, Any] = {"input_map": "none", "entrance": "softplus", "gate_input": "input"}
PRINTED |= {"recurrence": "sequential"}


def going_together(options: dict[str, Any]) -> dict[str, Any]:
    """The parts of the authors' code are parts of the paper's recurrence; where another is drawn they
    are as printed, and where it is that one, what does not go with them is replaced."""
    changed: dict[str, Any] = {}
    if options["kinds"] or options["places"] or options["decay"] == "count":
        changed |= {"embedding": "complex"}
    if options["kinds"] or options["places"] or options["decay"] not in ("softplus", "exp", "unit"):
        changed |= PRINTED | ({"angle": "tanh"} if options["angle"] == "accumulated" else {})
    found = options | changed
    if found["gate_input"] == "state":
        changed |= {"recurrence": "sequential"}
        if found["norm"] in ("layer", "none"):  # others grow with the state, past the project's limits
            changed |= {"decay": "exp"}
    elif found["recurrence"] == "cumulative":
        changed |= {"decay": "exp", "entrance": "sine", "recall": False}
    found = options | changed
    if found["entrance"] == "sine" and found["decay"] == "unit":
        changed |= {"decay": "exp"}
    if found["gate_input"] == "state" or found["recurrence"] == "cumulative":
        changed |= {"coupling_rank": 0}
        changed |= {"activation": "boundary"} if found["activation"] == "step" else {}
        changed |= {"rotate": "input"} if found["rotate"] == "state" else {}
    if found["angle"] == "accumulated":
        changed |= {"rotate": "input"}
    found = options | changed
    if found["angle"] == "free" or found["rotate"] == "none" or found["kinds"]:
        changed |= {"projection": "tanh"}
    return changed


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


@settings(max_examples=300)
@given(
    st.fixed_dictionaries(
        {name: st.sampled_from(values) for name, values in choices().items()}
        | {"kinds": st.just(()), "places": st.just(0)}
        | {"decay": st.sampled_from(["softplus", "exp", "unit"])}
    )
)
def test_parts_of_the_authors_code_in_any_combination_equal_the_transcription(
    options: dict[str, Any],
) -> None:
    agrees(sensible(options))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {
            "angle": "accumulated", "projection": "atan2", "input_map": "affine", "entrance": "sine",
            "gate_input": "entering", "decay": "exp", "norm": "root", "embedding": "narrow",
        },
        {
            "projection": "affine", "input_map": "linear", "entrance": "sine", "decay": "exp",
            "gate_input": "entering", "recurrence": "cumulative", "embedding": "scalar",
        },
    ],
)  # fmt: skip
def test_the_transcription_notices_a_wrong_weight(options: dict[str, Any]) -> None:
    model = randomised(options)
    before = transcribed(model, TOKENS)
    for name, parameter in model.named_parameters():
        with torch.no_grad():
            parameter.view(-1)[0] += 0.01
        after = transcribed(model, TOKENS)
        assert max(abs(a - b) for a, b in pairwise([before[-1][0], after[-1][0]])) > 1e-9, name
        before = after
