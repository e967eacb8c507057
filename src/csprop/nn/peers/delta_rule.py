"""The recurrence of the delta rule and of RWKV-7, in chunks of time instead of step by step."""

import torch
from jaxtyping import Float
from torch import Tensor

CHUNK = 64


def delta_rule(
    q: Float[Tensor, "B H T K"],
    k: Float[Tensor, "B H T K"],
    v: Float[Tensor, "B H T V"],
    a: Float[Tensor, "B H T K"],
    log_w: Float[Tensor, "B H T #K"],
    b: Float[Tensor, "B H T K"] | None = None,
) -> Float[Tensor, "B H T V"]:
    """S_t = S_{t−1} diag(w_t) (I + a_t b_tᵀ) + v_t k_tᵀ from S_0 = 0, read as S_t q_t.

    Without `b` it is `k`, as in the delta rule. The decays w are given by their logarithms, at most 0:
    one for all keys, of any size, or one for each key, which must not be below −1, for a chunk divides
    by the product of up to half of its decays.

    Within a chunk S_{t−1} diag(w_t) a_t depends linearly on what it was at the earlier steps, so that
    one triangular system gives it at all of them (the WY representation of a product of such matrices).
    The state passes from chunk to chunk.
    """
    state, read = None, []
    inputs = (q, k, v, a, log_w) if b is None else (q, k, v, a, log_w, b)
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
    """What is read in a chunk, and Sᵀ after it."""
    past = torch.ones(k.shape[2], k.shape[2], dtype=q.dtype, device=q.device).tril()
    until = log_w.cumsum(dim=2)
    end = until[:, :, -1:]
    if log_w.shape[3] == 1:
        past = (until + past.log() - until.mT).exp()  # the decay from each step to each later one
        enter, leave = until.exp(), (end - until).exp()
    else:
        middle = until[:, :, until.shape[2] // 2, None]
        grown, shrunk = (middle - until).exp(), (until - middle).exp()
        q, a, k, b = q * shrunk, a * shrunk, k * grown, None if b is None else b * grown
        enter, leave = middle.exp(), (end - middle).exp()
    keys, x = (k, v) if b is None else (b, ((a @ k.mT) * past).tril(-1) @ v)
    if state is not None:
        x = x + (a * enter) @ state
    system = (-a @ keys.mT) * past
    x = torch.linalg.solve_triangular(system, x, upper=False, unitriangular=True)
    out, written = ((q @ keys.mT) * past) @ x, (keys * leave).mT @ x
    if b is not None:
        out, written = out + ((q @ k.mT) * past) @ v, written + (k * leave).mT @ v
    if state is None:
        return out, written
    return out + (q * enter) @ state, end.exp().mT * state + written
