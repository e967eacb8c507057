"""Blocks with parts of the authors' code: sizes, states that are carried on, gradients, refusals."""

import itertools
import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Generator, Tensor
from torch.autograd import gradcheck
from torch.func import functional_call

from csprop import CSP, CSPConfig, use_backend
from csprop.errors import InputError
from csprop.nn.config import ModelOptions
from csprop.nn.released import Released, summed
from csprop.training.config import configure

BASE: dict[str, Any] = {"vocab_size": 3, "num_classes": 2, "width": 4, "depth": 2}
LAST: dict[str, Any] = {
    "angle": "accumulated", "projection": "atan2", "input_map": "linear", "entrance": "sine",
    "gate_input": "entering", "decay": "exp", "norm": "root", "embedding": "narrow",
}  # fmt: skip
FAST: dict[str, Any] = LAST | {"recurrence": "cumulative"}
FIRST: dict[str, Any] = {
    "projection": "affine", "input_map": "affine", "entrance": "sine", "gate_input": "state",
    "decay": "exp", "norm": "root", "embedding": "scalar",
}  # fmt: skip
CUMULATIVE: dict[str, Any] = {"recurrence": "cumulative", "entrance": "sine", "decay": "exp"}
OPTIONS: list[dict[str, Any]] = [
    {"angle": "accumulated"},
    {"angle": "accumulated", "rotation": "per_channel", "h0": "learned"},
    {"angle": "accumulated", "activation": "step", "decay": "exp"},
    {"projection": "affine"},
    {"projection": "atan2", "rotate": "state", "rotation": "per_channel", "decay": "exp"},
    {"input_map": "linear", "rotate": "none"},
    {"input_map": "affine", "rotate": "state", "decay": "exp"},
    {"entrance": "sine", "gate": "per_channel"},
    {"gate_input": "entering", "gate": "per_channel", "coupling_rank": 1, "decay": "exp"},
    {"gate_input": "state", "decay": "exp", "recall": True},
    {"gate_input": "state", "angle": "accumulated", "gate": "per_channel", "entrance": "sine"},
    CUMULATIVE,
    CUMULATIVE | {"gate": "per_channel", "h0": "learned"},
    CUMULATIVE | {"gate_input": "entering", "rotate": "none"},
    {"norm": "root"},
    {"embedding": "narrow"},
    {"embedding": "scalar"},
    LAST, LAST | {"recall": True, "h0": "learned"}, FAST, FIRST, FIRST | {"angle": "accumulated"},
]  # fmt: skip


def named(options: Any) -> str:
    return "-".join(str(value) for value in options.values()) if isinstance(options, dict) else ""


each_option = pytest.mark.parametrize("options", OPTIONS, ids=named)


def model(options: dict[str, Any], seed: int = 0) -> CSP:
    """In float64, with every weight away from its start."""
    draws = Generator().manual_seed(seed)
    net = CSP(CSPConfig(**BASE | options), draws).double()
    with torch.no_grad():
        for parameter in net.parameters():
            noise = torch.randn(parameter.shape, generator=draws, dtype=torch.float64)
            parameter.add_(0.2 * noise)
    return net.requires_grad_(False)


def rows(batch: int, steps: int, seed: int = 1) -> Tensor:
    return torch.randint(3, (batch, steps), generator=Generator().manual_seed(seed))


def test_the_last_upload_has_the_parameters_of_the_authors_but_for_two_unused_layers() -> None:
    sizes: dict[str, Any] = {"width": 32, "depth": 3, "vocab_size": 2, "num_classes": 2}
    unused = (2 * 32 + 2) + (2 * 32 + 1)  # two layers that their forward pass never calls
    for options in (LAST, FAST):
        net = CSP(CSPConfig(**sizes | options))
        assert sum(each.numel() for each in net.parameters()) == 4_648 == 4_779 - unused


@pytest.mark.parametrize(
    ("option", "more"),
    [
        ({"angle": "accumulated"}, 0),
        ({"projection": "affine"}, 2 * (4 + 1)),
        ({"projection": "atan2"}, 2 * (2 * 8 - 4)),
        ({"input_map": "linear"}, 2 * 16),
        ({"input_map": "affine"}, 2 * (16 + 4)),
        ({"entrance": "sine"}, 2 * 9),
        ({"entrance": "sine", "gate": "per_channel"}, 2 * 36 + 2 * 27),
        ({"gate_input": "entering"}, 0),
        ({"gate_input": "state"}, 0),
        (CUMULATIVE, 2 * 9),
        ({"norm": "root"}, 0),
        ({"embedding": "narrow"}, 3 * 16 + 4 * 17 - 3 * 8),
        ({"embedding": "scalar"}, 3 + 4 + 4 - 3 * 8),
    ],
)
def test_an_option_has_so_many_parameters_more(option: dict[str, Any], more: int) -> None:
    counts = [
        sum(each.numel() for each in CSP(CSPConfig(**BASE | options)).parameters())
        for options in ({}, option)
    ]
    assert counts[1] - counts[0] == more
    assert CSPConfig(**BASE | option).least_weights <= counts[1]


@each_option
def test_a_state_has_a_plane_for_each_part(options: dict[str, Any]) -> None:
    net = model(options)
    config = net.config
    planes = 2 + 2 * (config.angle == "accumulated") + (config.recurrence == "cumulative")
    assert net.config.planes == planes
    start = net.initial_state(3)
    _, last = net(rows(3, 5), return_state=True)
    assert start.shape == last.shape == (3, 2, planes, 4)
    if config.angle == "accumulated":
        assert torch.equal(start[:, :, 2], torch.ones(3, 2, 4))
        assert not start[:, :, 3].any()
        torch.testing.assert_close(last[:, :, 2:4].norm(dim=2), torch.ones(3, 2, 4).double())
    if config.recurrence == "cumulative":
        assert torch.equal(start[:, :, -1], torch.ones(3, 2, 4))
        assert ((last[:, :, -1] > 0) & (last[:, :, -1] < 1)).all()


def test_layers_of_a_kind_have_none_of_the_planes() -> None:
    config = CSPConfig(**BASE, angle="accumulated", kinds=("rotor", "rotor"))
    net = CSP(config)
    assert config.planes == 2
    state = net(rows(2, 3), return_state=True)[1]
    assert net(rows(2, 3), state).shape == (2, 3, 2)


@each_option
@pytest.mark.parametrize("steps", [0, 1, 2, 63])
def test_all_steps_at_once_are_those_of_a_stream_and_of_chunks(
    options: dict[str, Any], steps: int
) -> None:
    net, tokens = model(options), rows(2, steps)
    scores, last = net(tokens, return_state=True)
    assert scores.shape == (2, steps, 2)
    state, said = net.initial_state(2), []
    for column in tokens.unbind(1):
        state, each = net.step(state, column)
        said.append(each)
    torch.testing.assert_close(scores, torch.stack(said, dim=1) if said else scores)
    torch.testing.assert_close(last, state.expand_as(last))
    streams = [net.stream() for _ in range(2)]
    for row, stream in enumerate(streams):
        for t, token in enumerate(tokens[row].tolist()):
            torch.testing.assert_close(stream.step(token), scores[row, t])
        torch.testing.assert_close(stream.state[0], last[row])
    carried, found = None, []
    for chunk in tokens.split([0, steps // 3, steps - steps // 3], dim=1):
        each, carried = net(chunk, carried, return_state=True)
        found.append(each)
    torch.testing.assert_close(torch.cat(found, dim=1), scores)
    torch.testing.assert_close(carried, last)


@each_option
@pytest.mark.parametrize("backend", ["reference", "torch", "native"])
def test_a_reset_starts_anew(options: dict[str, Any], backend: Any) -> None:
    """Two rows, with resets at other places, one of them before the first token."""
    net, tokens = model(options), rows(2, 20)
    reset = torch.zeros(2, 20, dtype=torch.bool)
    reset[0, [7, 8]] = reset[1, [0, 12]] = True
    with use_backend(backend):
        state = net(rows(2, 5, seed=2), return_state=True)[1]
        scores, last = net(tokens, state, reset=reset, return_state=True)
        for row, cuts in enumerate(([0, 7, 8, 20], [0, 12, 20])):
            for first, end in itertools.pairwise(cuts):
                begin = None if reset[row, first] else state[row : row + 1]
                want, held = net(tokens[row : row + 1, first:end], begin, return_state=True)
                torch.testing.assert_close(scores[row : row + 1, first:end], want)
            torch.testing.assert_close(last[row : row + 1], held)  # pyright: ignore


@each_option
def test_a_state_and_a_reset_pass_gradients_on(options: dict[str, Any]) -> None:
    net, tokens = model(options), rows(2, 6)
    state = net.initial_state(2).clone().requires_grad_()
    reset = torch.zeros(2, 6, dtype=torch.bool)
    reset[0, 2] = True
    scores, last = net(tokens, state, reset=reset, return_state=True)
    (scores[:, 2:].sum() + last.sum()).backward()
    assert state.grad is not None
    assert state.grad.isfinite().all()
    assert state.grad[0].abs().max() < 1e-12, "the first row forgets where it began"
    assert state.grad[1].any()


def test_summed_angles_stay_accurate_over_many_steps() -> None:
    """In single precision a sum of 100,000 angles would be off by a tenth of a radian."""
    draws = Generator().manual_seed(0)
    options = ModelOptions(width=4, depth=1, angle="accumulated", rotation="per_channel")
    block = Released(options, draws)
    z = torch.randn(1, 100_000, 2, 4, generator=draws) + 0.5
    with torch.no_grad():
        theta = block.theta(z).double()
        sums = summed(block.theta(z), torch.zeros(1, 4), None).double()
        _, last = block.states(z, block.start[None], None, None)
    found = torch.stack([sums.cos(), sums.sin()], dim=2)
    torch.testing.assert_close(last[:, 2:4].double(), found[:, -1], rtol=0, atol=5e-7)
    angles = theta.cumsum(dim=1)
    assert angles.abs().max() > 1000, "the sum would not wander far"
    want = torch.stack([angles.cos(), angles.sin()], dim=2)
    torch.testing.assert_close(found, want, rtol=0, atol=5e-7)
    naive = theta.float().cumsum(dim=1)
    assert (naive.cos() - want[:, :, 0]).abs().max() > 1e-5


def test_sums_begin_anew_at_a_reset_however_many_there_are() -> None:
    draws = Generator().manual_seed(1)
    steps = torch.randn(3, 500, 2, generator=draws)
    reset = torch.rand(3, 500, generator=draws) < 0.05
    first = torch.randn(3, 2, generator=draws)
    found = summed(steps, first, reset, around=False)
    total, want = first.double(), []
    for t in range(500):
        total = torch.where(reset[:, t, None], 0, total) + steps[:, t].double()
        want.append(total)
    torch.testing.assert_close(found, torch.stack(want, dim=1).float())


def inside(options: dict[str, Any], seed: int = 3) -> tuple[Released, dict[str, Tensor], list[Tensor]]:
    """A block in float64, its parameters, and an input and a state."""
    draws = Generator().manual_seed(seed)
    block = Released(ModelOptions(width=3, depth=1, **options), draws).double()
    parameters = {
        name: (each + 0.3 * torch.randn(each.shape, generator=draws).double()).detach().requires_grad_()
        for name, each in block.named_parameters()
    }
    z = torch.randn(2, 4, 2, 3, generator=draws).double().requires_grad_()
    state = block.start.expand(2, -1, -1) + 0.3 * torch.randn(2, 1, 1, generator=draws).double()
    return block, parameters, [z, state.detach().requires_grad_()]


CHECKED: list[dict[str, Any]] = [
    {"angle": "accumulated", "rotation": "per_channel"},
    {"angle": "accumulated", "projection": "affine", "activation": "step", "decay": "exp"},
    {"angle": "accumulated", "projection": "atan2", "norm": "root", "h0": "learned", "decay": "unit"},
    {"input_map": "linear", "rotate": "none", "recall": True},
    {"input_map": "affine", "rotate": "state", "projection": "atan2", "decay": "exp"},
    {"entrance": "sine", "gate": "per_channel", "norm": "layer"},
    {"entrance": "sine", "gate_input": "entering", "norm": "root", "decay": "exp"},
    {"gate_input": "entering", "gate": "per_channel", "norm": "none", "decay": "exp"},
    {"gate_input": "state", "norm": "root", "decay": "exp", "recall": True},
    {"gate_input": "state", "entrance": "sine", "angle": "accumulated", "gate": "per_channel"},
    {
        "angle": "accumulated", "projection": "atan2", "input_map": "linear", "entrance": "sine",
        "gate_input": "entering", "decay": "exp", "norm": "root",
    },
]  # fmt: skip


@pytest.mark.parametrize("options", CHECKED, ids=named)
@pytest.mark.parametrize("with_reset", [False, True])
def test_gradients_are_those_of_finite_differences(options: dict[str, Any], with_reset: bool) -> None:
    block, parameters, given = inside(options)
    reset = torch.tensor([[False, False, True, False], [True, False, False, False]])

    def out(*values: Tensor) -> Any:
        own = dict(zip(parameters, values[2:], strict=True))
        return functional_call(block, own, (values[0], values[1], reset if with_reset else None))

    assert gradcheck(out, (*given, *parameters.values()), eps=1e-6, atol=1e-6, rtol=1e-4)


def literally(options: ModelOptions, own: dict[str, Tensor], z: Tensor) -> Tensor:
    """The variant "Fast": sums and products over all steps, constants where it has no gradient."""
    re, im = z[:, :, 0], z[:, :, 1]
    both = z.flatten(2)
    if options.projection == "atan2":
        x, y = torch.tanh(both @ own["angle.weight"].T).chunk(2, dim=2)
        theta = torch.atan2(y, x)
    else:
        theta = math.pi * torch.tanh(re @ own["angle.weight"].T)
    theta = theta.cumsum(dim=1) if options.angle == "accumulated" else theta
    cos, sin = theta.cos(), theta.sin()
    entering = torch.stack([cos * re - sin * im, sin * re + cos * im], dim=2)
    if options.input_map == "linear":
        entering = entering @ own["map.weight"].T
    seen = entering.flatten(2) if options.gate_input == "entering" else both
    gamma = (1 + torch.sin(seen @ own["entrance.weight"].T + own["entrance.bias"])) / 2
    v = gamma[:, :, None] * entering
    seen = v.flatten(2) if options.gate_input == "entering" else both
    alpha = torch.exp(-F.softplus(seen @ own["gate.weight"].T + own["gate.bias"]))
    product = alpha.cumprod(dim=1)[:, :, None]
    before = torch.cat([torch.ones_like(product[:, :1]), product[:, :-1]], dim=1)
    h = own["h0"] if options.h0 == "learned" else 0
    h = product * (h + (v / (before + 1e-9).detach()).cumsum(dim=1))
    h = F.silu(h) + torch.sigmoid(own["skip"]) * z
    squared = h.square().sum(dim=2, keepdim=True)
    modulus = (squared + 1e-8).sqrt() if options.norm == "root" else squared.sqrt() + 1e-8
    return h / modulus.detach()


@pytest.mark.parametrize(
    "options",
    [
        {"norm": "complex"},
        {"norm": "root", "gate": "per_channel", "h0": "learned"},
        {"norm": "root", "gate_input": "entering"},
        {"norm": "complex", "gate_input": "entering", "angle": "accumulated", "gate": "per_channel"},
        {
            "angle": "accumulated", "projection": "atan2", "input_map": "linear",
            "gate_input": "entering", "norm": "root",
        },
    ],
    ids=named,
)  # fmt: skip
@pytest.mark.parametrize("steps", [1, 5, 40])
def test_gradients_of_cumulative_sums_are_those_of_the_literal_ones(
    options: dict[str, Any], steps: int
) -> None:
    block, parameters, _ = inside(options | CUMULATIVE)
    draws = Generator().manual_seed(steps)
    z = torch.randn(2, steps, 2, 3, generator=draws).double().requires_grad_()
    weights = torch.randn(2, steps, 2, 3, generator=draws).double()
    start = parameters.get("h0", block.h0)
    ones, zeros = torch.ones_like(start[:1]), torch.zeros_like(start[:1])
    turned = [ones, zeros] if block.options.summed else []
    state = torch.cat([start, *turned, ones]).expand(2, -1, -1)
    found = functional_call(block, parameters, (z, state))[0]
    want = literally(block.options, parameters, z)
    torch.testing.assert_close(found, want, rtol=1e-9, atol=1e-9)
    given = [z, *parameters.values()]
    one, two = (torch.autograd.grad((each * weights).sum(), given) for each in (found, want))
    for name, mine, theirs in zip(["z", *parameters], one, two, strict=True):
        torch.testing.assert_close(
            mine, theirs, rtol=1e-7, atol=1e-9, msg=lambda m, n=name: f"{n}: {m}"
        )


def test_cumulative_sums_forget_as_their_divisor_does_and_stay_finite() -> None:
    """Far beyond where a product of decays leaves single precision."""
    net = CSP(CSPConfig(**BASE, **CUMULATIVE))
    tokens = rows(1, 3000)
    state = net.initial_state().clone().requires_grad_()
    scores, last = net(tokens, state, return_state=True)
    scores.sum().backward()
    assert scores.isfinite().all()
    assert last.isfinite().all()
    assert all(each.grad is None or each.grad.isfinite().all() for each in net.parameters())
    with torch.no_grad():
        carried, found = None, []
        for chunk in tokens.split(700, dim=1):
            each, carried = net(chunk, carried, return_state=True)
            found.append(each)
    torch.testing.assert_close(torch.cat(found, dim=1), scores.detach(), rtol=1e-4, atol=1e-5)


def test_an_embedding_that_is_not_trained_has_no_gradient() -> None:
    for embedding in ("narrow", "scalar"):
        net = CSP(CSPConfig(**BASE, embedding=embedding))
        net(rows(2, 4)).sum().backward()
        assert net.embedding.grad is None
        assert net.widen.weight.grad is not None
        assert net.widen.weight.grad.any()
        assert not net.rows[:, 1].any()
    assert net.embedding.tolist() == [[0.0], [1.0], [2.0]]  # pyright: ignore


REFUSED: list[tuple[dict[str, Any], str]] = [
    (
        {"projection": "affine", "rotate": "none"},
        "projection='affine' is that of a bounded angle: write rotate='input' or 'state' and "
        "angle='tanh' or 'accumulated', or projection='tanh'",
    ),
    ({"projection": "atan2", "angle": "free"}, "projection='atan2' is that of a bounded angle"),
    (
        {"angle": "accumulated", "rotate": "state"},
        "rotate='state' does not go with angle='accumulated': it is the input that a summed angle "
        "turns; write rotate='input', or angle='tanh'",
    ),
    ({"angle": "accumulated", "rotate": "none"}, "write rotate='input', or angle='tanh'"),
    (
        {"angle": "accumulated", "decay": "switch"},
        "decay='switch' does not go with angle='accumulated': it is the input that a summed angle "
        "turns; write decay='softplus' or 'exp' or 'unit', or angle='tanh'",
    ),
    (
        {"entrance": "sine", "decay": "unit"},
        "decay='unit' does not go with entrance='sine': nothing would be left for δ to decide; write "
        "decay='softplus' or 'exp', or entrance='softplus'",
    ),
    (
        {"gate_input": "state", "activation": "step"},
        "activation='step' does not go with gate_input='state': every step waits for the one before; "
        "write activation='boundary' or 'none', or another `gate_input`",
    ),
    ({"gate_input": "state", "rotate": "state"}, "write rotate='input' or 'none', or another"),
    ({"gate_input": "state", "coupling_rank": 1}, "write coupling_rank=0, or another `gate_input`"),
    (
        {"recurrence": "cumulative"},
        "decay='softplus' does not go with recurrence='cumulative': it is a sum over all steps; write "
        "decay='exp', or recurrence='sequential'",
    ),
    (
        CUMULATIVE | {"entrance": "softplus"},
        "entrance='softplus' does not go with recurrence='cumulative': it is a sum over all steps; "
        "write entrance='sine', or recurrence='sequential'",
    ),
    (
        CUMULATIVE | {"gate_input": "state"},
        "write gate_input='input' or 'entering', or recurrence='sequential'",
    ),
    (CUMULATIVE | {"recall": True}, "write recall=False, or recurrence='sequential'"),
    (CUMULATIVE | {"rotate": "state"}, "write rotate='input' or 'none', or recurrence='sequential'"),
    (
        CUMULATIVE | {"activation": "step"},
        "write activation='boundary' or 'none', or recurrence='sequential'",
    ),
    (CUMULATIVE | {"coupling_rank": 1}, "write coupling_rank=0, or recurrence='sequential'"),
    (
        {"embedding": "narrow", "decay": "count", "rotate": "none", "h0": "line"},
        "decay='count' does not go with embedding='narrow': ",
    ),
    (
        {"embedding": "scalar", "order": 3, "rotate": "state", "angle": "free"},
        "order=3 does not go with embedding='scalar': ",
    ),
    (
        {"embedding": "narrow", "kinds": ("rotor", "router")},
        "layer 2, a router: places=4 does not go with embedding='narrow': ",
    ),
    (
        {"input_map": "linear", "kinds": ("rotor", "rotor")},
        "layer 1, a rotor: decay='switch' does not go with input_map='linear': ",
    ),
]
PLAIN = {"input_map": "affine", "entrance": "sine", "gate_input": "entering"}
ANY = "'softplus' or 'exp' or 'unit'"
DECAYS = {"entrance": "'softplus' or 'exp'"}
REFUSED += [
    (
        {name: value, "decay": decay},
        f"decay='{decay}' does not go with {name}='{value}': it is a part of the paper's recurrence; "
        f"write decay={DECAYS.get(name, ANY)}, or {name}={getattr(ModelOptions, name)!r}",
    )
    for name, value in PLAIN.items()
    for decay in ("reset", "switch", "none")
]
REFUSED += [
    (
        {name: value, "order": 3, "rotate": "state", "angle": "free"},
        f"order=3 does not go with {name}='{value}': it is a part of the paper's recurrence; write "
        f"order=2, or {name}={getattr(ModelOptions, name)!r}",
    )
    for name, value in PLAIN.items()
]


@pytest.mark.parametrize(("options", "sentence"), REFUSED, ids=named)
def test_what_does_not_go_together_is_refused_with_what_to_write(
    options: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(InputError) as refused:
        CSPConfig(**BASE | options)
    assert sentence in str(refused.value)
    assert " write " in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("name", ["released", "released-fast", "released-first"])
def test_a_state_in_another_precision_is_carried_on(name: str) -> None:
    model = CSP(configure("parity", name, width=8).model)
    tokens = torch.randint(2, (2, 6), generator=Generator().manual_seed(0))
    _, state = model(tokens, return_state=True)
    want = model(tokens, state)
    torch.testing.assert_close(model(tokens, state.double()), want)


@pytest.mark.parametrize("name", ["released", "released-fast"])
def test_sums_are_carried_in_single_precision_where_the_model_has_less(name: str) -> None:
    model = CSP(configure("parity", name, width=8).model).bfloat16()
    tokens = torch.randint(2, (1, 64), generator=Generator().manual_seed(0))
    whole, state = model(tokens, return_state=True)
    assert whole.dtype is torch.bfloat16
    assert state.dtype is torch.float32
