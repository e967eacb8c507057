"""Models on other devices than the CPU, as far as that can be tested without one.

On `meta` a tensor that was made on the CPU is refused. Stand-ins for operations notice whatever has to
wait for a device, also inside the operators of csprop.
"""

from collections.abc import Callable
from typing import Any, ClassVar

import pytest
import torch
from torch import Generator, Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from csprop import CSP, Counter, Switch, use_backend
from csprop.ops import counts, operators, route
from tests.helpers import options
from tests.helpers.options import vary

CONFIGS = {name: options.config(cell) for name, cell in vary().items()}


def model(name: str) -> CSP:
    return CSP(CONFIGS[name], Generator().manual_seed(1))


def inputs() -> tuple[Tensor, Tensor]:
    g = Generator().manual_seed(2)
    return torch.randint(3, (2, 7), generator=g), torch.rand(2, 7, generator=g) < 0.2


def passes(net: CSP, tokens: Tensor, reset: Tensor) -> None:
    """Forward and backward as in training, then carried on as after it, and one step."""
    scores, state = net.train()(tokens, reset=reset, return_state=True)
    scores.square().sum().backward()
    net.eval()(tokens, state.detach()).sum().backward()
    net.step(net.initial_state(2), tokens[:, 0])


@pytest.mark.parametrize("name", CONFIGS)
def test_every_tensor_is_made_where_the_model_is(name: str) -> None:
    with torch.device("meta"):
        net = model(name)
    assert all(each.is_meta for each in (*net.parameters(), *net.buffers()))
    tokens, reset = (each.to("meta") for each in inputs())
    passes(net, tokens, reset)
    assert all(each.grad is None or each.grad.is_meta for each in net.parameters())


class Waits(Exception):
    """Something looked at a number."""


class _Calls(TorchFunctionMode):
    """Refuses what copies to the CPU; a tensor that is there already shows no such operation."""

    REFUSED = (Tensor.cpu, Tensor.numpy, Tensor.tolist, Tensor.item, Tensor.__bool__)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in self.REFUSED:
            raise Waits(func.__name__)
        return func(*args, **(kwargs or {}))


class Foreign(TorchDispatchMode):
    """Refuses what waits for a device, also inside csprop's operators, but not in a kernel's."""

    REFUSED = ("_local_scalar_dense", "is_nonzero", "equal", "nonzero", "_unique2", "masked_select")
    OWN: ClassVar[dict[Any, Callable[..., Any]]] = {
        operators.exact_counts: counts.check_counts,
        operators.route_hard: route.compute_hard,
    }

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func.overloadpacket.__name__ in self.REFUSED:
            raise Waits(str(func))
        if func in self.OWN:
            with self:
                return self.OWN[func](*args, **kwargs)
        return func(*args, **kwargs)


@pytest.mark.parametrize("name", [name for name in CONFIGS if name != "counter"])
def test_nothing_waits_for_a_device(name: str) -> None:
    net = model(name)
    with use_backend("torch"), Foreign(), _Calls():
        passes(net, *inputs())


def test_a_layer_that_counts_waits_once() -> None:
    seen = []

    class Counting(Foreign):
        REFUSED = ()

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.extend([func] if func.overloadpacket.__name__ in Foreign.REFUSED else [])
            return super().__torch_dispatch__(func, types, args, kwargs)

    net = CSP(options.config(Counter(), cells=[Counter(), Switch()]))
    with use_backend("torch"), Counting():
        net(*inputs()[:1]).sum().backward()
    assert len(seen) == 1


def test_the_stand_ins_notice_who_waits() -> None:
    counts = torch.ones(1, 1, 1)
    with Foreign(), pytest.raises(Waits, match="is_nonzero"):
        operators.exact_counts(counts, 0 * counts, counts)
    for look in (Tensor.cpu, Tensor.item, bool, Tensor.tolist):
        with _Calls(), pytest.raises(Waits):
            look(torch.ones(()))
