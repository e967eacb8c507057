"""A trained counter that goes on with fewer counters and switches.

The counters that are not chosen are set to 0. The increments of the others are multiplied by `SHARP`,
and their channels no longer show the token, so the phases of 1 and of 1,000 are alike. Then the
model is trained further, and switches are dropped one by one. Gates are drawn away from 0 at every
token and every count that the rows show, and where these counts are at infinity.
"""

import copy

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from csprop.automata.forms import primitive
from csprop.cells.block import unit
from csprop.data.examples import UNLABELLED
from csprop.nn.model import CSP
from csprop.proof.choose import Choice, clip_counts
from csprop.proof.examples import Labelled
from csprop.proof.locked_counter import counting_parts
from csprop.proof.tune import minimise, surprise

SHARP = 8
"""Factor of increments, for counts that are only compared with 0."""
OPEN = 40.0
"""σ(40) is 1 in float32 and in float64."""
FAR = 1e6
"""A factor of counts that moves their phases to infinity, up to rounding."""
STEPS = (100, 200, 400)
"""Steps of training without the other counters, until no more labels are missed than before."""
REPAIR = 60
"""Steps of training without a switch, if labels are missed."""
LAST = 120
"""Steps of training in the end."""
GLANCE_ROWS = 1024
"""Rows that are tried before a switch is dropped; in the end it must be right on all."""


def misses(model: CSP, examples: Labelled) -> int:
    """Return the number of labels that a model misses."""
    with torch.no_grad():
        return examples.judge(model(examples.tokens)).misses


class Fewer:
    """A model whose counters, as far as they are chosen, are compared with 0 alone.

    Args:
        model: a counter, whose weights are changed.
        examples: the labelled rows.
        choice: the counters; its window is 1.
        most: how many labels may be missed.
        generator: chooses the rows of a step of training.
    """

    def __init__(
        self, model: CSP, examples: Labelled, choice: Choice, most: int, generator: Generator
    ) -> None:
        self.model, self.examples, self.most, self.generator = model, examples, most, generator
        self.counter, self.switch, _ = counting_parts(model)
        made = [primitive(each) for each in model.embedding[:, 0].round().int().T.tolist()]
        self.chosen = torch.tensor([form in choice.forms for _, form in made])
        self.increments = model.embedding[:, 0].round() * self.chosen * SHARP
        self.dropped = torch.zeros(model.config.width, dtype=torch.bool)

        known = examples.labels != UNLABELLED
        counts = clip_counts(examples.tokens, choice.forms, window=1)
        seen = torch.stack([examples.tokens, *counts], dim=2)[known].unique(dim=0)
        places = [choice.forms.index(form) if form in choice.forms else 0 for _, form in made]
        factors = torch.tensor([factor * SHARP for factor, _ in made]) * self.chosen
        near = (seen[:, 1:][:, places] * factors).float()  # (views, D)
        self.tokens, self.counts = seen[:, 0].repeat(2), torch.cat([near, FAR * near])
        self._hold()

    def run(self) -> bool:
        """Train, and drop switches; whether no more labels are missed than may be."""
        for steps in STEPS:
            self._train(steps, 0.3)
            if self._good(self.examples):
                break
        else:
            return False
        with torch.no_grad():
            self.dropped = (self._gates() > 0).all(dim=0)
        self._hold()
        for channel in (~self.dropped).nonzero()[:, 0].tolist():
            self._drop(channel)
        before = copy.deepcopy(self.model.state_dict())
        self._train(LAST, 1.0)
        if self._good(self.examples):
            return True
        self.model.load_state_dict(before)
        return self._good(self.examples)

    def _drop(self, channel: int) -> None:
        """Drop a switch, unless labels are missed even with some training."""
        few, before = self.examples.first(GLANCE_ROWS), copy.deepcopy(self.model.state_dict())
        self.dropped[channel] = True
        self._hold()
        if not self._good(few):
            self._train(REPAIR, 0.3)
            if not self._good(few):
                self.dropped[channel] = False
                self.model.load_state_dict(before)

    def _good(self, examples: Labelled) -> bool:
        return misses(self.model, examples) <= self.most

    @torch.no_grad()
    def _hold(self) -> None:
        """Restore the weights that are not trained: increments, what they hide, dropped switches."""
        self.model.embedding[:, 0] = self.increments
        self.counter.skip[self.chosen] = -OPEN
        self.switch.gate.weight[self.dropped] = 0.0
        self.switch.gate.bias[self.dropped] = 1.0

    def _gates(self) -> Tensor:
        """The gates at every token and every count that the rows show, (2 · views, D)."""
        token = torch.sigmoid(self.counter.skip) * self.model.embedding[self.tokens]
        line = torch.ones_like(self.counts)
        return self.switch.gate(unit(token + torch.stack([self.counts, line], dim=1)).flatten(1))

    def _train(self, steps: int, near: float) -> None:
        """Train with the loss plus a weighted term that draws gates away from 0."""

        def loss(rows: Tensor) -> Tensor:
            scores = self.model(self.examples.tokens[rows])
            close = F.relu(1 - self._gates().abs()).mean()
            return surprise(scores, self.examples.labels[rows]) + near * close

        minimise(self.model, steps, loss, self.examples, self.generator, self._hold)
