"""A training step in one call of the kernel, against autograd and the Adam of torch."""

import copy
import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from csprop import CSP, CSPConfig, Paper, Rotor, use_backend
from csprop.errors import InputError
from csprop.nn.kernel import row_scores, why_not
from csprop.ops import native
from csprop.ops.native import model as models
from csprop.ops.native.model import Rows
from csprop.ops.native.step import Taken, take
from csprop.training.presets import Recipe
from csprop.training.steps import loss
from tests.helpers.descent import (
    CELLS,
    VOCABULARY,
    Torch,
    agree,
    close,
    drawn,
    make,
    model,
    natively,
    small,
)
from tests.helpers.options import config, configs, vary
from tests.helpers.processor import in_threads, passes_with_the_plain_kernel

pytestmark = pytest.mark.skipif(bool(native.WHY_NOT), reason=native.WHY_NOT)


@pytest.mark.parametrize(
    ("classes", "last", "kind"),
    [(2, False, "focal"), (4, True, "focal"), (2, True, "cross_entropy"), (4, False, "cross_entropy")],
)
@pytest.mark.parametrize("name", CELLS)
def test_every_cell_learns_as_with_autograd(name: str, classes: int, last: bool, kind: Any) -> None:
    agree(model(name, classes=classes), Recipe(loss=kind, clip_norm=0.3), steps=20, last=last)


@pytest.mark.parametrize(("clip_norm", "weight_decay"), [(0.05, 1e-4), (1e9, 0.5)])
@pytest.mark.parametrize("name", CELLS)
def test_weights_decay_as_with_torch(name: str, weight_decay: float, clip_norm: float) -> None:
    """After each step every parameter and both moments; gradients are clipped before weights decay."""
    recipe = Recipe(lr=0.01, weight_decay=weight_decay, clip_norm=clip_norm)
    net = model(name, width=6)
    other, descent = Torch(net, recipe), natively(net, recipe)
    for number in range(8):
        rows = drawn(5, 6, seed=number)
        (found,) = take([(descent, rows, clip_norm)])
        norm = other.step(rows)[1]
        assert (norm > clip_norm) == (clip_norm < 1)
        assert found.norm == pytest.approx(norm, rel=1e-9)
        for got, want in zip(net.parameters(), other.net.parameters(), strict=True):
            close(got, want, 1e-10)
            ours, theirs = descent.optimizer.state.get(got, {}), other.adam.state.get(want, {})
            assert ours.keys() == theirs.keys()
            for key, value in theirs.items():
                close(ours[key], value, 1e-10)


@pytest.mark.parametrize("name", ["rotor", "router", "counter and switch"])
def test_what_is_not_trained_does_not_decay(name: str) -> None:
    """Not what is frozen here, nor what has no gradient, as that by which a router chooses its map."""
    net = model(name)
    net.embedding.requires_grad_(False)
    before = {key: each.clone() for key, each in net.state_dict().items()}
    descent = natively(net, Recipe(weight_decay=0.5))
    for number in range(3):
        take([(descent, drawn(5, 6, seed=number), 1.0)])
    trained = {key for key, each in net.named_parameters() if each.grad is not None}
    assert "embedding" not in trained
    assert ("blocks.0.keys.weight" in before) == name.startswith("router")
    assert "blocks.0.keys.weight" not in trained
    for key, each in net.state_dict().items():
        assert torch.equal(each, before[key]) == (key not in trained), key


@pytest.mark.parametrize("name", vary())
def test_every_single_option_learns_as_with_autograd(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    agree(make(config(vary()[name])), Recipe(), taken=3)
    monkeypatch.setattr(models, "WHOLE", 2)
    monkeypatch.setattr(models, "SPAN", 3)
    agree(make(config(vary()[name])), Recipe(), taken=1)


@pytest.mark.parametrize("steps", [models.WHOLE, models.WHOLE + 1, models.WHOLE + 2 * models.SPAN])
def test_long_rows_learn_as_with_autograd(steps: int) -> None:
    agree(model(width=4), Recipe(), steps=steps, taken=1)


@settings(max_examples=100)
@given(
    chosen=configs(),
    steps=st.sampled_from([1, 2, 15, 16, 17]),
    last=st.booleans(),
    recipe=st.builds(
        Recipe,
        loss=st.sampled_from(["cross_entropy", "focal"]),
        focal_gamma=st.sampled_from([0.0, 0.5, 2.0]),
        lr=st.sampled_from([1e-4, 1e-3]),
        clip_norm=st.sampled_from([0.05, 1.0, 1e9]),
        weight_decay=st.sampled_from([0.0, 0.1]),
    ),
)
def test_any_stack_of_cells_learns_as_with_autograd(
    chosen: CSPConfig, steps: int, last: bool, recipe: Recipe
) -> None:
    agree(make(chosen), recipe, steps, last)


def bits(nets: list[CSP], batches: list[Rows], steps: int = 3) -> tuple[list[Taken], list[Tensor]]:
    """What some steps of several models give: the outcome of the last, parameters and Adam's state."""
    descents = [natively(net, Recipe()) for net in nets]
    found: list[Taken] = []
    for _ in range(steps):
        found = take([(each, rows, 1.0) for each, rows in zip(descents, batches, strict=True)])
    tensors = [p.detach() for net in nets for p in net.parameters()]
    for descent in descents:
        tensors += [each for state in descent.optimizer.state.values() for each in state.values()]
    return found, tensors


@pytest.mark.parametrize("name", CELLS)
def test_models_in_one_call_are_what_they_are_alone(name: str) -> None:
    """To the bit, though one has fewer rows, and they are shorter."""
    sizes = [(40, 20), (7, 3), (40, 20)]
    batches = [drawn(*size, seed=seed) for seed, size in enumerate(sizes)]
    together, several = bits([model(name, seed) for seed in range(3)], batches)
    alone = [bits([model(name, seed)], [batches[seed]]) for seed in range(3)]
    assert together == [found for each, _ in alone for found in each]
    count = len(list(model(name).parameters()))
    for seed, (_, single) in enumerate(alone):
        for place in range(count):
            assert torch.equal(several[seed * count + place], single[place])


@pytest.mark.parametrize("name", CELLS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_steps_are_the_same_bits_with_any_number_of_threads(name: str, dtype: torch.dtype) -> None:
    def run() -> tuple[list[Taken], list[Tensor]]:
        return bits([model(name).to(dtype)], [drawn(150, 40)])

    found, tensors = run()
    for again, same in in_threads(run):
        assert again == found
        assert all(torch.equal(x, y) for x, y in zip(same, tensors, strict=True))


@pytest.mark.parametrize("name", CELLS)
@pytest.mark.parametrize("width", [3, 9, 33, 66])
def test_float32_is_near_float64_at_any_width(name: str, width: int) -> None:
    """As near as torch's, where the model itself makes much of small differences: angles by atan2."""
    wide = model(name, width=width)
    narrow = copy.deepcopy(wide).float()
    rows = drawn(20, 30)
    ((tokens, labels),) = rows
    with use_backend("reference"):
        loss(narrow(tokens), labels, Recipe()).backward()
    by_torch = [p.grad for p in narrow.parameters()]
    narrow.zero_grad(set_to_none=True)
    found = [take([(natively(net, Recipe()), rows, 1.0)])[0] for net in (wide, narrow)]
    assert found[1].loss == pytest.approx(found[0].loss, rel=1e-5)
    ours, theirs, sizes = [], [], []
    for double, single, same in zip(wide.parameters(), narrow.parameters(), by_torch, strict=True):
        if double.grad is None or single.grad is None or same is None:
            assert double.grad is single.grad is same
            continue
        ours.append(float((single.grad - double.grad).norm()))
        theirs.append(float((same - double.grad).norm()))
        sizes.append(float(double.grad.norm()))
    near = all(error <= 1e-4 * size + 1e-6 for error, size in zip(ours, sizes, strict=True))
    assert near or math.hypot(*ours) <= 5 * math.hypot(*theirs)


@pytest.mark.parametrize("name", CELLS)
def test_rows_in_parts_have_the_gradient_of_all_rows(name: str) -> None:
    """A part is padded to a length of its own; padding is no label, whatever token it has."""
    ((tokens, labels),) = drawn(40, 12)
    labels[20:, 5:] = -1
    parts = [(tokens[:20], labels[:20]), (tokens[20:, :5], labels[20:, :5])]
    gradients = []
    for rows in ([(tokens, labels)], parts):
        descent = natively(model(name), Recipe())
        (found,) = take([(descent, rows, 1.0)])
        gradients.append((found, descent.gradient))
    (one, whole), (other, divided) = gradients
    assert (one.loss, one.norm, one.hits) == pytest.approx((other.loss, other.norm, other.hits))
    close(divided, whole, 1e-12)


GROWING = [
    Paper(), Paper(rotate="state"), Paper(rotation="per_channel", gate="per_channel"),
    Paper(activation="step"), Paper(norm="none"), Paper(norm="layer", coupling_rank=2),
    Paper(norm="none", activation="none", rotate="state", rotation="per_channel"),
]  # fmt: skip


@pytest.mark.parametrize("cell", GROWING)
def test_saturated_states_learn_as_with_autograd(cell: Paper) -> None:
    """A gate of softplus(3) in every layer: states pass 2^60 within 60 steps."""
    net = make(config(cell, decoder="cos_sin" if cell.norm == "complex" else "linear"))
    with torch.no_grad():
        for block in net.layers:
            block.gate.bias.fill_(3.0)  # pyright: ignore
    _, last = net(torch.zeros(1, 100, dtype=torch.int64), return_state=True)
    assert torch.linalg.vector_norm(last, dim=2).max().item() > 2.0**59
    agree(net, Recipe(), steps=100, last=True, taken=1)


@pytest.mark.parametrize("order", [2, 3])
def test_angles_beyond_their_limit_learn_as_with_autograd(order: int) -> None:
    net = make(config(Rotor(order=order), depth=1))
    with torch.no_grad():
        net.layers[0].angle.weight.mul_(6e2)  # pyright: ignore
    theta = net.layers[0].theta(net.embedding[None]).abs()  # pyright: ignore
    assert theta.min() < 1024 == theta.max()
    agree(net, Recipe(), taken=1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_counts_that_are_not_exact_are_refused(dtype: torch.dtype) -> None:
    net = model("counter and switch").to(dtype)
    limit = 2.0 ** (24 if dtype is torch.float32 else 53)
    rows = [(torch.zeros(1, 2, dtype=torch.int64), torch.ones(1, 2, dtype=torch.int64))]
    for step_size, refused in ((limit / 2, False), (limit / 2 + 2, True)):
        with torch.no_grad():
            net.embedding[0, 0] = step_size
        before = [p.detach().clone() for p in net.parameters()]
        descent = natively(net, Recipe())
        if not refused:
            assert take([(descent, rows, 1.0)])[0].taken
            continue
        with pytest.raises(InputError, match=f"holds whole numbers up to ±{int(limit):,}"):
            take([(descent, rows, 1.0)])
        assert all(map(torch.equal, before, net.parameters()))


@pytest.mark.parametrize("span", [2, 1000])
def test_gradients_that_a_growing_state_passes_back_are_bounded_alike(
    span: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """δ of 20 and inputs of nothing: the gradient of the first state would be 20^40."""
    monkeypatch.setattr(models, "WHOLE", 2)
    monkeypatch.setattr(models, "SPAN", span)
    cell = Paper(rotate="none", skip=False, activation="none", norm="none", h0="learned")
    net = make(config(cell, depth=1, decoder="linear"))
    block: Any = net.layers[0]
    with torch.no_grad():
        net.embedding.zero_()
        block.h0.mul_(1e-60)
        block.gate.weight.zero_()
        block.gate.bias.fill_(20.0)
    descent = natively(net, Recipe())
    want = Torch(net, Recipe()).step(drawn(2, 40, last=True))[3]
    take([(descent, drawn(2, 40, last=True), 1.0)])
    assert block.h0.grad is not None
    assert block.h0.grad.abs().max() > 2.0**30
    for parameter, gradient in zip(net.parameters(), want, strict=True):
        assert parameter.grad is not None
        assert gradient is not None
        close(parameter.grad / 2.0**30, gradient / 2.0**30)


@pytest.mark.parametrize("turning", [{}, {"rotate": "state", "rotation": "per_channel"}])
def test_outputs_beyond_their_limit_learn_as_with_autograd(turning: Any) -> None:
    """A first state of some 10^7, with the state kept as it is; the scores are made small again.

    A layer that turns every channel goes through a row some channels at a time.
    """
    cell = Paper(decay="unit", activation="none", norm="none", h0="learned", **turning)
    net = make(config(cell, depth=1, decoder="linear"))
    with torch.no_grad():
        net.layers[0].h0.mul_(1e7)
        net.decoder.linear.weight.mul_(1e-6)  # pyright: ignore
    agree(net, Recipe(), steps=5, taken=1)


@pytest.mark.parametrize("where", ["loss", "gradient"])
def test_a_step_that_is_not_finite_changes_nothing(where: str) -> None:
    net = model("rotor")
    descent = natively(net, Recipe())
    take([(descent, drawn(5, 6), 1.0)])
    with torch.no_grad():
        if where == "loss":
            net.embedding[1, 0, 0] = torch.nan
        else:  # the loss is 10^200, its square in the norm is not
            net.decoder.linear.weight.mul_(1e200)  # pyright: ignore
    kept = [each.clone() for each in descent.optimizer.state[net.embedding].values()]
    before = [p.detach().clone() for p in net.parameters()]
    (found,) = take([(descent, drawn(5, 6), 1.0)])
    assert not found.taken
    for old, new in zip(before, net.parameters(), strict=True):
        torch.testing.assert_close(new.detach(), old, rtol=0, atol=0, equal_nan=True)
    state = descent.optimizer.state[net.embedding].values()
    assert all(torch.equal(a, b) for a, b in zip(kept, state, strict=True))


def test_labels_that_are_not_contiguous_are_read_right() -> None:
    ((tokens, labels),) = drawn(6, 5)
    strided = (tokens.mT.contiguous().mT, torch.stack([labels, labels * 0], dim=-1)[..., 0])
    found = [take([(natively(small(), Recipe()), [rows], 1.0)]) for rows in ((tokens, labels), strided)]
    assert found[0] == found[1]


@pytest.mark.slow
def test_the_plain_kernel_learns_the_same() -> None:
    """The tests of presets in a process that does not use the instructions of this processor."""
    passes_with_the_plain_kernel(__file__, test_every_cell_learns_as_with_autograd.__name__)


def test_a_large_vocabulary_learns_as_with_autograd() -> None:
    """Most of its tokens are in no batch; chunks share their gradients' memory."""
    agree(make(config(Paper(), vocab_size=700, width=4)), Recipe(), steps=30, taken=3, rows=40)


@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize("value", [VOCABULARY + 1, 99, 10**12])
def test_a_token_or_a_label_out_of_range_is_refused(place: int, value: int) -> None:
    rows = drawn(3, 4)
    rows[0][place][1, 2] = value
    with pytest.raises(InputError, match="outside of its range"):
        take([(natively(small(), Recipe()), rows, 1.0)])


def test_a_model_that_the_kernel_does_not_train_is_named() -> None:
    def says(reason: str, change: Any) -> None:
        net = small()
        change(net)
        assert reason in why_not(net), reason

    assert why_not(nn.Linear(2, 2)) == "the model is not a CSP"
    assert why_not(type("Own", (CSP,), {})(small().config)) == "the model is not a CSP"
    says("hook", lambda net: net.embedding.register_hook(lambda gradient: gradient))
    says("hook", lambda net: net.embedding.register_post_accumulate_grad_hook(lambda _: None))
    says("hook", lambda net: net.blocks[0].register_forward_hook(lambda *_: None))
    says("replaced", lambda net: setattr(net, "decoder", nn.Sequential(net.decoder)))
    says("one type", lambda net: net.to(torch.bfloat16))
    says("one type", lambda net: net.decoder.float())
    skip = nn.Parameter(torch.tensor([0.3], dtype=torch.float64))
    says("not those that it was made with", lambda net: setattr(net.blocks[1], "skip", skip))
    says("not trained", lambda net: net.embedding.requires_grad_(False))
    with use_backend("torch"):
        says("the backend is torch", lambda net: None)
    with torch.autocast("cpu"):
        says("autocast is on", lambda net: None)
    handle = nn.modules.module.register_module_forward_hook(lambda *_: None)
    says("hook", lambda net: None)
    handle.remove()
    assert not why_not(small())


@pytest.mark.parametrize(
    ("tokens", "labels"),
    [
        (torch.zeros(4, 7, dtype=torch.int64), torch.zeros(2, 7, dtype=torch.int64)),
        (torch.zeros(2, 7, dtype=torch.int32), torch.zeros(2, 7, dtype=torch.int64)),
        (torch.zeros(2, 7, dtype=torch.int64), torch.zeros(2, 7)),
        (torch.zeros(7, dtype=torch.int64), torch.zeros(7, dtype=torch.int64)),
    ],
)
def test_rows_of_other_types_or_shapes_are_refused(tokens: Tensor, labels: Tensor) -> None:
    net = small()
    with pytest.raises(InputError, match="int64 tensors of one shape"):
        take([(natively(net, Recipe()), [(tokens, labels)], 1.0)])
    with pytest.raises(InputError, match="int64 tensors of one shape"):
        row_scores(net, tokens, labels)


@pytest.mark.parametrize("rows", [0, 3])
def test_rows_without_a_label_change_nothing(rows: int) -> None:
    net, tokens = small(), torch.zeros(rows, 4, dtype=torch.int64)
    before = copy.deepcopy(net.state_dict())
    (found,) = take([(natively(net, Recipe()), [(tokens, tokens - 1)], 1.0)])
    assert not found.taken
    assert all(torch.equal(before[name], each) for name, each in net.state_dict().items())
