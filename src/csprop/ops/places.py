"""The `torch` backend of `route`: a product with all maps in a step, or maps composed with each other.

`soft` spreads the contents over the maps and multiplies by all of them side by side. `hard` is for maps
whose columns have a single 1. There the steps up to t are one map again, a target for each channel.
These are computed for all t together, by composing neighbours, then neighbours of neighbours and so on,
and applied to h_0 once.
"""

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor


def soft(
    maps: Float[Tensor, "K G m m"],
    weights: Float[Tensor, "B T K"],
    h0: Float[Tensor, "B 2 D"],
    reset: Bool[Tensor, "B T"] | None = None,
    start: Float[Tensor, "2 D"] | None = None,
) -> Float[Tensor, "B T 2 D"]:
    """All states of `route.soft`."""
    count, groups, places, _ = maps.shape
    flat = maps.permute(1, 0, 3, 2).reshape(groups, count * places, places)  # (G, K m, m)
    batch, steps = weights.shape[:2]
    share = weights.transpose(0, 1)[:, None, :, None, :, None]  # (T, 1, B, 1, K, 1)
    h = h0.unflatten(2, (groups, places)).permute(2, 0, 1, 3)  # (G, B, 2, m)
    begin = None if start is None else start.unflatten(1, (groups, places)).transpose(0, 1)[:, None]
    states = []
    for t in range(steps):
        if reset is not None and begin is not None:
            h = torch.where(reset[:, t, None, None], begin, h)
        spread = (share[t] * h[:, :, :, None]).reshape(groups, 2 * batch, count * places)
        h = torch.bmm(spread, flat).unflatten(1, (batch, 2))
        states.append(h)
    if not states:
        return h0.new_empty(batch, 0, *h0.shape[1:])
    return torch.stack(states).permute(2, 0, 3, 1, 4).flatten(3)  # (B, T, 2, D)


def hard(
    targets: Int64[Tensor, "K D"],
    choice: Int64[Tensor, "B T"],
    h0: Float[Tensor, "B 2 D"],
    reset: Bool[Tensor, "B T"] | None = None,
    start: Float[Tensor, "2 D"] | None = None,
) -> Float[Tensor, "B T 2 D"]:
    """All states of `route.hard`."""
    steps = choice.shape[1]
    where = targets[choice]  # (B, T, D)
    begun = reset
    reach = 1
    while reach < steps:
        earlier, later = slice(None, -reach), slice(reach, None)
        joined = torch.gather(where[:, later], 2, where[:, earlier])
        fresh = None if begun is None else begun[:, later, None]
        joined = joined if fresh is None else torch.where(fresh, where[:, later], joined)
        where = torch.cat([where[:, :reach], joined], dim=1)
        if begun is not None:
            begun = torch.cat([begun[:, :reach], begun[:, later] | begun[:, earlier]], dim=1)
        reach *= 2
    content = h0[:, None].expand(-1, steps, -1, -1)
    if begun is not None and start is not None:
        content = torch.where(begun[:, :, None, None], start, content)
    index = where[:, :, None].expand(-1, -1, 2, -1)
    return torch.zeros_like(content).scatter_add(3, index, content)
