"""The short convolution that several layers have."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn


class ShortConvolution(nn.Module):
    """Every channel by itself convolved with its own few weights over the last `taps` steps.

    It is torch's depthwise Conv1d, weights and all, as a sum over the taps, which takes less time.
    """

    def __init__(self, channels: int, taps: int = 4, bias: bool = True) -> None:
        super().__init__()
        bound = taps**-0.5
        self.weight = nn.Parameter(torch.empty(taps, channels).uniform_(-bound, bound))
        self.bias: Tensor
        if bias:
            self.bias = nn.Parameter(torch.empty(channels).uniform_(-bound, bound))
        else:
            self.register_buffer("bias", torch.zeros(channels), persistent=False)

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        return _Convolved.apply(x, self.weight, self.bias)


class _Convolved(torch.autograd.Function):
    """The sum over the taps in place: weight[-1] is that of the present."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        y = torch.addcmul(bias, x, weight[-1])
        for past in range(1, min(len(weight), x.shape[1])):
            y[:, past:].addcmul_(x[:, :-past], weight[-1 - past])
        return y

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, ...]:
        x, weight = ctx.saved_tensors
        (grad,) = grads
        x_grad, weight_grad = grad * weight[-1], torch.zeros_like(weight)
        weight_grad[-1] = (grad * x).sum(dim=(0, 1))
        for past in range(1, min(len(weight), x.shape[1])):
            x_grad[:, :-past].addcmul_(grad[:, past:], weight[-1 - past])
            weight_grad[-1 - past] = (grad[:, past:] * x[:, :-past]).sum(dim=(0, 1))
        return x_grad, weight_grad, grad.sum(dim=(0, 1))
