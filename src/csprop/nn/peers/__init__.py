"""Layers of other people, by name: what csprop is compared with, one file each."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True)
class Entry:
    """A layer of features, (B, T, width) to (B, T, width), that sees the past alone."""

    where: str
    """The module and the class or function, which is called with the width."""
    paper: str
    """Who published it, and where."""

    def layer(self, width: int) -> "nn.Module":
        """A new layer, with weights from torch's own generator."""
        return made(self.where)(width)


def made(where: str) -> Callable[[int], Any]:
    """What a name such as package.module:Class stands for."""
    module, _, name = where.partition(":")
    return getattr(import_module(module), name)


PEERS: dict[str, Entry] = {
    "rnn": Entry("csprop.nn.peers.plain:rnn", "Elman, Cognitive Science 1990"),
    "lstm": Entry("csprop.nn.peers.plain:lstm", "Hochreiter and Schmidhuber, Neural Computation 1997"),
    "gru": Entry("csprop.nn.peers.plain:gru", "Cho et al., EMNLP 2014"),
    "transformer": Entry("csprop.nn.peers.attention:Attention", "Vaswani et al., NeurIPS 2017"),
    "s4d": Entry("csprop.nn.peers.s4d:S4D", "Gupta et al., NeurIPS 2022; Gu et al., NeurIPS 2022"),
    "s5": Entry("csprop.nn.peers.s5:S5", "Smith et al., ICLR 2023"),
    "h3": Entry("csprop.nn.peers.h3:H3", "Fu et al., ICLR 2023"),
    "mamba": Entry("csprop.nn.peers.mamba:Mamba", "Gu and Dao, COLM 2024"),
    "mamba-2": Entry("csprop.nn.peers.mamba2:Mamba2", "Dao and Gu, ICML 2024"),
    "retnet": Entry("csprop.nn.peers.retnet:Retention", "Sun et al., arXiv:2307.08621, 2023"),
    "linear-attention": Entry(
        "csprop.nn.peers.linear_attention:LinearAttention", "Katharopoulos et al., ICML 2020"
    ),
    "fast-weights": Entry("csprop.nn.peers.fast_weights:FastWeights", "Schlag et al., ICML 2021"),
    "gated-deltanet": Entry("csprop.nn.peers.gated_deltanet:GatedDeltaNet", "Yang et al., ICLR 2025"),
    "deltaproduct": Entry(
        "csprop.nn.peers.deltaproduct:GatedDeltaProduct", "Siems et al., NeurIPS 2025"
    ),
    "megalodon": Entry("csprop.nn.peers.megalodon:Megalodon", "Ma et al., NeurIPS 2024"),
    "rwkv-7": Entry("csprop.nn.peers.rwkv7:RWKV7", "Peng et al., arXiv:2503.14456, 2025"),
    "slstm": Entry("csprop.nn.peers.slstm:SLSTM", "Beck et al., NeurIPS 2024"),
    "mlstm": Entry("csprop.nn.peers.mlstm:MLSTM", "Beck et al., NeurIPS 2024"),
    "pd-ssm": Entry("csprop.nn.peers.pd_ssm:PDSSM", "Terzić et al., NeurIPS 2025"),
    "ssm": Entry("csprop.nn.peers.plain:ssm", "a diagonal selective state-space layer"),
    "ssm-negative": Entry(
        "csprop.nn.peers.plain:ssm_negative", "the same, eigenvalues as in Grazzi et al., ICLR 2025"
    ),
}
"""By the name that `csprop compare --models` takes."""
