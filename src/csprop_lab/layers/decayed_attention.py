"""Attention without softmax, whose weights decay with distance, in chunks of time."""

import torch
from jaxtyping import Float
from torch import Tensor

CHUNK = 64


def decayed_attention(
    q: Float[Tensor, "B H T K"],
    k: Float[Tensor, "B H T K"],
    v: Float[Tensor, "B H T V"],
    decay: Float[Tensor, " H"],
) -> Float[Tensor, "B H T V"]:
    """Σ_{s≤t} γ^{t−s} (q_t · k_s) v_s with one decay γ in (0, 1] for each head.

    Within a chunk it is a masked product; Σ_s γ^{t−s} k_s v_sᵀ passes from chunk to chunk.
    """
    step = torch.arange(min(CHUNK, q.shape[2]), device=q.device)
    mask = (decay[:, None, None] ** (step[:, None] - step).clamp(min=0)).tril()  # (H, T, T)
    state, read = None, []
    for query, key, value in zip(*(x.split(CHUNK, dim=2) for x in (q, k, v)), strict=True):
        steps = query.shape[2]
        within = mask[:, :steps, :steps]
        out = ((query @ key.mT) * within) @ value
        written = (key * within[:, -1, :, None]).mT @ value
        if state is not None:
            since = within[:, :, :1] * decay[:, None, None]  # γ to the 1, 2, …
            out = out + (query * since) @ state
            written = written + since[:, -1:] * state
        state = written
        read.append(out)
    return torch.cat(read, dim=2)
