"""Layers that count: whole numbers, exact or refused; and switches, which move once."""

import itertools
import math
from typing import Any, cast

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Generator

from csprop import CSP, Counter, CSPConfig, Switch, use_backend
from csprop.cells.counter import LARGEST, forms
from csprop.cells.switch import SwitchBlock
from csprop.errors import InputError
from csprop.ops.counts import exact, most, whole

BACKENDS = ("reference", "torch", "native")


def model(width: int = 6) -> CSP:
    sizes: dict[str, Any] = {"vocab_size": 3, "num_classes": 2, "width": width, "decoder": "linear"}
    return CSP(CSPConfig(**sizes, cells=(Counter(), Switch())), Generator().manual_seed(0))


@torch.no_grad()
def counting(increments: list[int]) -> CSP:
    """A model of one channel, to which token k adds `increments[k]`."""
    net = model(width=1)
    net.embedding.zero_()
    net.embedding[:, 0, 0] = torch.tensor(increments)
    return net


@settings(deadline=None, max_examples=50)
@given(
    increments=st.lists(st.integers(-5, 5), min_size=3, max_size=3),
    tokens=st.lists(st.integers(0, 2), min_size=1, max_size=60),
    reset=st.integers(0, 60),
)
def test_the_state_is_the_sum_beside_zero(increments: list[int], tokens: list[int], reset: int) -> None:
    net, begins = counting(increments), torch.tensor([[t == reset for t in range(len(tokens))]])
    since = reset if reset < len(tokens) else 0
    want = [float(sum(increments[token] for token in tokens[since:])), 1.0]
    for backend in BACKENDS:
        with use_backend(backend):
            _, last = net(torch.tensor([tokens]), reset=begins, return_state=True)
        assert last[0, 0, :, 0].tolist() == want


def test_increments_are_rounded_and_learn_as_if_they_were_not() -> None:
    x = torch.tensor([-1.6, -0.5, 0.2, 0.5, 1.5, 2.5], requires_grad=True)
    assert whole(x).tolist() == [-2.0, 0.0, 0.0, 0.0, 2.0, 2.0]
    (whole(x) * torch.arange(6)).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == list(range(6))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("sign", [-1, 1])
def test_a_count_is_right_up_to_the_last_whole_number_and_refused_beyond(
    dtype: torch.dtype, backend: str, sign: int
) -> None:
    net, limit = counting([sign, 0, -sign]).to(dtype), {4: 2**24, 8: 2**53}[dtype.itemsize]
    state = net.initial_state().detach().clone()
    state[:, 0, 0] = sign * (limit - 1)
    beyond = f"a count is not exact: {str(dtype)[6:]} holds whole numbers up to ±{limit:,};"
    with use_backend(backend):
        _, last = net(torch.tensor([[0, 2, 0]]), state, return_state=True)
        assert last[0, 0, 0, 0].item() == sign * limit
        with pytest.raises(InputError, match=beyond):
            net(torch.tensor([[0, 0, 2]]), state)
        one, _ = net.step(state, torch.tensor([0]))
        assert one[0, 0, 0, 0].item() == sign * limit
        with pytest.raises(InputError, match=beyond):
            net.step(one, torch.tensor([0]))
        stream = net.stream()
        stream.state = one.detach()
        with pytest.raises(InputError, match=beyond):
            stream.step(0)
        assert stream.state[0, 0, 0, 0].item() == sign * limit


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
def test_the_limit_is_the_last_of_the_consecutive_whole_numbers(dtype: torch.dtype) -> None:
    limit = torch.tensor(most(dtype), dtype=dtype)
    assert (limit - 1).item() == most(dtype) - 1
    assert (limit + 1).item() != most(dtype) + 1


@pytest.mark.parametrize("wrong", [0.5, float("nan"), float("inf")])
def test_what_is_no_sum_is_refused(wrong: float) -> None:
    counts, before, added = torch.ones(3, 1, 1, 2).unbind()
    assert torch.equal(exact(counts, 0 * before, added), counts)
    with pytest.raises(InputError, match="a count is not exact"):
        exact(counts, before - 1 + wrong, added)


def test_seeds_that_train_together_are_refused_together() -> None:
    nets = [counting([1, 0, 0]), counting([2**23, 0, 0])]
    stacked = {name: torch.stack([net.get_parameter(name) for net in nets])
               for name, _ in nets[0].named_parameters()}  # fmt: skip

    def scores(parameters: dict[str, torch.Tensor], tokens: torch.Tensor) -> torch.Tensor:
        return torch.func.functional_call(nets[0], parameters, (tokens,))

    tokens = torch.zeros(2, 1, 2, dtype=torch.int64)
    assert torch.func.vmap(scores)(stacked, tokens).shape == (2, 1, 2, 2)
    with pytest.raises(InputError, match="a count is not exact"):
        torch.func.vmap(scores)(stacked, torch.zeros(2, 1, 3, dtype=torch.int64))


def test_a_switched_channel_keeps_its_point() -> None:
    """It is at its start or at its point, and never goes back."""
    net, seen = model(width=8), set()
    latch = cast(SwitchBlock, net.layers[1])
    torch.nn.init.zeros_(latch.gate.bias)  # some gates open late
    tokens = torch.tensor(list(itertools.product(range(3), repeat=5)))
    state = net.initial_state(len(tokens))
    point = latch.point / latch.point.norm(dim=0)
    before = torch.zeros(len(tokens), 8, dtype=torch.bool)
    for token in tokens.unbind(1):
        state, _ = net.step(state, token)
        moved = (state[:, 1] - point).abs().amax(dim=1) < 1e-6
        assert torch.where(moved, 0, (state[:, 1] - latch.start).abs().amax(dim=1)).max() < 1e-6
        assert not (before & ~moved).any()
        before, seen = moved, seen | set(moved.flatten().tolist())
    assert seen == {False, True}


def test_the_gradient_of_a_count_goes_to_every_step_before_it() -> None:
    """The sum of the increments, as if they were not rounded."""
    net = counting([1, -1, 0]).double()
    tokens = torch.tensor([[0, 0, 1, 2, 0]])
    block, z = net.layers[0], net.embedding.detach()[tokens].requires_grad_()
    h, _ = block.recur(block.transition(z), block.start[None], None, None)
    (h[0, :, 0, 0] * torch.tensor([1.0, 10, 100, 1000, 10000])).sum().backward()
    assert z.grad is not None
    assert z.grad[0, :, 0, 0].tolist() == [11111, 11110, 11100, 11000, 10000]
    assert not z.grad[0, :, 1].any()


@pytest.mark.parametrize("tokens", [1, 2, 3])
def test_increments_are_all_small_ones_that_can_return_to_zero(tokens: int) -> None:
    """Enumerated: of n and −n one, no common divisor, both signs, or a single token."""
    listed = [form for each in forms(tokens) for form in each]
    cube = itertools.product(range(-LARGEST, LARGEST + 1), repeat=tokens)
    small = [form for form in cube if 0 < sum(map(abs, form)) <= LARGEST and math.gcd(*form) == 1]
    single = [form for form in small if sum(map(abs, form)) == 1]
    wanted = single + [form for form in small if min(form) < 0 < max(form)]
    assert len(set(listed)) == len(listed) == len(wanted) // 2
    assert set(listed) <= set(wanted)
    assert not {tuple(-each for each in form) for form in listed} & set(listed)
    sizes = [sum(map(abs, form)) for form in listed]
    assert sizes == sorted(sizes)


@pytest.mark.parametrize(("tokens", "width"), [(1, 1), (2, 16), (3, 32), (50, 32)])
def test_a_first_layer_has_the_smallest_increments_and_tells_tokens_apart(
    tokens: int, width: int
) -> None:
    config = CSPConfig(
        vocab_size=tokens, num_classes=2, width=width, depth=1, cell=Counter(), decoder="linear"
    )
    net = CSP(config)
    increments = net.embedding[:, 0].round().T.int().tolist()
    assert increments[: width // 4] == [[0] * tokens] * (width // 4)
    sizes = [sum(map(abs, each)) for each in increments[width // 4 :]]
    known = [form for each in forms(tokens) for form in each]
    drawn = {max(tuple(each), tuple(-n for n in each)) for each in increments[width // 4 :]}
    assert drawn <= set(known)
    assert len(drawn) == min(len(known), width - width // 4)
    assert sizes[: len(drawn)] == sorted(sizes[: len(drawn)])
    far = torch.zeros(tokens, 1, 2, width)
    far[:, 0, 0], far[:, 0, 1] = 1e6, 1.0  # where counts are large, they do not tell
    far[:, 0, :, : width // 4] = torch.tensor([0.0, 1.0])[:, None]
    seen = net.layers[0].finish(far, net.embedding[:, None])
    if tokens > 1:
        assert torch.pdist(seen.flatten(1).detach()).min() > 0.05
    net(torch.arange(tokens)[None]).sum().backward()
    assert net.embedding.grad is None
