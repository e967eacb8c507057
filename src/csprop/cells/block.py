"""The base of every block: z in, the recurrence h_t = a_t · h_{t−1} + u_t, an output of the same shape.

A block of your own overrides `transition`, and `finish` if something follows the recurrence. Both see
one step at a time: what a step does depends on its own input alone.

    z, h       (B, T, M, D)    input and states: M real planes (2 for a complex number), D channels
    a          (B, T, 1, D)    a real factor, or (B, T, 2, D) a complex one, or (B, T, M, M, D) a matrix
    u          (B, T, M, D)    the part of the input that enters

In half precision, float16 or bfloat16, inputs, outputs and matrix products are half; gates, angles,
states and what follows the recurrence are computed in float32.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Generator, Tensor, nn

from csprop.cells.options import Cell, Shape
from csprop.ops.backends import exporting
from csprop.ops.checks import check_tensor
from csprop.ops.scan import narrow, saturate, scan, turn, wide

# The paper's ε, and what keeps the square root's gradient finite at 0.
EPSILON = 1e-8
TINY = 1e-30
OUTPUT_LIMIT = 2.0**20
"""A block without a norm passes its modulus on to the gates of the next block. A larger modulus is
scaled back to this and keeps its phase, because the gradients of a stack would overflow."""

Transition = tuple[Tensor, Any]
"""a and u for every step; for a router, the map scores and None."""


class Block(nn.Module, ABC):
    """One layer: z ↦ its output, and the state to carry on from."""

    h0: Tensor  # (M, D)
    recalls = False
    """True if `finish` needs the state before each step."""
    has_unit_output = False
    """True if every number of the output has the modulus 1."""
    routes = False
    """True for a router, whose maps have a temperature."""
    trains_embedding = True
    """False if a first layer of this kind uses its embedding as it is."""

    def __init__(self, cell: Cell, shape: Shape, generator: Generator) -> None:
        super().__init__()
        self.cell, self.order, self.width = cell, cell.order, shape.width
        self.register_buffer("h0", torch.empty(cell.order, shape.width), persistent=False)
        self.fill_start()

    def learn_start(self, values: Float[Tensor, "M D"]) -> None:
        """Make the state before the first step a parameter; otherwise it is a constant."""
        del self.h0
        self.h0 = nn.Parameter(values)

    @torch.no_grad()
    def fill_start(self) -> None:
        """Fill in a constant h_0: zeros, unless a subclass says otherwise."""
        self.h0.zero_()

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "Block":
        """Move or convert all tensors. A constant h_0 that leaves the device `meta` is filled in."""
        deferred = "h0" in self._buffers and self.h0.is_meta
        super()._apply(fn, recurse)
        if deferred:
            self.fill_start()
        return self

    def begin(self, embedding: Float[Tensor, "V M D"], generator: Generator) -> None:
        """Prepare to be the first layer of a model, whose tokens have these rows."""

    @property
    def start(self) -> Float[Tensor, "M D"]:
        """h_0."""
        return self.h0

    @abstractmethod
    def transition(self, z: Float[Tensor, "B T M D"]) -> Transition:
        """Return a and u of every step."""

    def finish(
        self,
        h: Float[Tensor, "B T M D"],
        z: Float[Tensor, "B T M D"],
        before: Float[Tensor, "B T M D"] | None = None,
    ) -> Float[Tensor, "B T M D"]:
        """Return the output from the states; `before` is h_{t−1} if the block recalls it."""
        return narrow(saturate(h, OUTPUT_LIMIT), z.dtype)

    def forward(
        self,
        z: Float[Tensor, "B T M D"],
        state: Float[Tensor, "B M D"],
        reset: Bool[Tensor, "B T"] | None = None,
        coupled: Float[Tensor, "B T M D"] | None = None,
        transition: Transition | None = None,
    ) -> tuple[Float[Tensor, "B T M D"], Float[Tensor, "B M D"]]:
        """Return the output and the last state.

        Where `reset` is true, the state starts again from h_0 before that step. `coupled` is added to
        u. `transition` is `self.transition(z)`, if it is known. An argument that is not a tensor of the
        right shape, type and device raises InputError.
        """
        self._check(z, state, reset, coupled)
        h, last = self.recur(transition or self.transition(z), state, reset, coupled)
        before = self.shift(h, state, reset) if self.recalls else None
        return self.finish(h, z, before), last

    def recur(
        self,
        transition: Transition,
        state: Float[Tensor, "B M D"],
        reset: Bool[Tensor, "B T"] | None,
        coupled: Float[Tensor, "B T M D"] | None,
    ) -> tuple[Float[Tensor, "B T M D"], Float[Tensor, "B M D"]]:
        """Return all states, and the last one."""
        a, u = self._entering(transition, reset, coupled)
        return scan(a, u, state, reset)

    def _entering(
        self, transition: Transition, reset: Tensor | None, coupled: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Return a, and u with the coupling and the starts of new sequences in it.

        At a reset `scan` drops the state, h_t = u_t, so a · h_0 is added to u here.
        """
        a, u = transition
        if coupled is not None:
            u = u + coupled
        if reset is not None:
            u = u + turn(a, self.start.expand_as(u)) * reset[:, :, None, None]
        return a, u

    def advance(
        self,
        z: Float[Tensor, "B 1 M D"],
        state: Float[Tensor, "B M D"],
        coupled: Float[Tensor, "B 1 M D"] | None = None,
    ) -> Float[Tensor, "B M D"]:
        """Return the state after one more step."""
        a, u = self.transition(z)
        return saturate(turn(a, state[:, None]) + (u if coupled is None else u + coupled))[:, 0]

    def shift(
        self, h: Float[Tensor, "B T M D"], state: Float[Tensor, "B M D"], reset: Tensor | None
    ) -> Float[Tensor, "B T M D"]:
        """Return h_{t−1} of every step."""
        before = torch.cat([state[:, None], h], dim=1)[:, :-1]
        return before if reset is None else torch.where(reset[:, :, None, None], self.start, before)

    def _check(self, z: Tensor, state: Tensor, reset: Tensor | None, coupled: Tensor | None) -> None:
        planes, device = (self.order, self.width), self.h0.device
        check_tensor("z", z, "floating-point", ("batch", "time", *planes), device)
        check_tensor("state", state, "floating-point", (z.shape[0], *self.h0.shape), device)
        if reset is not None:
            check_tensor("reset", reset, "bool", z.shape[:2], device)
        if coupled is not None:
            check_tensor("coupled", coupled, "floating-point", z.shape, device)

    @property
    def kernel_options(self) -> dict[str, int | str]:
        """The options of this layer in the kernel's `Layer`; only built-in blocks have them."""
        raise NotImplementedError


class GatedBlock(Block):
    """The base of rotors and switches, whose states are on the unit sphere.

    ρ_t          0 or 1 in each channel: 1 where δ_t = Linear(z_t) > 0, with the gradient of σ(δ_t)
    h_0          a learned point of the unit sphere                                     (M, D)
    """

    def make_gate(self, bias: tuple[float, float], generator: Generator) -> None:
        """Draw the gate; its bias goes from the first number, in the first channel, to the last."""
        self.gate = linear(self.order * self.width, self.width, generator)
        self.gate.bias = nn.Parameter(torch.linspace(*bias, self.width))

    def keep(self, z: Float[Tensor, "B T M D"]) -> Float[Tensor, "B T D"]:
        """Return ρ."""
        delta = wide(self.gate(z.flatten(2)))
        soft = torch.sigmoid(delta)
        return (delta > 0).to(soft) + (soft - soft.detach())

    @property
    def start(self) -> Float[Tensor, "M D"]:
        """h_0, on the unit sphere."""
        return unit(self.h0, epsilon=0.0)


def draw_on_sphere(order: int, width: int, generator: Generator) -> Float[Tensor, "M D"]:
    """Draw a point of the unit sphere for each channel, uniformly."""
    if order == 2:
        return polar(torch.ones(width), torch.rand(width, generator=generator) * 2 * math.pi)
    return unit(torch.randn(order, width, generator=generator), epsilon=0.0)


def add_skip(h: Tensor, skip: Tensor | None, z: Tensor) -> Tensor:
    """Return h + σ(g) ⊙ z, or h if there is no skip."""
    return h if skip is None else h + torch.sigmoid(skip) * z


def linear(
    inputs: int, outputs: int, generator: Generator, bias: bool = True, spread: float = 1.0
) -> nn.Linear:
    """Return an `nn.Linear` with PyTorch's default initialisation, scaled by `spread`."""
    layer = nn.Linear(inputs, outputs, bias=bias, device="meta")  # which draws nothing
    bound = spread / math.sqrt(inputs)
    for name, parameter in list(layer.named_parameters()):
        start = torch.empty(parameter.shape).uniform_(-bound, bound, generator=generator)
        setattr(layer, name, nn.Parameter(start))
    return layer


@torch.no_grad()
def start_again(module: nn.Module, make: Callable[[], nn.Module]) -> None:
    """Copy the values of a new module, which is made on the CPU, where its generator is."""
    with torch.device("cpu"):
        fresh = make()
    for mine, new in zip(module.parameters(), fresh.parameters(), strict=True):
        mine.copy_(new)
    for mine, new in zip(module.buffers(), fresh.buffers(), strict=True):
        mine.copy_(new)


def unit(h: Float[Tensor, "*batch M D"], epsilon: float = EPSILON) -> Float[Tensor, "*batch M D"]:
    """Return h / (|h| + ε) in float32 or float64, with a finite gradient at h = 0."""
    squared = wide(h).square().sum(dim=-2, keepdim=True)
    if exporting():  # which takes a number this small for 0, but no tensor of one dimension
        return h / ((squared + squared.new_full((1,), TINY)).sqrt() + squared.new_full((1,), epsilon))
    return h / ((squared + TINY).sqrt() + epsilon)


def polar(modulus: Tensor, angle: Tensor) -> Float[Tensor, "*batch 2 D"]:
    """Return modulus · e^{i·angle} as two planes."""
    return torch.stack([modulus * angle.cos(), modulus * angle.sin()], dim=-2)
