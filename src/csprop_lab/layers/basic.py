"""Models of few parts to compare with: torch's own layers, and a diagonal state-space layer."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from csprop import scan

Kind = Literal["RNN", "LSTM", "GRU", "Transformer", "SSM [0, 1]", "SSM [-1, 1]"]


@dataclass(frozen=True, kw_only=True)
class PeerConfig:
    """A peer and its size."""

    kind: Kind
    vocab_size: int
    num_classes: int
    width: int
    depth: int


class Peer(nn.Module):
    """Tokens (B, T) to scores (B, T, classes)."""

    routers = ()  # what the training loop cools in csprop's own models

    def __init__(self, config: PeerConfig, generator: Generator) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):  # torch's own layers draw from the global generator
            torch.manual_seed(generator.initial_seed())
            self.embedding = nn.Embedding(config.vocab_size, config.width)
            self.layers = LAYERS[config.kind](config.width, config.depth)
            self.decoder = nn.Linear(config.width, config.num_classes)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.decoder(self.layers(self.embedding(tokens)))


class Recurrent(nn.Module):
    """torch's RNN, LSTM or GRU."""

    def __init__(self, kind: type[nn.RNN | nn.LSTM | nn.GRU], width: int, depth: int) -> None:
        super().__init__()
        self.cells = kind(width, width, depth, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.cells(x)[0]


class CausalTransformer(nn.Module):
    """torch's encoder, normalised before each part, that sees the past alone."""

    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(
            width, 4, 4 * width, dropout=0.0, batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(
            layer, depth, norm=nn.LayerNorm(width), enable_nested_tensor=False
        )

    def forward(self, x: Tensor) -> Tensor:
        steps, width = x.shape[1:]
        mask = nn.Transformer.generate_square_subsequent_mask(steps, device=x.device)
        return self.layers(x + positions(steps, width).to(x.device), mask=mask, is_causal=True)


def positions(steps: int, width: int) -> Tensor:
    """Sines and cosines of the position at wavelengths from 2π to 10,000 · 2π, (T, D)."""
    rates = torch.exp(torch.arange(0, width, 2) * (-math.log(10_000) / width))
    angles = torch.arange(steps)[:, None] * rates
    return torch.stack([angles.sin(), angles.cos()], dim=2).flatten(1)[:, :width]


class SelectiveSSM(nn.Module):
    """A diagonal state-space layer with gates that depend on the input, as Mamba's do.

    h_t = a_t h_{t−1} + (1 − σ(δ_t)) B x_t with two states a channel, read out under a SiLU gate. The
    eigenvalues a_t are σ(δ_t) in [0, 1], or 2σ(δ_t) − 1 in [−1, 1], which is all that Grazzi et al.
    change. There is no convolution before it.
    """

    def __init__(self, width: int, negative: bool) -> None:
        super().__init__()
        self.negative = negative
        self.project = nn.Linear(width, 4 * width)  # δ, B x twice, and the gate
        self.out = nn.Linear(2 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        delta, *entering, gate = self.project(x).chunk(4, dim=2)
        kept = delta.sigmoid()
        a = 2 * kept - 1 if self.negative else kept
        h, _ = scan(a[:, :, None], torch.stack(entering, dim=2) * (1 - kept)[:, :, None])
        return self.out((h * F.silu(gate)[:, :, None]).flatten(2))


class Residual(nn.Module):
    """A layer behind a norm, added to its input."""

    def __init__(self, layer: nn.Module, width: int) -> None:
        super().__init__()
        self.norm, self.layer = nn.LayerNorm(width), layer

    def forward(self, x: Tensor) -> Tensor:
        return x + self.layer(self.norm(x))


def _stack(negative: bool) -> Callable[[int, int], nn.Module]:
    return lambda width, depth: nn.Sequential(
        *(Residual(SelectiveSSM(width, negative), width) for _ in range(depth)), nn.LayerNorm(width)
    )


LAYERS: dict[str, Callable[[int, int], nn.Module]] = {
    "RNN": lambda width, depth: Recurrent(nn.RNN, width, depth),
    "LSTM": lambda width, depth: Recurrent(nn.LSTM, width, depth),
    "GRU": lambda width, depth: Recurrent(nn.GRU, width, depth),
    "Transformer": CausalTransformer,
    "SSM [0, 1]": _stack(negative=False),
    "SSM [-1, 1]": _stack(negative=True),
}


rnn, lstm, gru = (partial(Recurrent, kind, depth=1) for kind in (nn.RNN, nn.LSTM, nn.GRU))
ssm, ssm_negative = (partial(SelectiveSSM, negative=negative) for negative in (False, True))
