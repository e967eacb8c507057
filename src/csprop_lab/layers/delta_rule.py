"""The recurrence of the delta rule and of RWKV-7, in chunks of time instead of step by step."""

import torch
from jaxtyping import Float
from torch import Tensor

CHUNK = 40
"""Steps. For 40 of them 20 to 64 are as quick, and for the 80 of DeltaProduct 40 is the quickest."""


def delta_rule(
    q: Float[Tensor, "B H T K"],
    k: Float[Tensor, "B H T K"],
    v: Float[Tensor, "B H T V"],
    a: Float[Tensor, "B H T K"],
    log_w: Float[Tensor, "B H T #K"],
    b: Float[Tensor, "B H T K"] | None = None,
) -> Float[Tensor, "B H T V"]:
    """S_t = S_{t−1} diag(w_t) (I + a_t b_tᵀ) + v_t k_tᵀ from S_0 = 0, read as S_t q_t.

    Decays w are given by their logarithms, at most 0. Without `b` it is `k` (the delta rule), and there
    is one decay for all keys. With `b` (RWKV-7) there is one for each key, which must not be below −1,
    for a chunk divides by the product of up to half of its decays.

    Within a chunk S_{t−1} diag(w_t) a_t depends linearly on what it was at the earlier steps, so
    one triangular system gives it at all of them (the WY representation of a product of such matrices).
    The state passes from chunk to chunk.
    """
    inputs = (q, k, v, a, log_w) if b is None else (q, k, v, a, log_w, b)
    if q.shape[2] <= CHUNK:
        return _chunk(None, *inputs)[0]
    state, read = None, []
    for chunk in zip(*(x.split(CHUNK, dim=2) for x in inputs), strict=True):
        out, state = _chunk(state, *chunk)
        read.append(out)
    return torch.cat(read, dim=2)


def _chunk(
    state: Tensor | None,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    a: Tensor,
    log_w: Tensor,
    b: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the outputs of a chunk, and Sᵀ after it."""
    steps, until = q.shape[2], log_w.cumsum(dim=2)
    end = until[:, :, -1:]
    rows = torch.stack([a, q], dim=2)
    if b is None:
        rows, found, out = rows.flatten(2, 3), v, None
        enter, leave = until.exp().repeat(1, 1, 2, 1), (end - until).exp()
    else:
        middle = until[:, :, steps // 2, None]
        grown, shrunk = (middle - until).exp(), (until - middle).exp()
        k, b, rows = k * grown, b * grown, (rows * shrunk.unsqueeze(2)).flatten(2, 3)
        enter, leave = middle.exp(), (end - middle).exp()
        past = torch.ones(steps, steps, dtype=q.dtype, device=q.device)
        past = torch.cat([past.tril(-1), past.tril()])
        found, out = (((rows @ k.mT) * past) @ v).split(steps, dim=2)
    if state is not None:
        known, seen = ((rows * enter) @ state).split(steps, dim=2)
        found, out = found + known, seen if out is None else out + seen
    within, x = _within(rows, k if b is None else b, found, until if b is None else None)
    written = ((k if b is None else b) * leave).mT @ x
    if b is not None:
        written = written + (k * leave).mT @ v
    if state is not None:
        written = written + end.exp().mT * state
    return within if out is None else out + within, written


def _within(rows: Tensor, k: Tensor, y: Tensor, until: Tensor | None) -> tuple[Tensor, Tensor]:
    """x_i = y_i + Σ_{j<i} D_ij (a_i · k_j) x_j, and o_i = Σ_{j≤i} D_ij (q_i · k_j) x_j; return o and x.

    a and q are the two halves of `rows`; D_ij is exp(until_i − until_j), or 1 without `until`.
    """
    steps = k.shape[2]
    decay = torch.ones(steps, steps, dtype=k.dtype, device=k.device).tril()
    if until is not None:
        decay = (until - until.mT + decay.log()).exp()
    weights = (rows @ k.mT).unflatten(2, (2, steps)) * decay.unsqueeze(-3)
    system, read = weights.unbind(2)
    x = torch.linalg.solve_triangular(-system, y, upper=False, unitriangular=True)
    return read @ x, x
