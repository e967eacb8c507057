"""A recurrence step by step: a loop, or what becomes one node of an ONNX graph."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from csprop.ops.backends import exporting


def over_time(step: Callable[..., Tensor], first: Tensor, *inputs: Tensor | None) -> Tensor:
    """h_1 … h_T of h_t = step(h_{t−1}, x_t, …) from h_0 on, (B, T, …).

    An input is (B, T, …), or None at every step. While `torch.onnx.export` traces, there is no loop:
    the graph has ONNX's Scan, with the step as its body, for whatever length it is run on.
    """
    given = [each for each in inputs if each is not None]

    def advance(h: Tensor, now: Sequence[Tensor]) -> Tensor:
        left = iter(now)
        return step(h, *(None if each is None else next(left) for each in inputs))

    if exporting():
        return _scanned(advance, first, given)
    h, states = first, []
    for t in range(given[0].shape[1]):
        h = advance(h, [each[:, t] for each in given])
        states.append(h)
    return torch.stack(states, dim=1) if states else first[:, None][:, :0]


def _scanned(
    advance: Callable[[Tensor, Sequence[Tensor]], Tensor], first: Tensor, inputs: list[Tensor]
) -> Tensor:
    from torch._higher_order_ops.scan import scan

    def body(h: Tensor, now: list[Tensor]) -> tuple[Tensor, Tensor]:
        h = advance(h, now)
        return h, h.clone()  # what is carried on, and what is kept, may not be one tensor

    # Detached: torch's own scan has no gradients for lengths that are not known.
    _, states = scan(body, first.detach().clone(), [each.detach().transpose(0, 1) for each in inputs])
    return states.transpose(0, 1)
