"""The authors' released model: h_t = α_t h_{t−1} + γ_t B(e^{iΘ_t} z_t).

symbol       here
θ_t          theta, the angle of a step                                       (B, T, 1)
Θ_t          θ_1 + … + θ_t with angle="accumulated", else θ_t                 (B, T, 1)
x_t          entering: B(e^{iΘ_t} z_t), with B the same for both planes       (B, T, 2, D)
δ_t, ε_t     gate and entrance: projections of z, of x, or δ of z + h         (B, T, 1)
γ_t          (1 + sin ε)/2 with entrance="sine", else softplus δ              (B, T, 1)
P_t          with recurrence="cumulative", the product α_1 α_2 … α_t          (B, T, 1)

Each part is an option, because results/released.json takes them one by one. Without any of them the
model is the printed one, csprop.CSP with Paper().

The sum over all steps of "cumulative" is h_t = P_t Σ v_s / (P_{s−1} + 1e-9), v = γ x. It equals
h_t = α_t (h_{t−1} + c_t v_t) with c_t = P_{t−1} / (P_{t−1} + 1e-9), and is computed that way. The
authors' gradient treats the divisor as a constant, so α_s acts through P_t alone:
∂h_t / ∂ log α_s = h_t for s ≤ t.
"""

import math
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Generator, Tensor, nn

from csprop import scan
from csprop.cells.block import linear, polar
from csprop.ops.scan import bounded, saturate, turn
from csprop_lab.released.config import ReleasedConfig

NARROW = 16
"""Numbers in the embedding of a token where it is narrow."""
DIVISOR, EPSILON, TINY = 1e-9, 1e-8, 1e-30


class Memory(NamedTuple):
    """The state of a layer after some steps."""

    h: Float[Tensor, "B 2 D"]
    angle: Float[Tensor, "B 1"]
    """The sum of all angles, in float64."""
    log_product: Float[Tensor, "B 1"]
    """The logarithm of the product of all decays, in float64."""


class Released(nn.Module):
    """Tokens (B, T) to scores (B, T, classes)."""

    routers = ()  # layers that the training loop cools in csprop's own models

    def __init__(self, config: ReleasedConfig, generator: Generator) -> None:
        super().__init__()
        self.config, width = config, config.width
        if config.embedding == "complex":
            rows = torch.randn(config.vocab_size, 2, width, generator=generator) / math.sqrt(2)
        elif config.embedding == "narrow":
            rows = nn.init.orthogonal_(torch.empty(config.vocab_size, NARROW), generator=generator)
        else:
            rows = torch.arange(config.vocab_size, dtype=torch.float32)[:, None]
        self.embedding = nn.Parameter(rows)
        if config.embedding != "complex":
            self.widen = linear(rows.shape[1], width, generator)
        self.blocks = nn.ModuleList(ReleasedBlock(config, generator) for _ in range(config.depth))
        self.decoder = linear(2 * width, config.num_classes, generator)

    @property
    def rows(self) -> Float[Tensor, "V 2 D"]:
        """The input of the first layer for each token."""
        if self.config.embedding == "complex":
            return self.embedding
        wide = self.widen(self.embedding.detach())
        wide = torch.tanh(wide) if self.config.embedding == "scalar" else wide
        return torch.stack([wide, torch.zeros_like(wide)], dim=1)

    def initial_state(self, batch: int = 1) -> list[Memory]:
        """The state before the first token, one for each layer."""
        h = self.embedding.new_zeros(batch, 2, self.config.width)
        none = h.new_zeros(batch, 1, dtype=torch.float64)
        return [Memory(h, none, none)] * self.config.depth

    def forward(
        self,
        tokens: Int64[Tensor, "B T"],
        state: list[Memory] | None = None,
        *,
        return_state: bool = False,
    ) -> Any:
        """Scores after every token; with `return_state`, also the state to continue from."""
        z = F.embedding(tokens, self.rows.flatten(1)).unflatten(2, (2, -1))
        last = []
        for block, memory in zip(self.blocks, state or self.initial_state(len(tokens)), strict=True):
            z, memory = block(z, memory)
            last.append(memory)
        if self.config.norm == "root":  # the modulus of z is not quite 1
            z = z / _modulus(z, TINY, 0.0)
        scores = self.decoder(z.flatten(2))
        return (scores, last) if return_state else scores

    @torch.no_grad()
    def angles(self, tokens: Int64[Tensor, "B T"]) -> list[Float[Tensor, "B T"]]:
        """Return θ of every step, by layer; nothing is summed."""
        z, thetas = self.rows[tokens], []
        for block, memory in zip(self.blocks, self.initial_state(len(tokens)), strict=True):
            thetas.append(block.theta(z).squeeze(2))  # pyright: ignore[reportCallIssue]
            z, _ = block(z, memory)
        return thetas


class ReleasedBlock(nn.Module):
    """One layer: rotate, map, recur, activate, skip, normalise."""

    def __init__(self, config: ReleasedConfig, generator: Generator) -> None:
        super().__init__()
        self.config, width = config, config.width
        affine = config.projection == "affine"
        self.angle = linear(
            width if config.projection == "tanh" else 2 * width,
            2 if config.projection == "atan2" else 1,
            generator,
            bias=affine,
            spread=0.0 if affine else 1.0,
        )
        self.gate = linear(2 * width, 1, generator)
        self.skip = nn.Parameter(torch.full((width,), 0.5))
        if config.input_map != "none":
            self.map = linear(width, width, generator, bias=config.input_map == "affine")
        if config.entrance == "sine":
            self.entrance = linear(2 * width, 1, generator)

    def forward(
        self, z: Float[Tensor, "B T 2 D"], memory: Memory
    ) -> tuple[Float[Tensor, "B T 2 D"], Memory]:
        theta = self.theta(z)
        angle, log_product = memory.angle, memory.log_product
        if self.config.angle == "accumulated":
            total = running_sum(theta, angle)
            total = total - math.tau * (total / math.tau).round()  # float32 is exact near 0 alone
            theta, angle = total.to(theta.dtype), total[:, -1]
        x = turn(polar(torch.ones_like(theta), theta), z)
        if self.config.input_map != "none":
            x = self.map(x)
        if self.config.gate_input == "state":
            h, last = self._step_by_step(z, x, memory.h)
        elif self.config.recurrence == "cumulative":
            h, last, log_product = self._cumulative(z, x, memory)
        else:
            seen = x if self.config.gate_input == "entering" else z
            alpha, gamma = self._decay(self.gate(seen.flatten(2)))
            gamma = self._sine(seen) if self.config.entrance == "sine" else gamma
            h, last = scan(alpha[:, :, None], gamma[:, :, None] * x, memory.h)
        out = F.silu(h) + torch.sigmoid(self.skip) * z
        beside = (EPSILON, 0.0) if self.config.norm == "root" else (TINY, EPSILON)
        modulus = _modulus(out, *beside)
        if self.config.recurrence == "cumulative":
            modulus = modulus.detach()
        return out / modulus, Memory(last, angle, log_product)

    def theta(self, z: Float[Tensor, "B T 2 D"]) -> Float[Tensor, "B T 1"]:
        """Return the angle of every step."""
        if self.config.projection == "tanh":
            return math.pi * torch.tanh(self.angle(z[:, :, 0]))
        projected = torch.tanh(self.angle(z.flatten(2)))
        if self.config.projection == "affine":
            return math.pi * projected
        x, y = projected.chunk(2, dim=2)
        return torch.atan2(y, torch.where(x.square() + y.square() < TINY, 1.0, x))

    def _decay(self, delta: Tensor) -> tuple[Tensor, Tensor]:
        """Return α and γ = softplus δ."""
        gamma = F.softplus(delta)
        return torch.exp(-gamma) if self.config.decay == "exp" else gamma, gamma

    def _sine(self, seen: Float[Tensor, "B T 2 D"]) -> Float[Tensor, "B T 1"]:
        return (1 + torch.sin(self.entrance(seen.flatten(2)))) / 2

    def _step_by_step(
        self, z: Float[Tensor, "B T 2 D"], x: Float[Tensor, "B T 2 D"], h: Float[Tensor, "B 2 D"]
    ) -> tuple[Float[Tensor, "B T 2 D"], Float[Tensor, "B 2 D"]]:
        """All states and the last one, where δ is a projection of z + h_{t−1}."""
        deltas, states = self.gate(z.flatten(2)), []
        sines = self._sine(z) if self.config.entrance == "sine" else None
        for t in range(z.shape[1]):
            alpha, gamma = self._decay(deltas[:, t] + h.flatten(1) @ self.gate.weight.T)
            gamma = gamma if sines is None else sines[:, t]
            h = saturate(bounded(alpha[:, None] * h + gamma[:, None] * x[:, t]))
            states.append(h)
        return torch.stack(states, dim=1), h

    def _cumulative(
        self, z: Float[Tensor, "B T 2 D"], x: Float[Tensor, "B T 2 D"], memory: Memory
    ) -> tuple[Tensor, Tensor, Tensor]:
        """All states and the last one by a sum over all steps, and the last product of decays."""
        by_entering = self.config.gate_input == "entering"
        v = self._sine(x if by_entering else z)[:, :, None] * x
        log_alpha = -F.softplus(self.gate((v if by_entering else z).flatten(2)))
        log_product = running_sum(log_alpha, memory.log_product)
        share = torch.sigmoid(log_product - log_alpha - math.log(DIVISOR)).to(v.dtype).detach()
        alpha = log_alpha.exp().detach()
        h, last = scan(alpha[:, :, None], (alpha * share)[:, :, None] * v, memory.h)
        through = (log_product - log_product.detach())[:, :, None].to(h.dtype)  # 0, with a gradient
        return h + h.detach() * through, last, log_product[:, -1].detach()


def running_sum(steps: Float[Tensor, "B T 1"], first: Float[Tensor, "B 1"]) -> Float[Tensor, "B T 1"]:
    """Return the sums up to every step, which start at `first`, in float64."""
    return steps.double().cumsum(dim=1) + first[:, None]


def _modulus(h: Float[Tensor, "B T 2 D"], under: float, beside: float) -> Float[Tensor, "B T 1 D"]:
    return (h.square().sum(dim=2, keepdim=True) + under).sqrt() + beside
