"""A block with parts of the authors' code: h_t = α_t h_{t−1} + γ_t B(e^{iΘ_t} z_t).

symbol       here
Θ_t          θ_1 + … + θ_t with angle="accumulated", else θ_t            (B, T, 1 or D)
x_t          entering: B(e^{iΘ_t} z_t), B the same for both planes       (B, T, 2, D)
δ_t, ε_t     gate and entrance: projections of z, of x, or δ of z + h    (B, T, 1 or D)
γ_t          (1 + sin ε)/2 with entrance="sine", else softplus δ         (B, T, 1 or D)
P_t          with recurrence="cumulative", α_1 α_2 … α_t                 (B, T, 1 or D)

Each part is an option. A state (B, M, D) has h in its first two planes; then, as far as there are such
parts, e^{iΘ} in two, which is 1 before the first token, and P in one.

The sum over all steps of "cumulative" is h_t = P_t Σ v_s / (P_{s−1} + 1e-9), v = γ x. Its values are
those of h_t = α_t (h_{t−1} + c_t v_t) with c_t = P_{t−1} / (P_{t−1} + 1e-9), and that is how they are
computed. Its gradient takes the divisor for a constant, so that α_s is seen through P_t alone:
∂h_t / ∂ log α_s = h_t for all s ≤ t.
"""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Generator, Tensor

from csprop.nn.block import Block, Transition
from csprop.nn.config import ModelOptions
from csprop.nn.layers import linear, polar
from csprop.ops.over_time import over_time
from csprop.ops.planes import bounded, saturate, turn, wide

DIVISOR = 1e-9
LEAST = 1e-30
"""A product that is carried on is not below this, so that it has a logarithm."""


class Released(Block):
    """A block of which some parts are those of the authors' code."""

    def __init__(self, options: ModelOptions, generator: Generator) -> None:
        super().__init__(options, generator)
        if options.input_map != "none":
            biased = options.input_map == "affine"
            self.map = linear(options.width, options.width, generator, bias=biased)
        if options.entrance == "sine":
            self.entrance = linear(2 * options.width, self.gate.out_features, generator)

    @property
    def start(self) -> Float[Tensor, "M D"]:
        """The state before the first token."""
        ones = torch.ones_like(self.h0[:1])
        turned = [ones, torch.zeros_like(ones)] if self.options.summed else []
        product = [ones] if self.options.recurrence == "cumulative" else []
        return torch.cat([self.h0, *turned, *product])

    def forward(
        self,
        z: Float[Tensor, "B T 2 D"],
        state: Float[Tensor, "B M D"],
        reset: Bool[Tensor, "B T"] | None = None,
        coupled: Float[Tensor, "B T 2 D"] | None = None,
        transition: Transition | None = None,
    ) -> tuple[Float[Tensor, "B T 2 D"], Float[Tensor, "B M D"]]:
        """The block's output and its last state, as by `Block`."""
        self._check(z, state, reset, coupled)
        h, last = self.states(z, state, reset, coupled)
        before = self._before(h, state[:, :2], reset) if self.options.recall else None
        return self.finish(h, z, before), last

    def advance(
        self,
        z: Float[Tensor, "B 1 2 D"],
        state: Float[Tensor, "B M D"],
        coupled: Float[Tensor, "B 1 2 D"] | None = None,
    ) -> Float[Tensor, "B M D"]:
        """The state after one more step."""
        return self.states(z, state, None, coupled)[1]

    def states(
        self,
        z: Float[Tensor, "B T 2 D"],
        state: Float[Tensor, "B M D"],
        reset: Bool[Tensor, "B T"] | None,
        coupled: Float[Tensor, "B T 2 D"] | None,
    ) -> tuple[Float[Tensor, "B T 2 D"], Float[Tensor, "B M D"]]:
        """h after every step, and the whole state after the last one."""
        x, beside = z, []
        if self.options.rotate == "input":
            theta = self.theta(z)
            if self.options.summed:
                _, _, re, im, *_ = state[:, :, : theta.shape[2]].unbind(1)
                theta = summed(theta, torch.atan2(im, re), reset)
            turns = polar(torch.ones_like(theta), theta)
            x = turn(turns.to(z.dtype), z)
            beside = [turns.expand_as(z)] if self.options.summed else []
        if self.options.input_map != "none":
            x = self.map(x)
        if self.options.gate_input == "state":
            h, last = self._step_by_step(z, x, state[:, :2].to(wide(z).dtype), reset)
        elif self.options.recurrence == "cumulative":
            h, last, product = self._cumulative(z, x, state, reset)
            beside = [*beside, product.expand_as(z[:, :, :1])]
        else:
            seen = x if self.options.gate_input == "entering" else z
            alpha, gamma = self.decay(seen)
            rotated = (
                polar(alpha, self.theta(z)) if self.options.rotate == "state" else alpha[:, :, None]
            )
            u = (self.sine(seen) if self.options.entrance == "sine" else gamma)[:, :, None] * x
            h, last = self.recur((rotated, u), state[:, :2], reset, coupled)
        if not h.shape[1]:
            return h, state
        return h, torch.cat([last, *(each[:, -1] for each in beside)], dim=1)

    def sine(self, seen: Float[Tensor, "B T 2 D"]) -> Float[Tensor, "B T E"]:
        """γ of its own, beside α."""
        return (1 + torch.sin(wide(self.entrance(seen.flatten(2))))) / 2

    def _step_by_step(
        self, z: Tensor, x: Tensor, h: Float[Tensor, "B 2 D"], reset: Bool[Tensor, "B T"] | None
    ) -> tuple[Float[Tensor, "B T 2 D"], Float[Tensor, "B 2 D"]]:
        """The states where δ is a projection of z + h_{t−1}, and the last one."""

        def step(
            h: Tensor,
            x: Tensor,
            delta: Tensor,
            sine: Tensor | None,
            reset: Tensor | None,
            weight: Tensor,
            start: Tensor,
        ) -> Tensor:
            if reset is not None:
                h = torch.where(reset[:, None, None], start, h)
            alpha, gamma = self.of_delta(delta + wide(h.flatten(1).to(weight.dtype) @ weight.T))
            entered = (gamma if sine is None else sine)[:, None] * x
            return saturate(bounded(alpha[:, None] * h + entered))

        sine = self.sine(z) if self.options.entrance == "sine" else None
        inputs = x, wide(self.gate(z.flatten(2))), sine, reset
        states = over_time(step, h, *inputs, fixed=(self.gate.weight, self.h0))
        return states, states[:, -1] if states.shape[1] else h

    def _cumulative(
        self, z: Tensor, x: Tensor, state: Float[Tensor, "B M D"], reset: Bool[Tensor, "B T"] | None
    ) -> tuple[Float[Tensor, "B T 2 D"], Float[Tensor, "B 2 D"], Float[Tensor, "B T 1 E"]]:
        """The states by a sum over all steps, the last one, and the products of decays."""
        by_entering = self.options.gate_input == "entering"
        v = self.sine(x if by_entering else z)[:, :, None] * x
        delta = wide(self.gate((v.to(z.dtype) if by_entering else z).flatten(2)))
        log_alpha = -F.softplus(delta)
        first = wide(state[:, -1, : delta.shape[2]]).clamp(min=LEAST).log()
        log_product = summed(log_alpha, first, reset, around=False)
        log_before = log_product - log_alpha
        alpha, share = log_alpha.exp().detach(), torch.sigmoid(log_before - math.log(DIVISOR)).detach()
        entered = (alpha * share).to(v.dtype)[:, :, None] * v
        h, last = self.recur((alpha[:, :, None], entered), state[:, :2], reset, None)
        through = (log_product - log_product.detach())[:, :, None]  # 0, with a gradient
        h, last = h + h.detach() * through.to(h.dtype), last + last.detach() * through[:, -1:].sum(1)
        return h, last, log_product.detach().exp()[:, :, None]

    def finish(
        self,
        h: Float[Tensor, "B T M D"],
        z: Float[Tensor, "B T 2 D"],
        before: Float[Tensor, "B T M D"] | None = None,
    ) -> Float[Tensor, "B T 2 D"]:
        """What follows the recurrence, as by `Block`."""
        return super().finish(h[:, :, :2], z, None if before is None else before[:, :, :2])

    def modulus(self, h: Float[Tensor, "B T 2 D"]) -> Float[Tensor, "B T 1 D"]:
        """What the norm divides by; where sums are cumulative, a constant."""
        found = super().modulus(h)
        return found.detach() if self.options.recurrence == "cumulative" else found


def summed(
    steps: Float[Tensor, "B T E"],
    first: Float[Tensor, "B E"],
    reset: Bool[Tensor, "B T"] | None,
    around: bool = True,
) -> Float[Tensor, "B T E"]:
    """The running sums of what is added at every step, from `first` on, and from 0 on after a reset.

    The sums are in float64, and come back in float32 at least; with `around`, they are angles, and are
    then between −π and π.
    """
    total = steps.double().cumsum(dim=1) + first[:, None].double()
    if reset is not None:
        times = torch.arange(steps.shape[1], device=steps.device)
        latest = torch.where(reset, times, -1).cummax(dim=1).values[:, :, None]  # (B, T, 1)
        before = (total - steps).gather(1, latest.clamp(min=0).expand_as(total))
        total = total - torch.where(latest < 0, 0, before)
    if around:
        # A tensor, because the exporter of ONNX would round a number to float32.
        turn = torch.tensor(2 * math.pi, dtype=torch.float64, device=steps.device)
        total = total - turn * (total.detach() / turn).round()
    return total.to(torch.promote_types(steps.dtype, torch.float32))
