"""One CSP block: rotate, recur, activate, skip, normalise.

paper        here
z_t          z, the layer's input                        (B, T, 2, D)
θ_t          theta = π tanh(W_θ Re z)                    (B, T, 1 or D)
δ_t          delta = Linear([Re z, Im z])                (B, T, 1 or D)
α_t, γ_t     alpha, gamma from delta                     (B, T, 1 or D)
h_t          the recurrence's state                      (B, T, 2, D)
σ(g)         the skip's strength, one g per channel      (D,)
h_t^{(l)}    the block's output                          (B, T, 2, D)
"""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Generator, Tensor, nn

from csprop.nn.config import ModelOptions
from csprop.nn.layers import linear, polar, unit
from csprop.ops import backend, fused, reference, scan
from csprop.ops.planes import saturate, turn

# With decay="reset" a fresh gate is σ(4) = 0.98: it keeps 3/4 of the state over 16 steps.
RESET_BIAS = 4.0

# A block without the complex norm passes its modulus on to the next block's gates. Beyond this it is
# scaled back and keeps its phase, or the gradients of a stack would overflow.
OUTPUT_LIMIT = 2.0**20


class Block(nn.Module):
    """z ↦ h^{(l)}, with the options of `ModelOptions`."""

    h0: Tensor  # (2, D)

    def __init__(self, options: ModelOptions, generator: Generator) -> None:
        super().__init__()
        self.options = options
        width = options.width
        if options.rotate != "none":
            angles = width if options.rotation == "per_channel" else 1
            free = options.angle == "free"
            self.angle = linear(2 * width if free else width, angles, generator, bias=free)
        gates = width if options.gate == "per_channel" else 1
        self.gate = linear(2 * width, gates, generator)
        if options.decay == "reset":
            nn.init.constant_(self.gate.bias, RESET_BIAS)
        if options.skip:
            self.skip = nn.Parameter(torch.full((width,), 0.5))
        if options.norm == "layer":
            self.norm = nn.LayerNorm(2 * width)
        if options.h0 == "learned":
            phase = torch.rand(width, generator=generator) * 2 * math.pi
            self.h0 = nn.Parameter(polar(torch.ones(width), phase))
        else:
            self.register_buffer("h0", torch.zeros(2, width), persistent=False)

    def forward(
        self,
        z: Float[Tensor, "B T 2 D"],
        state: Float[Tensor, "B 2 D"],
        reset: Bool[Tensor, "B T"] | None = None,
        coupled: Float[Tensor, "B T 2 D"] | None = None,
    ) -> tuple[Float[Tensor, "B T 2 D"], Float[Tensor, "B 2 D"]]:
        """The block's output and its last state.

        `coupled` is what the layer below adds to the recurrence. A reset starts again from h_0.
        """
        if parameters := self.for_kernel(z, state, reset, coupled):
            options = self.options.of_kernel()
            out, last = fused.blocks(z, state[None], reset, coupled, parameters, *options)
            return self.rescale(out), last[0]
        a, u = self.transition(z)
        if coupled is not None:
            u = u + coupled
        if reset is not None:
            u = u + turn(a, self.h0.expand_as(u)) * reset[:, :, None, None]
        if self.options.activation == "step":
            h = reference.scan(a, u, state, reset, F.silu)
            last = h[:, -1] if h.shape[1] else state
        else:
            h, last = scan(a, u, state, reset)
        return self.finish(h, z), last

    def for_kernel(
        self,
        z: Tensor,
        state: Tensor,
        reset: Tensor | None = None,
        coupled: Tensor | None = None,
    ) -> list[Tensor] | None:
        """The parameters that `fused.blocks` wants, if the compiled kernel can do this block."""
        if backend() != "native" or self.options.activation == "step" or not z.numel():
            return None
        parameters = self.kernel_parameters()
        return parameters if fused.fits(z, state, reset, coupled, parameters) else None

    def kernel_parameters(self) -> list[Tensor]:
        """What `fused.blocks` wants of a layer."""
        angle_weight = self.angle.weight if self.options.rotate != "none" else fused.ABSENT
        angle_bias = self.angle.bias if self.options.rotate != "none" else None
        angle_bias = fused.ABSENT if angle_bias is None else angle_bias
        skip = self.skip if self.options.skip else fused.ABSENT
        return [angle_weight, angle_bias, self.gate.weight, self.gate.bias, skip, self.h0]

    def transition(
        self, z: Float[Tensor, "B T 2 D"]
    ) -> tuple[Float[Tensor, "B T P E"], Float[Tensor, "B T 2 D"]]:
        """a_t and u_t of h_t = a_t · h_{t-1} + u_t."""
        alpha, gamma = self.decay(z)
        entering = unit(z) if self.options.decay == "reset" else z
        u = gamma[:, :, None] * entering
        if self.options.rotate == "none":
            return alpha[:, :, None], u
        theta = self.theta(z)
        if self.options.rotate == "state":
            return polar(alpha, theta), u
        return alpha[:, :, None], turn(polar(torch.ones_like(theta), theta), u)

    def theta(self, z: Float[Tensor, "B T 2 D"]) -> Float[Tensor, "B T E"]:
        if self.options.angle == "free":
            return self.angle(z.flatten(2))
        return math.pi * torch.tanh(self.angle(z[:, :, 0]))

    def decay(
        self, z: Float[Tensor, "B T 2 D"]
    ) -> tuple[Float[Tensor, "B T E"], Float[Tensor, "B T E"]]:
        """α and γ, both from δ."""
        delta = self.gate(z.flatten(2))
        if self.options.decay == "reset":
            return torch.sigmoid(delta), torch.sigmoid(-delta)
        gamma = F.softplus(delta)
        if self.options.decay == "exp":
            return torch.exp(-gamma), gamma
        return (gamma if self.options.decay == "softplus" else torch.ones_like(gamma)), gamma

    def finish(
        self, h: Float[Tensor, "B T 2 D"], z: Float[Tensor, "B T 2 D"]
    ) -> Float[Tensor, "B T 2 D"]:
        """What follows the recurrence: SiLU on each plane, skip, norm."""
        if self.options.activation == "boundary":
            h = F.silu(h)
        if self.options.skip:
            h = h + torch.sigmoid(self.skip) * z
        return unit(h) if self.options.norm == "complex" else self.rescale(saturate(h, OUTPUT_LIMIT))

    def rescale(self, h: Float[Tensor, "B T 2 D"]) -> Float[Tensor, "B T 2 D"]:
        """LayerNorm, where it is asked for."""
        if self.options.norm != "layer":
            return h
        return self.norm(h.flatten(2)).unflatten(2, (2, -1))
