"""The public scan: checks its arguments, then hands them to a backend.

Every layer imports it, and it imports the files of all operators: a saved program needs them.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from csprop.errors import InputError, described
from csprop.ops import counts, devices, operators, reference, route  # noqa: F401
from csprop.ops.backends import backend
from csprop.ops.checks import check_tensor
from csprop.ops.planes import narrow


def scan(
    a: Float[Tensor, "B T *P #D"],
    u: Float[Tensor, "B T M D"],
    h0: Float[Tensor, "*B M D"] | None = None,
    reset: Bool[Tensor, "B T"] | None = None,
) -> tuple[Float[Tensor, "B T M D"], Float[Tensor, "B M D"]]:
    """All states of h_t = a_t · h_{t-1} + u_t, and the last one.

    A state has M ≥ 2 planes, two for a complex number. `a` is a real factor (B, T, 1, D), a complex one
    (B, T, 2, D) where M = 2, or a matrix (B, T, M, M, D), whose row i gives plane i; the channels may
    share it (a last dimension of 1). `h0` is zero unless given, one for the batch or one for each
    sequence. Where `reset` is true the state before that step is forgotten: h_t = u_t. A modulus, the
    norm over the planes, never grows past 2^60: it is scaled back and keeps its direction, so no
    length overflows. float16 and bfloat16 are computed, and their last state returned, in float32; in
    float16 the states are scaled back to 2^15.

    Raises InputError for an argument that is not a tensor, or whose shape, type or device does not fit.
    """
    _check(a, u, h0, reset)
    batch, steps, order, width = u.shape
    wide = torch.promote_types(torch.promote_types(a.dtype, u.dtype), torch.float32)
    start = u.new_zeros(batch, order, width) if h0 is None else h0.expand(batch, order, width)
    a, entering, start = a.to(wide), u.to(wide), start.to(wide)
    if steps == 0:
        return u, start
    if backend() == "reference":
        h = reference.scan(a, entering, start, reset)
    elif devices.differentiated():
        h = operators.Scanned.apply(a, entering, start, reset)
    else:
        h = operators.scan(a, entering, start, reset)
    return narrow(h, u.dtype), h[:, -1]


def _check(a: Tensor, u: Tensor, h0: Tensor | None, reset: Tensor | None) -> None:
    check_tensor("u", u, "floating-point", ("batch", "time", "planes", "channels"))
    if u.shape[2] < 2:
        raise InputError(f"u must be (B, T, M, D), M >= 2 real planes; got {described(u)}")
    batch, steps, order, width = u.shape
    planes = [(1,), (order, order), *([(2,)] if order == 2 else [])]
    if not isinstance(a, Tensor) or a.is_nested or tuple(a.shape[2:-1]) not in planes:
        raise InputError(
            f"a must be ({batch}, {steps}, {'1 or 2' if order == 2 else '1'}, 1 or {width}) or a "
            f"matrix, ({batch}, {steps}, {order}, {order}, 1 or {width}), to go with u; "
            f"got {described(a)}"
        )
    channels = 1 if a.shape[-1] == 1 else width
    check_tensor("a", a, "floating-point", (batch, steps, *a.shape[2:-1], channels), u.device)
    if h0 is not None:
        shared = isinstance(h0, Tensor) and h0.ndim == 2
        shape = (order, width) if shared else (batch, order, width)
        check_tensor("h0", h0, "floating-point", shape, u.device)
    if reset is not None:
        check_tensor("reset", reset, "bool", (batch, steps), u.device)
