"""One CSP block: rotate, recur, activate, skip, normalise.

paper        here
z_t          z, the layer's input                        (B, T, M, D)
θ_t          theta = π tanh(W_θ Re z)                    (B, T, 1 or D)
δ_t          delta = Linear([Re z, Im z])                (B, T, 1 or D)
α_t, γ_t     alpha, gamma from delta                     (B, T, 1 or D)
h_t          the recurrence's state                      (B, T, M, D)
σ(g)         the skip's strength, one g per channel      (D,)
h_t^{(l)}    the block's output                          (B, T, M, D)

M is the order: 2, a complex number as two planes, or more, a vector turned by M(M − 1)/2 angles.

In half precision, float16 or bfloat16, only the inputs and outputs of a block and its matrix products
are: gates, angles, states and what follows the recurrence are computed in float32.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Generator, Tensor, nn

from csprop.nn.config import ModelOptions
from csprop.nn.layers import DIVISORS, direction, linear, modulus, polar, unit
from csprop.nn.rotors import angles_of, prepare, rotation
from csprop.ops import reference
from csprop.ops.checks import check_tensor
from csprop.ops.counts import exact, whole
from csprop.ops.planes import ANGLE_LIMIT, narrow, saturate, turn, wide
from csprop.ops.scan import scan

# Where gates start: σ(4) = 0.98 keeps 3/4 of the state over 16 steps. One that is rounded keeps all of
# it, and some must be near enough to 0 to learn to let go (docs/notes/exact.md).
GATE_BIAS = {"reset": (4.0, 4.0), "switch": (0.5, 6.0)}  # of the first channel, and of the last
STACKED_BIAS = (1.0, 1.0)  # of switches in a stack, whose layers have more to let go
POINT_BIAS = (1.0, 4.0)  # where a point replaces the state for good, and too many would be lost at once

# Free angles of a lone layer start this much wider than a linear layer does, about a radian wide: near
# the identity rotations are all alike, and a group is hard to find. A stack does better without.
SPREAD = 4.0

# A block without the complex norm passes its modulus on to the next block's gates. Beyond this it is
# scaled back and keeps its phase, or the gradients of a stack would overflow.
OUTPUT_LIMIT = 2.0**20


Transition = tuple[Tensor, Any]
"""What a step does: a_t and u_t; of a router the scores of its maps, and its phases or None."""


class Block(nn.Module):
    """z ↦ h^{(l)}, with the options of `ModelOptions`."""

    h0: Tensor  # (M, D)

    def __init__(self, options: ModelOptions, generator: Generator) -> None:
        super().__init__()
        self.options = options
        width, order = options.width, options.order
        if options.rotate != "none":
            prepare(order)
            angles = width if options.rotation == "per_channel" else 1
            free, affine = options.angle == "free", options.projection == "affine"
            inputs = width if options.projection == "tanh" and not free else order * width
            outputs = (2 if options.projection == "atan2" else angles_of(order)) * angles
            spread = SPREAD if free and options.depth == 1 else 0.0 if affine else 1.0
            self.angle = linear(inputs, outputs, generator, bias=free or affine, spread=spread)
        gates = width if options.gate == "per_channel" else 1
        if options.gated:
            self.gate = linear(order * width, gates, generator)
        if options.replaces:
            stacked = options.decay == "switch" and options.depth > 1
            bias = STACKED_BIAS if stacked else GATE_BIAS[options.decay]
            bias = POINT_BIAS if options.enter == "point" else bias
            self.gate.bias = nn.Parameter(torch.linspace(*bias, gates))
        if options.skip:
            self.skip = nn.Parameter(torch.full((width,), 0.5))
        if options.recall:
            self.recall = nn.Parameter(torch.randn(width, generator=generator))
        if options.norm == "layer":
            self.norm = nn.LayerNorm(order * width)
        if options.enter == "point":
            self.point = nn.Parameter(_on_sphere(order, width, generator))
        if options.h0 == "learned":
            self.h0 = nn.Parameter(_on_sphere(order, width, generator))
        else:
            self.register_buffer("h0", torch.empty(order, width), persistent=False)
            self._fix_start()

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if self.options.rotate != "none":
            prepare(self.options.order)

    @torch.no_grad()
    def _fix_start(self) -> None:
        """Fill in an h_0 that is not learned."""
        self.h0.zero_()
        if self.options.h0 == "place":
            self.h0[0, :: self.options.places] = 1
        if self.options.h0 == "line":
            self.h0[1] = 1

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "Block":
        """Move or convert all tensors. What leaves the device `meta` has no values; an h_0 that no file
        of weights has gets its own back."""
        deferred = "h0" in self._buffers and self.h0.is_meta
        super()._apply(fn, recurse)
        if deferred:
            self._fix_start()
        return self

    def forward(
        self,
        z: Float[Tensor, "B T M D"],
        state: Float[Tensor, "B M D"],
        reset: Bool[Tensor, "B T"] | None = None,
        coupled: Float[Tensor, "B T M D"] | None = None,
        transition: Transition | None = None,
    ) -> tuple[Float[Tensor, "B T M D"], Float[Tensor, "B M D"]]:
        """The block's output and its last state.

        `coupled` is what the layer below adds to the recurrence, `transition` what `self.transition(z)`
        would be, where that is known already. A reset starts again from h_0. Raises InputError for what
        is no tensor of the right shape, type and device.
        """
        self._check(z, state, reset, coupled)
        h, last = self.recur(transition or self.transition(z), state, reset, coupled)
        before = self._before(h, state, reset) if self.options.recall else None
        return self.finish(h, z, before), last

    def recur(
        self,
        transition: Transition,
        state: Float[Tensor, "B M D"],
        reset: Bool[Tensor, "B T"] | None,
        coupled: Float[Tensor, "B T M D"] | None,
    ) -> tuple[Float[Tensor, "B T M D"], Float[Tensor, "B M D"]]:
        """All states of the recurrence, and the last one."""
        a, u = transition
        if coupled is not None:
            u = u + coupled
        if reset is not None:
            start = self.start[: self.options.order]
            u = u + turn(a, start.expand_as(u)) * reset[:, :, None, None]
        if self.options.loops:
            h = reference.scan(a, u, state, reset, F.silu)
            return h, h[:, -1] if h.shape[1] else state
        h, last = scan(a, u, state, reset)
        return (self._counted(h, self._before(h, state, reset), u) if self.counts else h), last

    def advance(
        self,
        z: Float[Tensor, "B 1 M D"],
        state: Float[Tensor, "B M D"],
        coupled: Float[Tensor, "B 1 M D"] | None = None,
    ) -> Float[Tensor, "B M D"]:
        """The state after one more step."""
        a, u = self.transition(z)
        h = saturate(turn(a, state[:, None]) + (u if coupled is None else u + coupled))
        if self.counts:
            h = self._counted(h, state[:, None], u)
        return (F.silu(h) if self.options.loops else h)[:, 0]

    @staticmethod
    def _counted(
        h: Float[Tensor, "B T 2 D"], before: Float[Tensor, "B T 2 D"], u: Float[Tensor, "B T 2 D"]
    ) -> Float[Tensor, "B T 2 D"]:
        """The states, where their counts are exact; an InputError otherwise."""
        (counts, line), added = h.unbind(2), u[:, :, 0].expand_as(h[:, :, 0])
        return torch.stack([exact(counts, before[:, :, 0].to(counts), added), line], dim=2)

    def _check(self, z: Tensor, state: Tensor, reset: Tensor | None, coupled: Tensor | None) -> None:
        planes, device = (self.options.order, self.options.width), self.h0.device
        check_tensor("z", z, "floating-point", ("batch", "time", *planes), device)
        held = (self.options.planes, self.options.width)
        check_tensor("state", state, "floating-point", (z.shape[0], *held), device)
        if reset is not None:
            check_tensor("reset", reset, "bool", z.shape[:2], device)
        if coupled is not None:
            check_tensor("coupled", coupled, "floating-point", z.shape, device)

    def _before(
        self, h: Float[Tensor, "B T M D"], state: Float[Tensor, "B M D"], reset: Tensor | None
    ) -> Float[Tensor, "B T M D"]:
        """h_{t−1}."""
        before = torch.cat([state[:, None], h], dim=1)[:, :-1]
        if reset is None:
            return before
        return torch.where(reset[:, :, None, None], self.start[: h.shape[2]], before)

    @property
    def counts(self) -> bool:
        """Whether this is a counter, whose states are whole numbers along a line."""
        return self.options.decay == "count"

    @property
    def start(self) -> Float[Tensor, "M D"]:
        """h_0; where a gate keeps or replaces the state, on the unit sphere like what replaces it."""
        return unit(self.h0, epsilon=0.0) if self.options.replaces else self.h0

    def transition(
        self, z: Float[Tensor, "B T M D"]
    ) -> tuple[Float[Tensor, "B T *P E"], Float[Tensor, "B T M D"]]:
        """a_t and u_t of h_t = a_t · h_{t-1} + u_t: a real, complex or, beyond order 2, a matrix."""
        alpha, gamma = self.decay(z)
        u = gamma[:, :, None] * self.entering(z)
        if self.options.rotate == "none":
            return alpha[:, :, None], u
        if self.options.order > 2:
            angles = self.theta(z).unflatten(2, (angles_of(self.options.order), -1))
            return alpha[:, :, None, None] * rotation(angles, self.options.order), u
        theta = self.theta(z)
        if self.options.rotate == "state":
            return polar(alpha, theta), u
        return alpha[:, :, None], turn(polar(torch.ones_like(theta), theta), u)

    def entering(self, z: Float[Tensor, "B T M D"]) -> Float[Tensor, "#B #T M D"]:
        """What enters the state, before a gate lets it in."""
        if self.options.enter == "point":
            return unit(self.point, epsilon=0.0)[None, None]
        if self.counts:
            return torch.stack([whole(z[:, :, 0]), torch.zeros_like(z[:, :, 1])], dim=2)
        return unit(z) if self.options.replaces else z

    def theta(self, z: Float[Tensor, "B T M D"]) -> Float[Tensor, "B T E"]:
        """The angles of every step, beyond order 2 several for each rotation; none is summed here."""
        if self.options.angle == "free":
            return wide(self.angle(z.flatten(2))).clamp(-ANGLE_LIMIT, ANGLE_LIMIT)
        if self.options.projection == "tanh":
            return math.pi * torch.tanh(wide(self.angle(z[:, :, 0])))
        projected = torch.tanh(wide(self.angle(z.flatten(2))))
        return math.pi * projected if self.options.projection == "affine" else direction(projected)

    def decay(
        self, z: Float[Tensor, "B T M D"]
    ) -> tuple[Float[Tensor, "B T E"], Float[Tensor, "B T E"]]:
        """α and γ, both from δ."""
        if not self.options.gated:
            ones = wide(z.new_ones(*z.shape[:2], 1))
            return ones, ones if self.counts else torch.zeros_like(ones)
        return self.of_delta(wide(self.gate(z.flatten(2))))

    def of_delta(
        self, delta: Float[Tensor, "*batch E"]
    ) -> tuple[Float[Tensor, "*batch E"], Float[Tensor, "*batch E"]]:
        """α and γ from δ itself."""
        if self.options.decay == "reset":
            return torch.sigmoid(delta), torch.sigmoid(-delta)
        if self.options.decay == "switch":
            soft = torch.sigmoid(delta)
            alpha = (delta > 0).to(soft) + (soft - soft.detach())
            return alpha, 1 - alpha
        gamma = F.softplus(delta)
        if self.options.decay == "exp":
            return torch.exp(-gamma), gamma
        return (gamma if self.options.decay == "softplus" else torch.ones_like(gamma)), gamma

    def finish(
        self,
        h: Float[Tensor, "B T M D"],
        z: Float[Tensor, "B T M D"],
        before: Float[Tensor, "B T M D"] | None = None,
    ) -> Float[Tensor, "B T M D"]:
        """What follows the recurrence: SiLU on each plane, skip, recall of the state before, norm."""
        if self.options.activation == "boundary":
            h = F.silu(h)
        if self.options.skip:
            h = h + torch.sigmoid(self.skip) * z
        if before is not None:
            h = h + self.recall * before
        if self.options.norm in DIVISORS:
            return (h / self.modulus(h)).to(z.dtype)
        return self.rescale(narrow(saturate(h, OUTPUT_LIMIT), z.dtype))

    def modulus(self, h: Float[Tensor, "B T M D"]) -> Float[Tensor, "B T 1 D"]:
        """What the norm divides by."""
        return modulus(h, *DIVISORS[self.options.norm])

    def rescale(self, h: Float[Tensor, "B T M D"]) -> Float[Tensor, "B T M D"]:
        """LayerNorm, where it is asked for."""
        if self.options.norm != "layer":
            return h
        return self.norm(h.flatten(2)).unflatten(2, (self.options.order, -1))


def _on_sphere(order: int, width: int, generator: Generator) -> Float[Tensor, "M D"]:
    """A point of the unit sphere for each channel, every one as likely."""
    if order == 2:
        return polar(torch.ones(width), torch.rand(width, generator=generator) * 2 * math.pi)
    return unit(torch.randn(order, width, generator=generator), epsilon=0.0)
