"""The scan, h_t = a_t · h_{t−1} + u_t: states as planes, the loop that specifies it, its backends.

a    the transition: a real factor α_t (one plane), a complex one α_t e^{iθ_t} (two planes), or a
     matrix ρ_t Q_t (M × M planes)
u    what enters: γ_t e^{iθ_t} z_t, γ_t z_t or (1 − ρ_t) v_t
h    the state: M real numbers per channel, two for a complex number
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from csprop.errors import InputError, described
from csprop.ops.backends import backend, exporting
from csprop.ops.checks import check_tensor, contiguous, fits, refuse_second_derivatives, traced

LIMIT = 2.0**60
"""No modulus grows past this: a larger state is scaled back to it and keeps its direction. It lies far
above what float32 can still add a number of size one to, and its square stays finite."""

GRADIENT_LIMIT = 2.0**30
"""The same for the gradient that a state passes back: where a channel grows from nothing, |a| > 1 and
u = 0, its true gradient has no bound."""

HALF_LIMIT = 2.0**15
"""The same for a state that is written in float16, whose largest number is 65,504."""


def wide(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """Return x in float32 at least: half precision holds neither long sums nor small squares."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def narrow(h: Float[Tensor, "*batch M D"], dtype: torch.dtype) -> Float[Tensor, "*batch M D"]:
    """Return h in a type of numbers, within what that holds."""
    return (saturate(h, HALF_LIMIT) if dtype is torch.float16 else h).to(dtype)


def saturate(h: Float[Tensor, "*batch M D"], limit: float = LIMIT) -> Float[Tensor, "*batch M D"]:
    """Scale moduli above the limit back to it; the direction, and everything smaller, is unchanged."""
    # Squares bounded from below before the root: its gradient is finite at 0.
    overshoot = (h / limit).square().sum(dim=-2, keepdim=True).clamp(min=1).sqrt()
    return h / overshoot


def turn(a: Float[Tensor, "..."], h: Float[Tensor, "*batch M D"]) -> Float[Tensor, "*batch M D"]:
    """Return a · h for a real factor (…, 1, D), a complex one (…, 2, D) or a matrix (…, M, M, D)."""
    if a.ndim > h.ndim:
        return (a * h[..., None, :, :]).sum(dim=-2)
    if a.shape[-2] == 1:
        return a * h
    re, im = a[..., :1, :], a[..., 1:, :]
    return re * h + im * torch.cat([-h[..., 1:, :], h[..., :1, :]], dim=-2)


class _Bounded(torch.autograd.Function):
    generate_vmap_rule = True
    forward = staticmethod(lambda h: h.view_as(h))
    setup_context = staticmethod(lambda ctx, inputs, output: None)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        return saturate(grads[0], GRADIENT_LIMIT)


def bounded(h: Float[Tensor, "*batch M D"]) -> Float[Tensor, "*batch M D"]:
    """Return h itself; its gradient saturates at GRADIENT_LIMIT."""
    return h if exporting() else _Bounded.apply(h)


def over_time(
    step: Callable[..., Tensor], first: Tensor, *inputs: Tensor | None, fixed: Sequence[Any] = ()
) -> Tensor:
    """Return h_1 … h_T of h_t = step(h_{t−1}, x_t, …, f, …) from h_0 on, (B, T, …).

    An input x is (B, T, …), or None at every step; what is `fixed` is the same at all of them. While
    `torch.onnx.export` traces, there is no loop: the graph has ONNX's Scan, with the step as its body,
    for whatever length it is run on. So a step may use no other tensors.
    """
    if exporting():
        from csprop.ops.operators import over_time_in_onnx

        return over_time_in_onnx(step, first, inputs, fixed)
    h, states = first, []
    for t in range(next(each.shape[1] for each in inputs if each is not None)):
        h = step(h, *(None if each is None else each[:, t] for each in inputs), *fixed)
        states.append(h)
    return torch.stack(states, dim=1) if states else first[:, None][:, :0]


def scan_by_steps(
    a: Float[Tensor, "B T *P #D"],
    u: Float[Tensor, "B T M D"],
    h0: Float[Tensor, "B M D"],
    reset: Bool[Tensor, "B T"] | None = None,
    activation: Callable[[Tensor], Tensor] = lambda h: h,
) -> Float[Tensor, "B T M D"]:
    """The specification: h_t = activation(saturate(a_t · h_{t−1} + u_t)), differentiated by autograd.

    A reset forgets h_{t−1} first. The activation is for the paper's SiLU in every step, which no
    parallel backend can do.
    """

    def step(h: Tensor, a: Tensor, u: Tensor, reset: Tensor | None) -> Tensor:
        if reset is not None:
            h = h.masked_fill(reset[:, None, None], 0)
        return activation(saturate(bounded(turn(a, h) + u)))

    return over_time(step, h0, a, u, reset)


def scan(
    a: Float[Tensor, "B T *P #D"],
    u: Float[Tensor, "B T M D"],
    h0: Float[Tensor, "*B M D"] | None = None,
    reset: Bool[Tensor, "B T"] | None = None,
) -> tuple[Float[Tensor, "B T M D"], Float[Tensor, "B M D"]]:
    """Return all states of h_t = a_t · h_{t−1} + u_t, and the last one.

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
    dtype = torch.promote_types(torch.promote_types(a.dtype, u.dtype), torch.float32)
    start = u.new_zeros(batch, order, width) if h0 is None else h0.expand(batch, order, width)
    a, entering, start = a.to(dtype), u.to(dtype), start.to(dtype)
    if steps == 0:
        return u, start
    if backend() == "reference":
        h = scan_by_steps(a, entering, start, reset)
    elif traced(u):
        from csprop.ops.operators import scan_traced

        h = scan_traced(a, entering, start, reset)
    else:
        h = _Scan.apply(a, entering, start, reset)
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


class _Scan(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, a: Tensor, u: Tensor, h0: Tensor, reset: Tensor | None) -> Tensor:
        h = compute(a, u, h0, reset)
        ctx.save_for_backward(a, u, h0, h, reset)
        return h

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        refuse_second_derivatives()
        return *compute_adjoint(grads[0], *ctx.saved_tensors), None


def compute(a: Tensor, u: Tensor, h0: Tensor, reset: Tensor | None) -> Tensor:
    """Return all states, by the `native` or the `torch` backend."""
    if not _natively(a, u, h0):
        from csprop.ops import chunked

        return chunked.scan(a, u, h0, reset)
    a, u, h0, reset = contiguous(a, u, h0, reset)
    h = torch.empty_like(u)
    call_kernel(a=a, u=u, h0=h0, reset=reset, h=h)
    return h


def compute_adjoint(
    g_h: Tensor, a: Tensor, u: Tensor, h0: Tensor, h: Tensor, reset: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of a, u and h0."""
    if not _natively(a, g_h, u, h0, h):
        from csprop.ops import chunked

        return chunked.adjoint(g_h, a, u, h0, h, reset)
    g_h, a, u, h0, h, reset = contiguous(g_h, a, u, h0, h, reset)
    g_a, g_u, g_h0 = torch.empty_like(a), torch.empty_like(u), torch.empty_like(h0)
    call_kernel(a=a, u=u, h0=h0, reset=reset, h=h, g_h=g_h, g_a=g_a, g_u=g_u, g_h0=g_h0)
    return g_a, g_u, g_h0


def _natively(*tensors: Tensor) -> bool:
    return backend() == "native" and fits(*tensors)


def call_kernel(a: Tensor, u: Tensor, **others: Tensor | None) -> None:
    """Call the compiled kernel: forward, or backward with a `g_h`."""
    from csprop.ops.native.library import call, pack

    batch, steps, *planes, columns = a.shape
    fields = {
        "wide": u.dtype == torch.float64, "batch": batch, "steps": steps, "width": u.shape[3],
        "order": u.shape[2], "planes": math.prod(planes), "columns": columns, "a": a, "u": u,
    }  # fmt: skip
    arguments = pack("Scan", fields | others)
    call("scan", arguments.address, torch.get_num_threads())
