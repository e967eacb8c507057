"""Resonators: channels that turn by a fixed angle, and decay and are read as their inputs say.

entries    what a step gives each channel: z (two planes), κ, and r (two planes)   (B, T, 5, D)
           or a table of such entries, and `index` names one for each step         (E, 5, D)
theta      the angle of each channel                                               (D,)
h          the state, h_t = α e^{iθ} h_{t−1} + γ z_t                                (B, T, 2, D)
y          what is read of it, Re(conj(s) h_t)                                     (B, T, D)

with α = σ(κ), γ = √(1 − α²) and s = SiLU(r) on each plane. γ gives a state the size of its inputs,
whatever α is. A channel is a filter of one frequency, and the input decides on its memory,
1 / (1 − α) steps. The compiled kernel does all of it in one pass; everywhere else it is the scan
between torch operations.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from csprop.ops import devices
from csprop.ops.backends import backend
from csprop.ops.checks import check_tensor
from csprop.ops.native import resonate as native
from csprop.ops.native.tensors import fits
from csprop.ops.planes import wide
from csprop.ops.scan import scan

PARTS = 5
"""Numbers of an entry for each channel."""


def resonate(
    entries: Float[Tensor, "*E 5 D"],
    theta: Float[Tensor, " D"],
    h0: Float[Tensor, "B 2 D"],
    reset: Bool[Tensor, "B T"] | None = None,
    index: Int64[Tensor, "B T"] | None = None,
) -> tuple[Float[Tensor, "B T D"], Float[Tensor, "B 2 D"]]:
    """Return y of every step, and the last state. A reset forgets the state before its step.

    Half precision is computed in float32, and what is read returned in half precision.
    """
    _check(entries, theta, h0, reset, index)
    given = wide(entries)
    turn, h0 = torch.stack([theta.cos(), theta.sin()]).to(given), h0.to(given)
    steps = entries.shape[1] if index is None else index.shape[1]
    if not steps:
        return entries.new_empty(h0.shape[0], 0, entries.shape[-1]), h0
    if backend() == "native" and not devices.traced() and fits(given, turn, h0) and h0.numel():
        read = given if index is None else torch.cat(moves(given, turn), dim=1)
        y, last = native.Resonators.apply(read, turn, h0, reset, index)
    else:
        y, last = _composed(given if index is None else _look_up(index, given), turn, h0, reset)
    return y.to(entries.dtype), last


def _check(
    entries: Tensor, theta: Tensor, h0: Tensor, reset: Tensor | None, index: Tensor | None
) -> None:
    named, device = ("batch", "time") if index is None else ("rows",), entries.device
    check_tensor("theta", theta, "floating-point", ("channels",), device)
    check_tensor("entries", entries, "floating-point", (*named, PARTS, theta.shape[0]), device)
    if index is not None:
        check_tensor("index", index, "int64", ("batch", "time"), device)
    batch, steps = entries.shape[:2] if index is None else index.shape
    check_tensor("h0", h0, "floating-point", (batch, 2, theta.shape[0]), device)
    if reset is not None:
        check_tensor("reset", reset, "bool", (batch, steps), device)


def _composed(
    entries: Float[Tensor, "B T 5 D"],
    turn: Float[Tensor, "2 D"],
    h0: Float[Tensor, "B 2 D"],
    reset: Tensor | None,
) -> tuple[Float[Tensor, "B T D"], Float[Tensor, "B 2 D"]]:
    a, u, read = moves(entries, turn)
    h, last = scan(a, u, h0, reset)
    return (read * h).sum(dim=2), last


def moves(
    entries: Float[Tensor, "*E 5 D"], turn: Float[Tensor, "2 D"]
) -> tuple[Float[Tensor, "*E 2 D"], Float[Tensor, "*E 2 D"], Float[Tensor, "*E 2 D"]]:
    """α e^{iθ}, γ z and s."""
    z, keep, reading = entries.split([2, 1, 2], dim=-2)
    alpha, rest = keep.sigmoid(), (-keep).sigmoid()
    # Where α rounds to 1 the root's slope has no bound, while γ has none to pass on.
    gamma = (rest * (1 + alpha)).clamp(min=torch.finfo(z.dtype).tiny).sqrt()
    return alpha * turn, gamma * z, F.silu(reading)


def _look_up(index: Int64[Tensor, "B T"], table: Float[Tensor, "E 5 D"]) -> Float[Tensor, "B T 5 D"]:
    return F.embedding(index, table.flatten(1)).unflatten(2, table.shape[1:])
