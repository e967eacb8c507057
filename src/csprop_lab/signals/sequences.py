"""Sequences to compare layers of features on: handwritten digits, and a text by its characters."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from csprop.errors import InputError
from csprop.training.seeding import generator
from csprop_lab.signals.networks import Network, NetworkKind
from csprop_lab.signals.prose import prose

DataName = Literal["digits, levels", "digits, numbers", "sentences"]
LEVELS = 17
"""Levels of grey of a digit's pixel, from 0 to 16."""
CHARACTERS, TEXT_STEPS, HELD_OUT_STEPS = 200_000, 128, 256
"""Characters of the text, of a row of it in training, and of a row that is held out."""
BATCHES: dict[DataName, int] = {"digits, levels": 32, "digits, numbers": 32, "sentences": 16}
"""Rows of a batch."""
_DIGITS: dict[NetworkKind, int] = {
    "csprop": 128, "csprop, two blocks": 128, "LSTM": 128, "GRU": 148, "SSM [0, 1]": 148,
}  # fmt: skip
FEATURES: dict[DataName, dict[NetworkKind, int]] = {
    "digits, levels": _DIGITS,
    "digits, numbers": _DIGITS,
    "sentences": {**_DIGITS, "GRU": 147, "SSM [0, 1]": 147},
}
"""Features such that all networks for a data set have about as many parameters."""
CHANNELS: dict[NetworkKind, int] = {"csprop": 170, "csprop, two blocks": 85}
"""Complex channels of csprop's layer in these networks."""


class Rows(NamedTuple):
    """The inputs of a network, and the right answers."""

    inputs: Tensor
    """Tokens (N, T), or numbers (N, T, 1)."""
    targets: Tensor
    """A class for each row (N,), or for each step (N, T)."""


@dataclass(frozen=True, kw_only=True)
class Sequences(ABC):
    """A data set in three parts; the first is for training."""

    vocab_size: int
    """Tokens; 0 if a step is a number."""
    num_classes: int
    last: bool
    """True for one answer for each sequence, and the accuracy as score; False for one for each step,
    and the bits of a step as score."""
    validation: Rows
    test: Rows

    @abstractmethod
    def batch(self, size: int, draws: Generator) -> Rows:
        """Rows to learn from, each drawn from all that there are."""

    def score(self, network: nn.Module, held_out: Rows) -> float:
        """The share of rows that are answered rightly, or the bits of a step."""
        with torch.no_grad():
            scores = network(held_out.inputs)
        if self.last:
            return (scores.argmax(dim=1) == held_out.targets).double().mean().item()
        return loss_of(scores, held_out.targets).item() / math.log(2)

    def network(self, kind: NetworkKind, features: int, width: int, draws: Generator) -> Network:
        """A network for these sequences."""
        return Network(kind, self.vocab_size, self.num_classes, features, width, self.last, draws)


@dataclass(frozen=True, kw_only=True)
class Digits(Sequences):
    """Pictures of 8 × 8 pixels, read from left to right, line by line, and the digit in each."""

    training: Rows

    def batch(self, size: int, draws: Generator) -> Rows:
        chosen = torch.randint(len(self.training.targets), (size,), generator=draws)
        return Rows(self.training.inputs[chosen], self.training.targets[chosen])


@dataclass(frozen=True, kw_only=True)
class Text(Sequences):
    """Characters, and the character that follows each."""

    training: Tensor
    """All characters of the first part."""

    def batch(self, size: int, draws: Generator, steps: int = TEXT_STEPS) -> Rows:
        begins = torch.randint(len(self.training) - steps, (size, 1), generator=draws)
        rows = self.training[begins + torch.arange(steps + 1)]
        return Rows(rows[:, :-1], rows[:, 1:])


def loss_of(scores: Tensor, targets: Tensor) -> Tensor:
    """The mean cross-entropy of all answers."""
    return F.cross_entropy(scores.flatten(0, -2), targets.flatten())


class Learner:
    """A network in training: Adam, with gradients clipped at norm 1."""

    def __init__(self, network: Network, lr: float) -> None:
        self.network, self.weights = network, list(network.parameters())
        self.optimizer = torch.optim.Adam(self.weights, lr=lr, fused=True)

    def step(self, rows: Rows) -> Tensor:
        """Learn from a batch; its loss before that."""
        self.optimizer.zero_grad()
        loss = loss_of(self.network(rows.inputs), rows.targets)
        loss.backward()
        nn.utils.clip_grad_norm_(self.weights, 1.0)
        self.optimizer.step()
        return loss.detach()


def size_of(network: nn.Module) -> int:
    """Return the number of parameters."""
    return sum(parameter.numel() for parameter in network.parameters())


@cache
def sequences(name: DataName) -> Sequences:
    """A data set by its name."""
    return text() if name == "sentences" else digits(as_levels=name == "digits, levels")


def digits(as_levels: bool) -> Digits:
    """scikit-learn's digits: a step is one of 17 levels, or a number from 0 to 1.

    Three fifths of the pictures are learned from, a fifth is validation, a fifth is test.
    """
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise InputError("digits need scikit-learn: pip install 'csprop[lab]'") from None
    pictures: Any
    pictures, labels = load_digits(return_X_y=True)
    levels, targets = torch.from_numpy(pictures).long(), torch.from_numpy(labels).long()
    inputs = levels if as_levels else (levels / (LEVELS - 1))[:, :, None]
    order, fifth = torch.randperm(len(targets), generator=generator(0, "digits")), len(targets) // 5
    parts = order.split([len(targets) - 2 * fifth, fifth, fifth])
    training, validation, test = (Rows(inputs[part], targets[part]) for part in parts)
    return Digits(
        vocab_size=LEVELS if as_levels else 0, num_classes=10, last=True, training=training,
        validation=validation, test=test,
    )  # fmt: skip


def text() -> Text:
    """The sentences of prose.py: eight tenths to learn from, a tenth for validation, one as test."""
    written = prose(CHARACTERS)
    known = {character: number for number, character in enumerate(sorted(set(written)))}
    tokens = torch.tensor([known[character] for character in written])
    tenth = len(tokens) // 10
    training, *held_out = tokens.split([len(tokens) - 2 * tenth, tenth, tenth])
    validation, test = map(_in_rows, held_out)
    return Text(
        vocab_size=len(known), num_classes=len(known), last=False, training=training,
        validation=validation, test=test,
    )  # fmt: skip


def _in_rows(tokens: Tensor) -> Rows:
    """Rows one after the other; what is left at the end is too short for one."""
    count = (len(tokens) - 1) // HELD_OUT_STEPS
    inputs, targets = tokens[: count * HELD_OUT_STEPS], tokens[1 : count * HELD_OUT_STEPS + 1]
    return Rows(inputs.view(count, -1), targets.view(count, -1))
