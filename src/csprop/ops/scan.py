"""The public scan: checks its arguments, then hands them to a backend."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from csprop.ops import operators, reference
from csprop.ops.backends import backend


def scan(
    a: Float[Tensor, "B T P #D"],
    u: Float[Tensor, "B T 2 D"],
    h0: Float[Tensor, "*B 2 D"] | None = None,
    reset: Bool[Tensor, "B T"] | None = None,
) -> tuple[Float[Tensor, "B T 2 D"], Float[Tensor, "B 2 D"]]:
    """All states of h_t = a_t · h_{t-1} + u_t, and the last one.

    `a` has one plane where it is real and two where it is complex, and may be shared by the channels
    (a last dimension of 1). `h0` is zero unless given, one for the batch or one for each sequence.
    Where `reset` is true the state before that step is forgotten: h_t = u_t. A modulus never grows
    past 2^60: it is scaled back and keeps its phase, so that no length overflows. bfloat16 is computed,
    and its last state returned, in float32.
    """
    _check(a, u, h0, reset)
    batch, steps, _, width = u.shape
    # Half precision cannot hold a sum over many steps.
    wide = torch.promote_types(torch.promote_types(a.dtype, u.dtype), torch.float32)
    start = u.new_zeros(batch, 2, width) if h0 is None else h0.expand(batch, 2, width)
    a, entering, start = a.to(wide), u.to(wide), start.to(wide)
    if steps == 0:
        return u, start
    if backend() == "reference":
        h = reference.scan(a, entering, start, reset)
    else:
        h = operators.scan(a, entering, start, reset)
    return h.to(u.dtype), h[:, -1]


def _check(a: Tensor, u: Tensor, h0: Tensor | None, reset: Tensor | None) -> None:
    if u.ndim != 4 or u.shape[2] != 2 or u.dtype == torch.float16:
        raise ValueError(
            "u must be (B, T, 2, D), two real planes, in float32, float64 or bfloat16; "
            f"got {tuple(u.shape)} in {u.dtype}"
        )
    batch, steps, _, width = u.shape
    if (
        a.ndim != 4
        or a.shape[:2] != u.shape[:2]
        or a.shape[2] not in (1, 2)
        or a.shape[3] not in (1, width)
    ):
        raise ValueError(
            f"a must be ({batch}, {steps}, 1 or 2, 1 or {width}) to go with u; got {tuple(a.shape)}"
        )
    if h0 is not None and tuple(h0.shape) not in ((2, width), (batch, 2, width)):
        raise ValueError(
            f"h0 must be (2, {width}) or ({batch}, 2, {width}) to go with u; got {tuple(h0.shape)}"
        )
    if reset is not None and (
        tuple(reset.shape) != (batch, steps) or reset.dtype != torch.bool or reset.device != u.device
    ):
        raise ValueError(
            f"reset must be bool of shape ({batch}, {steps}) to go with u; got {reset.dtype} of shape "
            f"{tuple(reset.shape)} on {reset.device}"
        )
