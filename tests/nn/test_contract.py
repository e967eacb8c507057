"""The contract of everything recurrent: models of tokens, and layers of features or of tokens."""

import copy
import io
import itertools
import pickle
from typing import Any

import pytest
import torch
from torch import Generator, Tensor, nn

from csprop import CSP, use_backend
from csprop.ops import native
from tests.helpers.recurrent import NETS, draw_inputs, gradients, run, step

EVERY = pytest.mark.parametrize("name", NETS)
BACKENDS = ["reference", "torch", *([] if native.WHY_NOT else ["native"])]
CLOSE: Any = {"atol": 1e-5, "rtol": 1e-5}


def some_resets(*sizes: int) -> Tensor:
    return torch.rand(sizes, generator=Generator().manual_seed(4)) < 0.3


@EVERY
def test_pieces_of_any_size_and_single_steps_give_the_whole(name: str) -> None:
    net = NETS[name](3)
    x = draw_inputs(net, 2, 40)
    want, end = run(net, x)
    for cuts in ([0, 1, 18, 40], [0, 0, 39, 40], [0, 5, 5, 40]):
        pieces, state = [], None
        for begin, stop in itertools.pairwise(cuts):
            y, state = run(net, x[:, begin:stop], state)
            pieces.append(y)
        torch.testing.assert_close(torch.cat(pieces, dim=1), want, **CLOSE)
        torch.testing.assert_close(state, end, **CLOSE)
    state, steps = net.initial_state(2), []
    for each in x.unbind(1):
        y, state = step(net, each, state)
        steps.append(y)
    torch.testing.assert_close(torch.stack(steps, dim=1), want, **CLOSE)
    torch.testing.assert_close(state, end, **CLOSE)


@EVERY
def test_a_reset_begins_another_sequence(name: str) -> None:
    net = NETS[name](3)
    x, reset = draw_inputs(net, 1, 12), torch.zeros(1, 12, dtype=torch.bool)
    reset[0, [3, 5, 6]] = True
    _, elsewhere = run(net, draw_inputs(net, 1, 7, seed=2))
    together, end = run(net, x, elsewhere, reset)
    parts = [run(net, x[:, :3], elsewhere)]
    parts += [run(net, x[:, begin:stop]) for begin, stop in ((3, 5), (5, 6), (6, 12))]
    torch.testing.assert_close(together, torch.cat([y for y, _ in parts], dim=1), **CLOSE)
    torch.testing.assert_close(end, parts[-1][1], **CLOSE)


@EVERY
@pytest.mark.parametrize(("batch", "steps"), [(0, 4), (2, 0), (0, 0), (1, 1)])
def test_empty_batches_and_single_steps_work(name: str, batch: int, steps: int) -> None:
    net = NETS[name](3).train()
    before = net.initial_state(batch) + 1
    y, last = run(net, draw_inputs(net, batch, steps), before)
    assert (y.shape[:2], last.shape) == ((batch, steps), before.shape)
    if not steps:
        assert torch.equal(last, before)
    y.sum().backward()


@EVERY
def test_backends_agree_in_values_states_and_gradients(name: str) -> None:
    net = NETS[name](3).double().train()
    x, reset = draw_inputs(net, 2, 33), some_resets(2, 33)
    start = net.initial_state(2).detach().clone().requires_grad_()
    wanted = [start, *(each for each in net.parameters() if each.requires_grad)]
    results = []
    for backend in BACKENDS:
        with use_backend(backend):
            outputs = run(net, x, start, reset)
            found = gradients(lambda x: run(net, x, start, reset), x, wanted)
            results.append([*outputs, *found])
    assert len(results[0]) > 5
    for others in results[1:]:
        torch.testing.assert_close(others, results[0])


@EVERY
def test_parameters_come_from_torch_unless_a_generator_is_given(name: str) -> None:
    kind = type(NETS[name](3))
    options: Any = {"config": NETS[name](3).config} if kind is CSP else NETS[name](3)._options

    def draw(seed: int, generator: Generator | None) -> list[Tensor]:
        torch.manual_seed(seed)
        return list(kind(**options, generator=generator).state_dict().values())

    def same(these: list[Tensor], those: list[Tensor]) -> bool:
        return all(torch.equal(*pair) for pair in zip(these, those, strict=True))

    assert same(draw(1, None), draw(1, None))
    assert not same(draw(1, None), draw(2, None))
    assert same(draw(1, Generator().manual_seed(5)), draw(2, Generator().manual_seed(5)))
    torch.manual_seed(7)
    before = torch.get_rng_state()
    NETS[name](5)
    assert torch.equal(torch.get_rng_state(), before)


@EVERY
@pytest.mark.parametrize(("dtype", "near"), [(torch.float16, 0.02), (torch.bfloat16, 0.3)])
@pytest.mark.parametrize("autocast", [False, True])
def test_half_precision(name: str, dtype: torch.dtype, near: float, autocast: bool) -> None:
    """States stay in float32, and all results are near those of float32, trained and not."""
    net = NETS[name](3)
    for each in net.parameters():  # rounding the weights is another matter
        each.data = each.data.to(dtype).float()
    half = copy.deepcopy(net) if autocast else copy.deepcopy(net).to(dtype)
    x, other = draw_inputs(net, 2, 9), draw_inputs(half, 2, 9)
    want, end = run(net, x)
    with torch.autocast("cpu", dtype=dtype, enabled=autocast):
        y, state = run(half, other)
        last, steps = half.initial_state(2), []
        for each in other.unbind(1):
            one, last = step(half, each, last)
            steps.append(one)
        learned, _ = run(half.train(), other, state)
    assert {each.dtype for each in (state, last, half.initial_state())} == {torch.float32}
    if isinstance(net, CSP) or not autocast:
        assert y.dtype == dtype
    for got in (y, torch.stack(steps, dim=1)):
        torch.testing.assert_close(got.float(), want, atol=near, rtol=near)
    torch.testing.assert_close(learned.float(), run(net.train(), x, end)[0], atol=near, rtol=near)
    learned.float().square().sum().backward()
    found = [each.grad for each in half.parameters() if each.grad is not None]
    assert found
    assert all(each.isfinite().all() for each in found)


@EVERY
def test_a_network_without_values_gets_them_later(name: str) -> None:
    net = NETS[name](3)
    x = draw_inputs(net, 2, 5)
    want = run(net, x)
    with torch.device("meta"):
        later = NETS[name](3)
    assert all(each.is_meta for each in (*later.parameters(), *later.buffers()))
    y, last = run(later, x.to("meta"))
    assert (y.shape, last.shape) == (want[0].shape, want[1].shape)
    assert y.is_meta
    drawn = copy.deepcopy(later).to_empty(device="cpu")
    drawn.reset_parameters(Generator().manual_seed(3))
    torch.testing.assert_close(run(drawn, x), want, atol=0, rtol=0)
    read = later.to_empty(device="cpu")
    read.load_state_dict(net.state_dict())
    torch.testing.assert_close(run(read, x), want, atol=0, rtol=0)
    for each in (*read.parameters(), *read.buffers()):
        each.detach().fill_(torch.nan)
    read.reset_parameters(Generator().manual_seed(3))
    torch.testing.assert_close(run(read, x), want, atol=0, rtol=0)


def save(net: nn.Module) -> Any:
    file = io.BytesIO()
    torch.save(net, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


@EVERY
@pytest.mark.parametrize("make", [copy.deepcopy, lambda net: pickle.loads(pickle.dumps(net)), save])
def test_copies_are_the_same_and_apart(name: str, make: Any) -> None:
    net = NETS[name](3)
    x = draw_inputs(net, 2, 5)
    want, other = run(net, x)[0].detach(), make(net)
    assert torch.equal(run(other, x)[0], want)
    last = other.decoder.linear if isinstance(other, CSP) else other.layers[0].leave
    with torch.no_grad():
        last.weight.add_(1.0)
    assert torch.equal(run(net, x)[0], want)
    assert not torch.equal(run(other, x)[0], want)


@EVERY
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_a_long_input_stays_finite(name: str, dtype: torch.dtype) -> None:
    net = NETS[name](3).to(dtype)
    y, state = run(net, draw_inputs(net, 1, 3000))
    assert y.isfinite().all()
    assert state.isfinite().all()
    y.float().logsumexp(dim=2).mean().backward()
    gradients = [each.grad for each in net.parameters() if each.grad is not None]
    assert all(each.isfinite().all() for each in gradients)
    assert any(each.any() for each in gradients)
