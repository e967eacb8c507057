"""From the last layer's state to a score for each class, one class per reading of the paper.

    cos_sin    V scores from [cos φ, sin φ]: 2dV + V parameters
    phase      V scores from φ = atan2(Im h, Re h), the ablation's "naive" decoder: dV + V
    complex    W h ∈ C^V, then each class reads its number along a direction of its own: dV + 3V
    linear     V scores from the state as it is, of any order m: mdV + V

The paper hopes that a decoder within C halves the parameters. A full complex matrix does not: its dV
complex weights are 2dV real numbers, as many as cos_sin has. Keeping the phases of W's entries fixed
does, and leaves the choice of phase to the projection.

`as_linear` returns the decoder as one map of all planes, a weight (V, m, D) and a bias; None if it is
not linear.
"""

import torch
from jaxtyping import Float
from torch import Generator, Tensor, nn

from csprop.cells.block import TINY, Block, linear, unit
from csprop.nn.config import CSPConfig
from csprop.ops.scan import wide


class Decoder(nn.Module):
    """From states (B, T, M, D) to scores (B, T, V)."""

    linear: nn.Linear

    def as_linear(self) -> tuple[Tensor, Tensor] | None:
        return None


class LinearDecoder(Decoder):
    """Linear(h) of all planes; for cos_sin of h / |h|, whose two planes are cos φ and sin φ."""

    def __init__(self, config: CSPConfig, generator: Generator, normalises: bool = False) -> None:
        super().__init__()
        self.order, self.normalises = config.order, normalises
        self.linear = linear(config.order * config.width, config.num_classes, generator)

    def forward(self, h: Float[Tensor, "B T M D"]) -> Float[Tensor, "B T V"]:
        read = unit(h, epsilon=0.0).to(h.dtype) if self.normalises else h
        return self.linear(read.flatten(2))

    def as_linear(self) -> tuple[Tensor, Tensor]:
        return self.linear.weight.unflatten(1, (self.order, -1)), self.linear.bias


class PhaseDecoder(Decoder):
    """Linear(atan2(Im h, Re h)). Near h = 0, where the gradient would be infinite, φ is also set close
    to 0."""

    def __init__(self, config: CSPConfig, generator: Generator) -> None:
        super().__init__()
        self.linear = linear(config.width, config.num_classes, generator)

    def forward(self, h: Float[Tensor, "B T 2 D"]) -> Float[Tensor, "B T V"]:
        re, im = wide(h).unbind(2)
        nowhere = re.square() + im.square() < TINY
        phase = torch.atan2(im, torch.where(nowhere, 1.0, re))
        return self.linear(phase.to(h.dtype))


class ComplexDecoder(Decoder):
    """Re(e^{iψ_v} (W h)_v) up to scale: a linear map C^d → C^V, then a real projection."""

    def __init__(self, config: CSPConfig, generator: Generator) -> None:
        super().__init__()
        self.linear = linear(config.width, config.num_classes, generator, bias=False)
        self.projection = nn.Parameter(torch.randn(2, config.num_classes, generator=generator))
        self.bias = nn.Parameter(torch.zeros(config.num_classes))

    def forward(self, h: Float[Tensor, "B T 2 D"]) -> Float[Tensor, "B T V"]:
        return (self.linear(h) * self.projection).sum(dim=2) + self.bias

    def as_linear(self) -> tuple[Tensor, Tensor]:
        return self.projection.T[:, :, None] * self.linear.weight[:, None], self.bias


def make_decoder(config: CSPConfig, last: Block, generator: Generator) -> Decoder:
    """Return the decoder that a configuration asks for; `last` is the block that it reads.

    If every number in that block's output has the modulus 1, its planes are cos φ and sin φ already, so
    `cos_sin` is just the linear map.
    """
    if config.decoder == "phase":
        return PhaseDecoder(config, generator)
    if config.decoder == "complex":
        return ComplexDecoder(config, generator)
    normalises = config.decoder == "cos_sin" and not last.has_unit_output
    return LinearDecoder(config, generator, normalises)
