"""A recurrence step by step: a loop, or what becomes one node of an ONNX graph."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from csprop.ops.backends import exporting

Step = Callable[..., Tensor]
"""The next state, from one, from what enters at this step, and from what is held fixed."""


def over_time(
    step: Step, first: Tensor, *inputs: Tensor | None, fixed: Sequence[Tensor | None] = ()
) -> Tensor:
    """h_1 … h_T of h_t = step(h_{t−1}, x_t, …, f, …) from h_0 on, (B, T, …).

    An input x is (B, T, …), or None at every step; what is `fixed` is the same at all of them. While
    `torch.onnx.export` traces, there is no loop: the graph has ONNX's Scan, with the step as its body,
    for whatever length it is run on. So a step may use no other tensors.
    """
    if exporting():
        return _scanned(step, first, inputs, fixed)
    h, states = first, []
    steps = next(each.shape[1] for each in inputs if each is not None)
    for t in range(steps):
        h = step(h, *(None if each is None else each[:, t] for each in inputs), *fixed)
        states.append(h)
    return torch.stack(states, dim=1) if states else first[:, None][:, :0]


def _scanned(
    step: Step, first: Tensor, inputs: Sequence[Tensor | None], fixed: Sequence[Tensor | None]
) -> Tensor:
    from torch._higher_order_ops.scan import scan_op

    def body(h: Tensor, *now: Tensor) -> list[Tensor]:
        left = iter(now)
        h = step(h, *(None if each is None else next(left) for each in (*inputs, *fixed)))
        return [h, h.clone()]  # what is carried on, and what is kept, may not be one tensor

    # Detached: torch's scan has no gradients for a length that is not known.
    _, states = scan_op(
        body,
        [first.detach().clone()],
        [each.detach().transpose(0, 1) for each in inputs if each is not None],
        additional_inputs=tuple(each.detach() for each in fixed if each is not None),
    )
    return states.transpose(0, 1)
