"""A model's call in the compiled kernel, against the same model in torch operations."""

from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import patch

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Generator, Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.func import functional_call
from torch.nn.utils import prune

from csprop import CSP, Counter, CSPConfig, Paper, Rotor, Router, Switch, use_backend
from csprop.cells import Shape
from csprop.cells.paper import PaperBlock
from csprop.nn.kernel import propagate
from csprop.ops import native
from csprop.ops.native import model as models
from tests.helpers.options import config, configs, model, vary
from tests.helpers.processor import in_threads, passes_with_the_plain_kernel

pytestmark = pytest.mark.skipif(bool(native.WHY_NOT), reason=native.WHY_NOT)

KINDS: dict[str, CSPConfig] = {
    "paper": config(Paper(), depth=3),
    "rotor": config(Rotor()),
    "rotor of order 3": config(Rotor(order=3, recall=True)),
    "router": config(Router()),
    "counter and switch": config(Counter(), cells=[Counter(), Switch()]),
}


@pytest.fixture(autouse=True)
def poison() -> Iterator[None]:
    """Memory that torch has not filled holds NaN."""
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


def draw(net: CSP, rows: int, steps: int) -> tuple[Tensor, Tensor, Tensor]:
    """Draw tokens, a state whose counts are whole numbers, and resets."""
    g = Generator().manual_seed(steps)
    tokens = torch.randint(net.config.vocab_size, (rows, steps), generator=g)
    shape = (rows, net.config.depth, net.config.order, net.config.width)
    state = torch.randn(shape, generator=g).to(net.embedding)
    for number, cell in enumerate(net.config.layers):
        if isinstance(cell, Counter):
            state[:, number] = state[:, number].round()
    return tokens, state, torch.rand(rows, steps, generator=g) < 0.2


def compute(
    net: CSP, backend: str, steps: int, carries: bool, resets: bool, rows: int = 3
) -> list[Tensor | None]:
    """Return scores, last states, and the gradients of a generic function of both."""
    tokens, state, reset = draw(net, rows, steps)
    state.requires_grad_()
    net.zero_grad()
    with use_backend(backend):
        scores, last = net(
            tokens, state if carries else None, reset=reset if resets else None, return_state=True
        )
        weights = torch.randn(last.shape, generator=Generator().manual_seed(1)).to(last)
        directions = last / (torch.linalg.vector_norm(last.detach(), dim=2, keepdim=True) + 1)
        (scores.square().mean() + (directions * weights).sum()).backward()
    gradients = [None if p.grad is None else p.grad.clone() for p in net.parameters()]
    return [scores, last, state.grad if carries else None, *gradients]


def agree(net: CSP, steps: int, carries: bool, resets: bool, tolerance: float = 1e-7) -> None:
    """Check the kernel against torch, and that the kernel was used."""
    expected = compute(net, "torch", steps, carries, resets)
    with patch.object(models, "propagate", wraps=models.propagate) as kernel:
        results = compute(net, "native", steps, carries, resets)
    assert kernel.called
    for number, (got, want) in enumerate(zip(results, expected, strict=True)):
        if want is None or got is None:
            absent = want if got is None else got
            assert absent is None or not absent.any(), number
        else:
            torch.testing.assert_close(got, want, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", vary())
def test_every_single_option_agrees(name: str) -> None:
    net = model(config(vary()[name])).double()
    for carries, resets in ((False, False), (True, False), (False, True), (True, True)):
        agree(net, 17, carries, resets)


@settings(max_examples=80)
@given(
    chosen=configs(),
    steps=st.sampled_from([1, 2, 15, 16, 17, 40]),
    carries=st.booleans(),
    resets=st.booleans(),
)
def test_any_stack_of_cells_agrees(chosen: CSPConfig, steps: int, carries: bool, resets: bool) -> None:
    agree(model(chosen).double(), steps, carries, resets)


@pytest.mark.parametrize("span", [1, 3, 7])
@pytest.mark.parametrize("kind", KINDS)
def test_rows_in_pieces_agree(kind: str, span: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "WHOLE", 2)
    monkeypatch.setattr(models, "SPAN", span)
    for resets in (False, True):
        agree(model(KINDS[kind]).double(), 14, True, resets)


@pytest.mark.parametrize("cell", [Rotor(), Rotor(order=3), Paper(decay="unit", norm="none")])
def test_a_carried_state_beyond_every_limit_agrees(cell: Any) -> None:
    net = model(config(cell)).double()
    (tokens, state, _), results = draw(net, 2, 9), []
    for backend in ("torch", "native"):
        with use_backend(backend):
            results.append(net(tokens, 1e30 * state, return_state=True))
    for got, want in zip(*results, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-7, atol=1e-7)


GATES = [-1e30, -200.0, -89.0, 0.0, 19.9, 20.1, 89.0, 200.0]
ANGLES = [0.0, 1e-6, 0.7854, 3.1415926, -100.0, 8000.0, 1e6, -1e9]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    ("cell", "part", "value"),
    [
        *((Paper(decay=decay), "gate", x) for decay in ("softplus", "exp", "unit") for x in GATES),
        *((Rotor(), "angle", x) for x in ANGLES),
    ],
)
def test_gates_and_angles_are_right_however_large(
    cell: Any, part: str, value: float, dtype: Any
) -> None:
    net = model(config(cell, depth=1)).to(dtype)
    linear: Any = net.layers[0].get_submodule(part)
    with torch.no_grad():
        linear.weight.zero_()
        linear.bias.fill_(value)
    agree(net, 4, True, False, 3e-5 if dtype is torch.float32 else 1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_any_number_of_threads_and_any_strides_give_the_same_bits(kind: str) -> None:
    net = model(KINDS[kind])
    tokens, state, reset = draw(net, 64, 80)

    def compute_bits(*given: Tensor) -> list[Tensor]:
        net.zero_grad()
        scores = net(given[0], given[1], reset=given[2])
        scores.square().mean().backward()
        return [scores.detach(), *(p.grad.clone() for p in net.parameters() if p.grad is not None)]

    expected = compute_bits(tokens, state, reset)
    strided = [each.transpose(0, 1).contiguous().transpose(0, 1) for each in (tokens, state, reset)]
    assert not any(each.is_contiguous() for each in strided)
    for bits in in_threads(lambda: compute_bits(*strided)):
        assert all(torch.equal(x, y) for x, y in zip(bits, expected, strict=True))


def test_hard_maps_are_the_kernels_without_gradients_alone() -> None:
    net, tokens = model(KINDS["router"]), torch.zeros(1, 3, dtype=torch.int64)
    assert propagate(net.eval(), tokens, None, None) is None
    with torch.no_grad():
        assert propagate(net, tokens, None, None) is not None
    assert propagate(net.train(), tokens, None, None) is not None
    net.routers[0].mixes = True
    assert propagate(net, tokens, None, None) is None


def test_parameters_without_gradients_have_none() -> None:
    net = model(KINDS["paper"]).double()
    net.decoder.requires_grad_(False)
    agree(net, 5, False, False)
    assert all(p.grad is None for p in net.decoder.parameters())
    with torch.no_grad():
        assert not net(torch.zeros(1, 3, dtype=torch.int64)).requires_grad


def test_second_derivatives_and_changed_parameters_are_refused() -> None:
    net, tokens = model(KINDS["paper"]), torch.zeros(1, 4, dtype=torch.int64)
    with pytest.raises(RuntimeError, match="no second derivatives"):
        torch.autograd.grad(net(tokens).square().sum(), net.embedding, create_graph=True)
    scores = net(tokens)
    with torch.no_grad():
        net.embedding.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        scores.sum().backward()


class Nothing(nn.Linear):
    def forward(self, input: Tensor) -> Tensor:
        return 0 * super().forward(input)


class Around(nn.Sequential):
    """A part around another, as adapters have it."""

    def forward(self, input: Tensor) -> Tensor:
        return 2 * self[0](input)


class Doubled(PaperBlock):
    def finish(self, h: Tensor, z: Tensor, before: Tensor | None = None) -> Tensor:
        return 2 * super().finish(h, z, before)


class Shifted(CSP):
    def coupling_of(self, layer: int) -> Any:
        return lambda z: z if layer else None


def replace_block(net: CSP) -> None:
    doubled = Doubled(Paper(), Shape(6, 3, 3), Generator().manual_seed(0))
    doubled.load_state_dict(net.layers[0].state_dict())
    net.blocks[0] = doubled


CHANGES: dict[str, Callable[[Any], Any]] = {
    "hook of a part": lambda net: net.blocks[0].angle.register_forward_hook(lambda *a: 0 * a[2]),
    "hook of a block": lambda net: net.blocks[0].register_forward_hook(
        lambda *a: (0 * a[2][0], a[2][1])
    ),
    "class of a part": lambda net: setattr(net.blocks[0].gate, "__class__", Nothing),
    "class of a block": replace_block,
    "class of the model": lambda net: setattr(net, "__class__", Shifted),
    "part around a part": lambda net: setattr(net.blocks[0], "gate", Around(net.blocks[0].gate)),
    "decoder": lambda net: setattr(net.decoder, "linear", Around(net.decoder.linear)),
    "method of a block": lambda net: setattr(net.blocks[0], "finish", lambda h, z, before=None: z),
    "weight that a hook sets": lambda net: prune.l1_unstructured(net.blocks[0].angle, "weight", 0.5),
    "shape of a parameter": lambda net: setattr(
        net.blocks[0], "skip", nn.Parameter(torch.tensor([5.0]))
    ),
}


@pytest.mark.parametrize("how", CHANGES)
def test_a_part_that_was_changed_does_the_same_as_in_torch(how: str) -> None:
    net, tokens = model(KINDS["paper"]), torch.tensor([[0, 1, 2, 1]])
    with torch.no_grad():
        before = net(tokens)
        CHANGES[how](net)
        assert propagate(net, tokens, None, None) is None
        scores = net(tokens)
        with use_backend("torch"):
            want = net(tokens)
        stream = net.stream()
        steps = torch.stack([stream.step(token) for token in tokens[0].tolist()])
        assert not torch.allclose(scores, before, atol=1e-3)
    torch.testing.assert_close(scores, want)
    torch.testing.assert_close(steps, want[0])


def test_whoever_looks_on_sees_torch_operations() -> None:
    net, tokens = model(KINDS["paper"]), torch.zeros(2, 3, dtype=torch.int64)
    assert propagate(net, tokens, None, None) is not None
    with use_backend("torch"):
        assert propagate(net, tokens, None, None) is None
    with torch.autocast("cpu"):
        assert propagate(net, tokens, None, None) is None
    with FakeTensorMode(allow_non_fake_inputs=True):
        assert net(tokens).shape == (2, 3, 4)
    parameters = {name: each.detach() for name, each in net.named_parameters()}
    gradients = torch.func.grad(lambda given: functional_call(net, given, tokens).square().sum())
    net(tokens).square().sum().backward()
    for name, gradient in gradients(parameters).items():
        torch.testing.assert_close(gradient, net.get_parameter(name).grad)


def test_tensors_that_the_kernel_does_not_take() -> None:
    net, tokens = model(KINDS["paper"]), torch.zeros(2, 3, dtype=torch.int64)
    state = net.initial_state(2).double()
    for rows, carried in ((tokens[:0], None), (tokens[:, :0], None), (tokens, state)):
        assert propagate(net, rows, carried, None) is None
        assert net(rows, carried).shape == (*rows.shape, 4)
    assert propagate(net.bfloat16(), tokens, None, None) is None


@pytest.mark.slow
def test_the_kernel_for_any_processor_gives_the_same() -> None:
    passes_with_the_plain_kernel(__file__, test_every_single_option_agrees.__name__)
