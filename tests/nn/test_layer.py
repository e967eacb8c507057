"""`CSPLayer`: its equations, the shapes of its inputs, and its messages about wrong ones."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Generator, nn
from torch.nn.utils.rnn import PackedSequence, pack_sequence, pad_packed_sequence

import csprop
from csprop import CSP, CSPLayer, tasks, use_backend
from csprop.errors import InputError
from csprop.nn import CSPBlock
from csprop.nn.compile import compile_machine
from csprop.ops import native
from csprop.ops import resonate as kernel
from tests.helpers.recurrent import FEATURES, KINDS, TOKENS, WIDTH, draw_inputs, features, layer, tokens

EVERY = pytest.mark.parametrize("name", KINDS)
BACKENDS = ["reference", "torch", *([] if native.WHY_NOT else ["native"])]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("vocab_size", [None, TOKENS])
def test_resonators_are_a_stack_with_residuals(backend: str, vocab_size: int | None) -> None:
    """Of the recurrence that tests/ops/test_resonate.py transcribes."""
    made = layer("resonator", vocab_size=vocab_size).double()
    for each in made.parameters():  # no part is 0 or 1
        each.data += 0.1 * torch.randn(each.shape, generator=_g(each.numel()))
    x, states = draw_inputs(made, 2, 9), []
    want = made.embedding[x] if vocab_size else x
    with use_backend("reference"):
        for block in made.layers:
            theta: Any = block.cell.theta
            entries = block.enter(block.norm(want)).unflatten(2, (5, WIDTH))
            read, last = kernel.resonate(entries, theta, torch.zeros(2, 2, WIDTH).double())
            want = want + block.leave(read)
            states.append(last)
    with use_backend(backend):
        got = made(x)
    torch.testing.assert_close(got, (made.norm(want), torch.stack(states, dim=1)), atol=1e-10, rtol=0)


@EVERY
@pytest.mark.parametrize("vocab_size", [None, TOKENS])
def test_a_reset_ends_a_sequence_that_is_read_from_its_end(name: str, vocab_size: int | None) -> None:
    made = layer(name, bidirectional=True, vocab_size=vocab_size)
    x, reset = draw_inputs(made, 1, 12), torch.zeros(1, 12, dtype=torch.bool)
    reset[0, [0, 5, 6]] = True
    together, end = made(x, reset=reset)
    alone = [made(x[:, begin:stop]) for begin, stop in ((0, 5), (5, 6), (6, 12))]
    torch.testing.assert_close(together, torch.cat([y for y, _ in alone], dim=1), atol=1e-5, rtol=0)
    for first, which in ((0, -1), (1, 0)):  # what reads backwards ends with the first sequence
        want = alone[which][1][:, first::2]
        torch.testing.assert_close(end[:, first::2], want, atol=1e-5, rtol=1e-5)


@EVERY
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("vocab_size", [None, TOKENS])
def test_a_packed_sequence_is_each_row_alone(
    name: str, bidirectional: bool, vocab_size: int | None
) -> None:
    made = layer(name, bidirectional=bidirectional, vocab_size=vocab_size)
    rows = [draw_inputs(made, length, seed=length) for length in (4, 9, 1, 4)]
    first = made.initial_state(4) + torch.randn(made.initial_state(4).shape, generator=_g(6)).round()
    packed = pack_sequence(rows, enforce_sorted=False)
    for state in (None, first):
        output, ends = made(packed, state)
        assert isinstance(output, PackedSequence)
        y, lengths = pad_packed_sequence(output, batch_first=True)
        assert lengths.tolist() == [4, 9, 1, 4]
        for number, row in enumerate(rows):
            want, end = made(row, None if state is None else state[number : number + 1])
            torch.testing.assert_close(y[number, : len(row)], want, atol=1e-5, rtol=0)
            torch.testing.assert_close(ends[number], end[0], atol=1e-5, rtol=1e-5)


def _g(seed: int) -> Generator:
    return Generator().manual_seed(seed)


@EVERY
@pytest.mark.parametrize("vocab_size", [None, TOKENS])
def test_time_may_be_the_first_dimension_and_the_only_one(name: str, vocab_size: int | None) -> None:
    made = layer(name, vocab_size=vocab_size)
    other = layer(name, vocab_size=vocab_size, batch_first=False)
    x, reset = draw_inputs(made, 2, 7), torch.rand(2, 7, generator=_g(4)) < 0.3
    want, end = made(x, reset=reset)
    then, _ = made(x, end)
    y, last = other(x.transpose(0, 1), None, reset.T)
    assert torch.equal(y, want.transpose(0, 1))
    assert torch.equal(last, end)
    assert torch.equal(other(x.transpose(0, 1), end)[0], then.transpose(0, 1))
    want, end = made(x[:1], reset=reset[:1])
    for each in (made, other):
        y, last = each(x[0], reset=reset[0])
        assert torch.equal(y, want[0])
        assert torch.equal(last, end)
        assert torch.equal(each(x[0], last)[0], made(x[:1], end)[0][0])


@pytest.mark.usefixtures("unchecked_shapes")
@EVERY
def test_eight_blocks_learn(name: str) -> None:
    """To say whether the first token has come; without a memory the loss would not fall that far."""
    made = layer(name, depth=8, vocab_size=TOKENS).train()
    head, x = nn.Linear(FEATURES, 2), tokens(8, 6, seed=0)
    nn.init.zeros_(head.weight)
    nn.init.zeros_(head.bias)
    labels, losses = (x == 0).cumsum(dim=1).clamp(max=1), []
    optimizer = torch.optim.Adam([*made.parameters(), *head.parameters()], lr=0.02)
    for _ in range(30):
        loss = nn.functional.cross_entropy(head(made(x)[0]).flatten(0, 1), labels.flatten())
        optimizer.zero_grad()
        loss.backward()
        assert all(each.grad is None or each.grad.isfinite().all() for each in made.parameters())
        optimizer.step()
        losses.append(float(loss.detach()))
    assert all(_moved(block.enter) and _moved(block.leave) for block in made.layers)
    assert losses[0] == pytest.approx(0.693, abs=0.01)
    assert min(losses) < 0.25, losses


def _moved(part: nn.Linear) -> bool:
    return part.weight.grad is not None and bool(part.weight.grad.any())


def test_dropout_is_for_training_alone() -> None:
    made, x = layer("resonator", dropout=0.5), features(2, 9)
    assert torch.equal(made(x)[0], layer("resonator")(x)[0])
    made.train()
    torch.manual_seed(0)
    first = made(x)[0]
    assert not torch.equal(first, made(x)[0])
    torch.manual_seed(0)
    assert torch.equal(first, made(x)[0])
    everything = layer("resonator", dropout=1.0).train()
    assert torch.equal(everything(x)[0], everything.norm(x))


def test_reading_and_compiling_leave_the_random_numbers_of_torch_alone(tmp_path: Path) -> None:
    run = csprop.train("parity", out=tmp_path / "run", epochs=1, samples=8)
    run.model.save_pretrained(tmp_path / "model")
    torch.manual_seed(1)
    state = torch.get_rng_state()
    csprop.load(tmp_path / "run")
    CSP.from_pretrained(tmp_path / "model")
    compile_machine(tasks.get("parity").machine, 2)
    assert torch.equal(torch.get_rng_state(), state)


def shape(name: str, kind: str, sizes: str) -> str:
    return f"{name} must be a dense {kind} tensor of shape ({sizes}) on cpu; got"


def rotor(**options: Any) -> CSPLayer:
    return layer("rotor", **options)


X, TOKEN = "floating-point", "x has a token outside of the vocabulary: write 0 to 2"
STATES = shape("state", X, "2, 2, 2, 4")
SIZE = "write a whole number, 1 or more"
WRONG: dict[str, list[Callable[[], Any]]] = {
    shape("x", X, "batch, time, 6"): [
        lambda: rotor()(torch.zeros(2, 3, 7)),
        lambda: rotor()(pack_sequence([torch.zeros(3, 7)])),
        lambda: CSPBlock(6)(torch.zeros(2, 3, 7)),
    ],
    shape("x", X, "time, batch, 6"): [lambda: rotor(batch_first=False)(torch.zeros(2, 3, 7))],
    shape("x", X, "time, 6"): [lambda: rotor()(torch.zeros(3, 7)), lambda: rotor()(tokens(2, 3))],
    shape("x", X, "batch, 6"): [lambda: rotor().step(torch.zeros(2, 7), rotor().initial_state(2))],
    shape("x", "int64", "batch, time"): [lambda: rotor(vocab_size=3)(features(2, 3))],
    "x must be a dense floating-point tensor": [lambda: rotor()([[0.0] * 6])],
    TOKEN: [
        lambda: layer("resonator", vocab_size=3)(torch.tensor([[0, 3]])),
        lambda: layer("resonator", vocab_size=3)(torch.tensor([[0, -1]])),
        lambda: layer("router", vocab_size=3)(torch.tensor([[0, 3]])),
        lambda: rotor(vocab_size=3).step(torch.tensor([-1]), rotor().initial_state()),
        lambda: CSPBlock(6)(torch.zeros(3, 6), index=torch.tensor([[0, 3]])),
    ],
    STATES: [
        lambda: rotor()(features(2, 3), torch.zeros(2, 1, 2, 4)),
        lambda: layer("resonator")(features(2, 3), torch.zeros(1, 2, 2, 4)),
        lambda: layer("resonator")(features(2, 3), (torch.zeros(2, 2, 4),) * 2),  # of nn.LSTM
    ],
    shape("state", X, "2, 2, 4"): [lambda: CSPBlock(6, 4)(features(2, 3), torch.zeros(1, 2, 3))],
    shape("reset", "bool", "2, 3"): [
        lambda: rotor()(features(2, 3), reset=torch.zeros(3, 2, dtype=torch.bool)),
        lambda: rotor(batch_first=False)(features(2, 3), reset=torch.zeros(2)),
        lambda: CSPBlock(6, 4)(features(2, 3), reset=torch.zeros(2, 2, dtype=torch.bool)),
    ],
    shape("reset", "bool", "3"): [
        lambda: rotor()(features(3), reset=torch.zeros(1, 3, dtype=torch.bool))
    ],
    "kind='resonater': choose from paper, rotor": [lambda: CSPLayer(6, kind="resonater")],  # pyright: ignore
    f"width=0: {SIZE}": [lambda: CSPLayer(6, 0)],
    f"features=0: {SIZE}": [lambda: CSPLayer(0)],
    f"depth=1.5: {SIZE}": [lambda: CSPLayer(6, depth=1.5)],  # pyright: ignore[reportArgumentType]
    f"vocab_size=0: {SIZE}": [lambda: CSPLayer(6, vocab_size=0)],
    "dropout=2: write a probability, from 0 to 1": [lambda: CSPLayer(6, dropout=2)],
    "write depth": [lambda: CSPLayer(4, num_layers=2)],
    "a bidirectional layer has no single step: it reads from both ends": [
        lambda: rotor(bidirectional=True).step(features(2), torch.zeros(2, 4, 2, 4))
    ],
    "a layer of the kind resonator has no option 'order'": [lambda: CSPLayer(6, order=3)],
    "a layer of the kind rotor has no option 'ordre'": [lambda: CSPLayer(6, kind="rotor", ordre=3)],
}


@pytest.mark.usefixtures("unchecked_shapes")  # users have no checks of shapes
@pytest.mark.parametrize("message", WRONG)
def test_a_mistake_is_one_sentence(message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel, "_call", lambda *given, **named: pytest.fail("the kernel was called"))
    for attempt in WRONG[message]:
        with pytest.raises(InputError, match=re.escape(message)):
            attempt()


def test_a_step_of_a_router_in_training_is_soft_too() -> None:
    layer = csprop.CSPLayer(4, 6, kind="router", generator=Generator().manual_seed(0))
    x = torch.randn(3, 5, 4, generator=Generator().manual_seed(1))
    want, _ = layer(x)
    state, steps = layer.initial_state(3), []
    for each in x.unbind(1):
        y, state = layer.step(each, state)
        steps.append(y)
    assert torch.allclose(torch.stack(steps, dim=1), want, atol=1e-5)
    assert not torch.equal(layer.eval()(x)[0], want)
    _, fixed = layer.train().step(x[:, 0], state, lambda number, h: torch.ones_like(h))
    assert torch.equal(fixed, torch.ones_like(state))


def test_a_new_start_is_as_soft_as_a_new_layer() -> None:
    layer = csprop.CSPLayer(4, kind="router")
    layer.temperature = 0.2
    layer.reset_parameters()
    assert layer.temperature == 1
    for wrong in (0.0, -1.0, float("nan"), 1e-40):
        with pytest.raises(InputError, match=r"write a number from 0\.001 to 1000"):
            layer.temperature = wrong
