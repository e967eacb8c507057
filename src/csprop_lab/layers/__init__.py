"""Published layers that csprop is compared with, by name; one file each."""

import difflib
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from csprop.errors import InputError

Make = Callable[[int], Any]
"""Makes a causal layer of features, (B, T, width) to (B, T, width), from its width. Its weights come
from torch's own generator."""


@dataclass(frozen=True)
class Published:
    """A layer that others published."""

    where: str
    """The module in this package, and what in it is called with the width."""
    paper: str
    """The authors, and where they published it."""
    version: str = ""
    """A new version means that the layer computes something else: its rows are run again."""


PEERS: dict[str, Published] = {
    "csprop-tracker": Published("own:Tracker", "csprop.CSPLayer(kind='tracker')"),
    "rnn": Published("basic:rnn", "Elman, Cognitive Science 1990"),
    "lstm": Published("basic:lstm", "Hochreiter and Schmidhuber, Neural Computation 1997"),
    "gru": Published("basic:gru", "Cho et al., EMNLP 2014"),
    "transformer": Published("attention:Attention", "Vaswani et al., NeurIPS 2017"),
    "s4d": Published("s4d:S4D", "Gupta et al. and Gu et al., NeurIPS 2022"),
    "s5": Published("s5:S5", "Smith et al., ICLR 2023"),
    "h3": Published("h3:H3", "Fu et al., ICLR 2023"),
    "mamba": Published("mamba:Mamba", "Gu and Dao, COLM 2024"),
    "mamba-2": Published("mamba2:Mamba2", "Dao and Gu, ICML 2024"),
    "retnet": Published("retnet:Retention", "Sun et al., arXiv:2307.08621, 2023"),
    "linear-attention": Published(
        "linear_attention:LinearAttention", "Katharopoulos et al., ICML 2020", "2"
    ),
    "fast-weights": Published("fast_weights:FastWeights", "Schlag et al., ICML 2021"),
    "gated-deltanet": Published("gated_deltanet:GatedDeltaNet", "Yang et al., ICLR 2025"),
    "gated-deltanet-negative": Published(
        "gated_deltanet:Negative", "Yang et al., with the eigenvalues of Grazzi et al., ICLR 2025"
    ),
    "deltaproduct": Published("gated_deltanet:GatedDeltaProduct", "Siems et al., NeurIPS 2025"),
    "megalodon": Published("megalodon:Megalodon", "Ma et al., NeurIPS 2024"),
    "rwkv-7": Published("rwkv7:RWKV7", "Peng et al., arXiv:2503.14456, 2025"),
    "slstm": Published("slstm:SLSTM", "Beck et al., NeurIPS 2024"),
    "mlstm": Published("mlstm:MLSTM", "Beck et al., NeurIPS 2024"),
    "pd-ssm": Published("pd_ssm:PDSSM", "Terzić et al., NeurIPS 2025"),
    "csprop-rotor": Published("own:Rotor", "one block of csprop.CSPLayer", "2"),
    "ssm": Published("basic:ssm", "a diagonal selective state-space layer"),
    "ssm-negative": Published(
        "basic:ssm_negative",
        "a diagonal selective layer with the eigenvalues of Grazzi et al., ICLR 2025",
    ),
}
"""By the name that `csprop compare --models` takes."""

OWN: dict[str, Make] = {}
"""Layers of the user, by their names in this process."""


def check(name: str) -> None:
    """Raise an InputError for a name that no layer can have."""
    if name not in PEERS and ":" not in name:
        near = difflib.get_close_matches(name, PEERS, n=1) or PEERS
        raise InputError(
            f"there is no layer {name!r}: choose from {', '.join(near)}, or MODULE:CLASS for your own"
        )


def layer(name: str) -> Make:
    """Return the factory of a layer: of a name in `PEERS`, or of one's own as MODULE:NAME."""
    if name in OWN:
        return OWN[name]
    check(name)
    module, _, attribute = name.partition(":")
    if name in PEERS:
        module, _, attribute = f"csprop_lab.layers.{PEERS[name].where}".partition(":")
    if name not in PEERS and os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())  # a module beside the shell
    try:
        found = import_module(module)
    except (Exception, SystemExit) as error:
        why = f"{type(error).__name__}: {error}"
        raise InputError(f"{name}: {module!r} cannot be imported: {why}") from error
    if not hasattr(found, attribute):
        raise InputError(f"{name}: the module {module!r} has no {attribute!r}")
    return getattr(found, attribute)
