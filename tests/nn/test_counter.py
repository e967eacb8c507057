"""Layers that count, exactly or not at all; switches, which move once; routers, soft in training."""

import itertools
import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Generator

from csprop import CSP, Counter, CSPConfig, Router, Switch, use_backend
from csprop.cells.counter import LARGEST, forms
from csprop.cells.options import Shape
from csprop.cells.router import RouterBlock, lead
from csprop.errors import InputError
from csprop.ops.counts import exact, whole

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


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_counts_in_half_precision_are_those_of_float32(dtype: torch.dtype) -> None:
    """Neither type holds 2,500 and its neighbours."""
    net, row = counting([0, 1, 0]), torch.ones(1, 2500, dtype=torch.int64)
    _, want = net(row, return_state=True)
    _, got = net.to(dtype)(row, return_state=True)
    assert want[0, 0, 0, 0] == 2500
    assert torch.equal(got[:, 0], want[:, 0])


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


def routing(vocab: int = 3, seed: int = 0, width: int = 8, depth: int = 1, **options: Any) -> CSP:
    sizes: dict[str, Any] = {"vocab_size": vocab, "num_classes": 2, "width": width, "depth": depth}
    cell = Router(**{"places": 4, **options})
    return CSP(CSPConfig(**sizes, cell=cell, decoder="linear"), Generator().manual_seed(seed))


@pytest.mark.parametrize(("vocab", "width"), [(2, 1), (40, 4), (1000, 8)])
def test_every_token_chooses_its_own_map(vocab: int, width: int) -> None:
    """Also where there are more tokens than numbers in a row."""
    for seed in range(3):
        net = routing(vocab, seed, width=width, places=width)
        scores, _ = net.routers[0].transition(net.embedding[None])
        assert scores[0].argmax(dim=1).tolist() == list(range(vocab))


def test_a_cold_column_is_the_hard_one() -> None:
    net, tokens = routing(), torch.randint(3, (5, 20), generator=Generator().manual_seed(1))
    hard = net.eval()(tokens)
    distances = []
    for temperature in (1.0, 0.1, 1e-3, 1e-6):
        net.train().routers[0].temperature = temperature
        distances.append(float((net(tokens) - hard).detach().abs().max()))
    assert distances == sorted(distances, reverse=True)
    assert distances[-1] < 1e-4 < distances[0]


@pytest.mark.parametrize("options", [{}, {"maps": 2}, {"depth": 2}])
def test_choices_of_maps_are_learned_unless_tokens_choose_themselves(
    options: dict[str, Any],
) -> None:
    net, tokens = routing(**options), torch.randint(3, (4, 9), generator=Generator().manual_seed(4))
    net.train()(tokens).square().sum().backward()
    learned = {name for name, p in net.named_parameters() if p.grad is not None and p.grad.any()}
    fixed = {"embedding", "blocks.0.keys.weight", "blocks.0.keys.bias"}
    parameters = {name for name, _ in net.named_parameters()}
    assert learned == (parameters if "maps" in options else parameters - fixed)


def test_a_layer_without_tokens_needs_a_number_of_maps() -> None:
    with pytest.raises(InputError, match="this layer has no tokens: choose a number of maps"):
        RouterBlock(Router(places=4), Shape(8), Generator())
    assert RouterBlock(Router(places=4, maps=5), Shape(8), Generator()).maps.shape == (5, 2, 4, 4)


def test_the_lead_is_that_over_the_second_best() -> None:
    scores = torch.tensor([[3.0, 1.0], [3.5, 1.0], [-2.0, 0.0]])
    assert lead(scores, dim=0).tolist() == [0.5, 0.0]
    assert lead(scores[:, :1], dim=1).tolist() == [torch.inf] * 3
