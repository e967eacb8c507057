"""The scan and its adjoint in Triton: a program walks through all steps of a row, for some channels.

The equations of `reference` and `chunked`, saturation included, in the same order:

    p_t = a_t h_{t-1} + u_t,   h_t = p_t / s_t,   s_t = max(1, |p_t| / LIMIT)
    λ_t = bounded(J_t (g_t + a_{t+1}ᴴ λ_{t+1})),   ∂L/∂u_t = λ_t,   ∂L/∂a_t = λ_t h_{t-1}ᴴ

where J_t is the identity or, where p_t was scaled back, (1 − ĥ ĥᵀ) / s_t, and `bounded` scales back to
GRADIENT_LIMIT.

M        planes of a state; P is the next power of two, because tensors in Triton have such sizes
PLANES   planes of a transition: 1 is a real factor, 2 a complex one, M · M a matrix
SHARED   all channels have one transition; programs then leave sums over their channels

A complex factor is loaded as the matrix [[re, −im], [im, re]]. What lies outside of the width or of
the M planes is loaded as 0, stays 0, and is not stored.
"""

# Of an `if` on a constant Triton compiles one side; what stands after it, and not in `else`, always.
# ruff: noqa: RET505
# pyright: reportArgumentType=false
import triton  # pyright: ignore[reportMissingImports]
import triton.language as tl  # pyright: ignore[reportMissingImports]

from csprop.ops import scan as limits

LIMIT = tl.constexpr(limits.LIMIT)
GRADIENT_LIMIT = tl.constexpr(limits.GRADIENT_LIMIT)


@triton.jit
def scan(
    a, u, h0, reset, h, steps, width, columns,
    M: tl.constexpr, P: tl.constexpr, PLANES: tl.constexpr, SHARED: tl.constexpr, RESET: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """All states into h; row and block of channels are the program's two numbers."""
    row = tl.program_id(0).to(tl.int64)
    channel = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    place, inside = _of_state(channel, width, M, P)
    where, known = _of_transition(channel, width, columns, M, P, PLANES, SHARED)
    size = M * width
    held = tl.load(h0 + row * size + place, mask=inside, other=0.0)
    for t in range(steps):
        step = row * steps + t
        if RESET:
            held = tl.where(tl.load(reset + step), 0.0, held)
        turned = _turned(_load(a + step * PLANES * columns + where, known, PLANES), held, PLANES)
        held = _saturated(turned + tl.load(u + step * size + place, mask=inside, other=0.0), LIMIT)
        tl.store(h + step * size + place, held, mask=inside)


@triton.jit
def adjoint(
    g_h, a, u, h0, h, reset, g_a, g_u, g_h0, steps, width, columns, g_columns,
    M: tl.constexpr, P: tl.constexpr, PLANES: tl.constexpr, SHARED: tl.constexpr, RESET: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """All gradients, from the last step back; where SHARED, g_a has a column for each program."""
    row = tl.program_id(0).to(tl.int64)
    channel = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    place, inside = _of_state(channel, width, M, P)
    where, known = _of_transition(channel, width, columns, M, P, PLANES, SHARED)
    size = M * width
    carried = tl.zeros((P, BLOCK), g_u.dtype.element_ty)
    for back in range(steps):
        step = (row + 1) * steps - 1 - back
        here = step * size + place
        if back < steps - 1:
            before = tl.load(h + here - size, mask=inside, other=0.0)
        else:
            before = tl.load(h0 + row * size + place, mask=inside, other=0.0)
        transition = _load(a + step * PLANES * columns + where, known, PLANES)
        if RESET:
            forgets = tl.load(reset + step)
            before = tl.where(forgets, 0.0, before)
            transition = tl.where(forgets, 0.0, transition)
        reached = _turned(transition, before, PLANES) + tl.load(u + here, mask=inside, other=0.0)
        over = _squared(reached, LIMIT)
        whole = tl.load(g_h + here, mask=inside, other=0.0) + carried
        unit = tl.load(h + here, mask=inside, other=0.0) / LIMIT
        tangential = whole - unit * tl.sum(unit * whole, axis=0)[None, :]
        whole = tl.where(over <= 1, whole, tangential / _over(over))
        whole = _saturated(whole, GRADIENT_LIMIT)
        tl.store(g_u + here, whole, mask=inside)
        to = g_a + step * PLANES * g_columns
        _store_outer(to, whole, before, channel, width, g_columns, M, P, PLANES, SHARED)
        carried = _turned_back(transition, whole, PLANES)
    tl.store(g_h0 + row * size + place, carried, mask=inside)


@triton.jit
def _of_state(channel, width, M: tl.constexpr, P: tl.constexpr):
    """Where the numbers of a state lie, (P, BLOCK), and which of them there are."""
    plane = tl.arange(0, P)[:, None]
    return plane * width + channel[None, :], (plane < M) & (channel < width)[None, :]


@triton.jit
def _of_transition(
    channel, width, columns,
    M: tl.constexpr, P: tl.constexpr, PLANES: tl.constexpr, SHARED: tl.constexpr,
):  # fmt: skip
    """The same of a transition: (1, BLOCK) of a real factor, else (P, P, BLOCK)."""
    column = channel * 0 if SHARED else channel
    if PLANES == 1:
        return column[None, :], (channel < width)[None, :]
    else:
        i, j = tl.arange(0, P)[:, None, None], tl.arange(0, P)[None, :, None]
        plane = (i != j).to(tl.int32) if PLANES == 2 else i * M + j
        known = (i < M) & (j < M) & (channel < width)[None, None, :]
        return plane * columns + column[None, None, :], known


@triton.jit
def _load(places, known, PLANES: tl.constexpr):
    """A transition, with −im in its place."""
    a = tl.load(places, mask=known, other=0.0)
    if PLANES == 2:
        upper = tl.arange(0, 2)[:, None, None] < tl.arange(0, 2)[None, :, None]
        return tl.where(upper, -a, a)
    else:
        return a


@triton.jit
def _turned(a, h, PLANES: tl.constexpr):
    """a · h."""
    if PLANES == 1:
        return a * h
    else:
        return tl.sum(a * h[None, :, :], axis=1)


@triton.jit
def _turned_back(a, h, PLANES: tl.constexpr):
    """aᴴ · h."""
    if PLANES == 1:
        return a * h
    else:
        return tl.sum(a * h[:, None, :], axis=0)


@triton.jit
def _squared(h, limit: tl.constexpr):
    """(|h| / limit)², (1, BLOCK)."""
    scaled = h / limit
    return tl.sum(scaled * scaled, axis=0)[None, :]


@triton.jit
def _saturated(h, limit: tl.constexpr):
    """h, scaled back to the limit where it is beyond; a NaN in one plane is one in all."""
    return h / _over(_squared(h, limit))


@triton.jit
def _over(squared):
    """The root, and 1 for what is below; a NaN stays one."""
    return tl.sqrt(tl.where(squared <= 1, 1.0, squared))


@triton.jit
def _store_outer(
    g_a, g, before, channel, width, columns,
    M: tl.constexpr, P: tl.constexpr, PLANES: tl.constexpr, SHARED: tl.constexpr,
):  # fmt: skip
    """The gradient of a transition, g · beforeᴴ, into the channels' columns or the program's one."""
    if PLANES == 1:
        _store(g_a, tl.sum(g * before, axis=0), channel, width, SHARED)
    else:
        outer = g[:, None, :] * before[None, :, :]
        i, j = tl.arange(0, P)[:, None, None], tl.arange(0, P)[None, :, None]
        if PLANES == 2:
            real = tl.where(i == j, outer, 0.0)
            imaginary = tl.where(i == j, 0.0, tl.where(i < j, -outer, outer))
            _store(g_a, tl.sum(tl.sum(real, axis=0), axis=0), channel, width, SHARED)
            imaginary = tl.sum(tl.sum(imaginary, axis=0), axis=0)
            _store(g_a + columns, imaginary, channel, width, SHARED)
        else:
            known = (i < M) & (j < M)
            plane = (i * M + j) * columns
            if SHARED:
                total = tl.sum(outer, axis=2)[:, :, None]
                tl.store(g_a + plane + tl.program_id(1), total, mask=known)
            else:
                inside = known & (channel < width)[None, None, :]
                tl.store(g_a + plane + channel[None, None, :], outer, mask=inside)


@triton.jit
def _store(g_a, value, channel, width, SHARED: tl.constexpr):
    if SHARED:
        tl.store(g_a + tl.program_id(1), tl.sum(value, axis=0))
    else:
        tl.store(g_a + channel, value, mask=channel < width)
