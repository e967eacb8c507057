"""A model that counts, with as few counters and switches as its training rows need.

A trained counter reads all of its channels, also those that tell a few strings apart by chance. So we
choose the counters that the labels need among those the model has (`choose.py`), and make a new
control for them:

    a channel for each token     (1, 0) after this token, and (0, 1) after all others
    a channel for each counter   increments times `SHARP`: the phases of 1 and of 1,000 are alike
    a channel for each switch    (1, 0), and (−1, 0) from its pattern on

Its gates follow from the patterns. Its decoder is fitted to the labels: what it has to tell apart is a
finite table, of a token, the counts as the window shows them, and the switches.

This control follows from the rows: the trained weights play no part in it. So the model is also trained
further with the same counters: the others are set to 0, and switches are dropped one by one. Gates are
drawn away from 0 at every token and every count that the rows show, and where these counts are at
infinity. If this model gives the same answers at every length, it is the one that is kept.

The file has over 300 lines because it has both ways to a small control.
"""

import copy
import math
from itertools import product

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from csprop.automata.comparison import Invariant, compare_counting
from csprop.automata.forms import primitive
from csprop.cells.block import unit
from csprop.data.examples import UNLABELLED
from csprop.nn.model import CSP
from csprop.proof.choose import Choice, Pattern, choices, clip_counts, table
from csprop.proof.counters import tabulate
from csprop.proof.examples import Labelled
from csprop.proof.limits import NotFinite
from csprop.proof.locked_counter import counting_parts, weights_of
from csprop.proof.tune import minimise, surprise
from csprop.training.pruned import OPEN

SHARP = 8  # factor of increments, for counts that are only compared with 0
FAR = 1e6  # a factor of counts that moves their phases to infinity, up to rounding
STEPS = (100, 200, 400)
"""Steps of training without the other counters, until no more labels are missed than before."""
REPAIR = 60  # steps of training without a switch, if labels are missed
LAST = 120  # steps of training in the end
GLANCE_ROWS = 1024  # rows that are tried before a switch is dropped; in the end it must be right on all
WINDOWS = (1, 2, 3)  # the windows that are tried, the smallest first
FRACTION = 0.4  # the real part of a token's channel, which is rounded to 0
DECAYS = (1e-3, 1e-5, 1e-7)
"""Weights of the squared weights beside the loss of the decoder, until no label is missed."""
ITERATIONS = 200  # most iterations with each
LEAD = 4.0  # the least lead of a right score in the rows, in the end


def misses(model: CSP, examples: Labelled) -> int:
    """Return the number of labels that a model misses."""
    with torch.no_grad():
        return examples.judge(model(examples.tokens)).misses


def simplify(model: CSP, examples: Labelled, generator: Generator) -> bool | None:
    """Give a model as few counters and switches as the labels need, and miss no more of them.

    Return True if the control comes from training, in the model's own weights; False if it is written
    by rule from the rows; None if no choice of its counters is enough and the model stayed as it was.
    """
    trained = copy.deepcopy(model)
    choice = _made_anew(model, examples, misses(model, examples), generator)
    if choice is None:
        return None
    if choice.window > 1:
        return False
    most = misses(model, examples)
    same = _Fewer(trained, examples, choice, most, generator).run() and _agree(trained, model)
    if same:
        model.load_state_dict(trained.state_dict())
    return same


def _agree(model: CSP, other: CSP) -> bool:
    """Return True if two models give the same answers at every length."""
    try:
        machines = [tabulate(weights_of(each)).machine.reduce() for each in (model, other)]
    except NotFinite:
        return False
    return isinstance(compare_counting(*machines), Invariant)


def _made_anew(model: CSP, examples: Labelled, missed: int, generator: Generator) -> Choice | None:
    """Change the model to the smallest choice that misses no more labels; None if there is none."""
    listed = [primitive(each)[1] for each in model.embedding[:, 0].round().int().T.tolist()]
    forms = sorted({each for each in listed if any(each)})
    before = copy.deepcopy(model.state_dict())
    for most, window in product(sorted({0, missed}), WINDOWS):
        for choice in choices(examples, forms, window, most, generator):
            plan = _Plan(model, choice)
            if plan.end <= model.config.width:  # there are enough channels
                plan.write(examples)
                if misses(model, examples) <= most:
                    return choice
                model.load_state_dict(before)
    return None


class _Plan:
    """The roles of the channels: first the tokens, then the counters, then the switches."""

    def __init__(self, model: CSP, choice: Choice) -> None:
        self.model, self.choice = model, choice
        self.tokens, self.width = len(model.embedding), model.config.width
        self.scales = (SHARP,) if choice.window == 1 else (SHARP, 1)
        self.first = self.tokens + len(choice.forms) * len(self.scales)  # of the switches
        self.end = self.first + len(choice.patterns)

    def channel(self, form: int, scale: int) -> int:
        return self.tokens + form * len(self.scales) + self.scales.index(scale)

    @torch.no_grad()
    def write(self, examples: Labelled) -> None:
        """Change the weights of the model."""
        counter, switch, decoder = counting_parts(self.model)
        embedding = self.model.embedding.zero_()
        for token in range(self.tokens):
            embedding[token, :, token] = torch.tensor([FRACTION, -1.0])
        for place, form in enumerate(self.choice.forms):
            for scale in self.scales:
                embedding[:, 0, self.channel(place, scale)] = scale * torch.tensor(form).float()
        counter.skip.fill_(-OPEN)[: self.tokens] = OPEN
        switch.skip.fill_(-OPEN)[: self.first] = OPEN
        switch.h0.copy_(torch.tensor([[1.0], [0.0]]))
        switch.point.copy_(-switch.h0)
        switch.gate.weight.zero_()
        switch.gate.bias.fill_(1.0)
        for channel, pattern in enumerate(self.choice.patterns, start=self.first):
            weights, bias = self.gate(pattern)
            switch.gate.weight[channel] = weights.flatten()
            switch.gate.bias[channel] = bias
        weight, bias = _fitted(*self.table(examples), self.model.config.num_classes)
        decoder.weight.copy_(weight)
        decoder.bias.copy_(bias)

    def table(self, examples: Labelled) -> tuple[Tensor, Tensor]:
        """Return the inputs of the decoder, (P, 2 D), and the majority label of each, (P,).

        A count at the edge of the window stands for all beyond. It is listed as it is, and at infinity.
        """
        tokens, known = examples.tokens, examples.labels != UNLABELLED
        window = self.choice.window
        counts = clip_counts(tokens, self.choice.forms, window)
        flags = [each.fired(tokens, counts) for each in self.choice.patterns]
        seen = torch.stack([tokens, *counts, *flags], dim=2)[known]  # (labels, 1 + forms + patterns)
        rows, groups = seen.unique(dim=0, return_inverse=True)
        labels = table(groups, examples.labels[known]).argmax(dim=1)
        read = torch.zeros(2, len(rows), 2, self.width, dtype=torch.float64)
        read[:, :, 0] = 1.0  # switches that have not fired
        read[:, torch.arange(len(rows)), 0, rows[:, 0]] += 1.0
        read[:, :, 1, : self.tokens] = 1.0
        read[:, torch.arange(len(rows)), 1, rows[:, 0]] = 0.0
        for form in range(len(self.choice.forms)):
            count = rows[:, 1 + form].double()
            for scale in self.scales:
                for limit in range(2):
                    far = count * torch.where(count.abs() == window, 1e12 if limit else 1.0, 1.0)
                    real, imaginary = _phase(scale * far)
                    read[limit, :, 0, self.channel(form, scale)] += real
                    read[limit, :, 1, self.channel(form, scale)] = imaginary
        read[:, :, 0, self.first : self.end] -= 2.0 * rows[:, 1 + len(self.choice.forms) :]
        return read.flatten(2).flatten(0, 1), labels.repeat(2)

    def gate(self, pattern: Pattern) -> tuple[Tensor, float]:
        """Weights (2, D) and a bias: at most −1 where the pattern fires, and at least 1 elsewhere."""
        scale = SHARP if pattern.count == 0 or (pattern.above and pattern.count == 1) else 1
        (real, imaginary), bias, most = _inside(pattern, scale)
        factor = -1.0 if pattern.inside else 1.0
        weights = torch.zeros(2, self.width)
        weights[:, self.channel(pattern.form, scale)] = factor * torch.tensor([real, imaginary])
        bias *= factor
        if pattern.token is not None:
            weights[0, pattern.token] = -most
            bias += most
        return weights, bias


def _phase(count: Tensor) -> tuple[Tensor, Tensor]:
    """Return the output of a counter at a count."""
    modulus = (1 + count.square()).sqrt()
    return count / modulus, 1 / modulus


def _inside(pattern: Pattern, scale: int) -> tuple[tuple[float, float], float, float]:
    """Return a function of a phase: at least 1 where the pattern looks, and at most −1 elsewhere.

    It is the weights of both planes and the bias, with a bound of the function plus 1.
    """
    below, here, above = (math.atan2(1, scale * (pattern.count + each)) for each in (-1, 0, 1))
    if pattern.above:
        direction = (1.0, 0.0)
        inside, outside = math.cos(here), math.cos(below)
    else:  # the nearer a phase is, the larger the product
        direction = (math.cos(here), math.sin(here))
        inside, outside = 1.0, max(math.cos(below - here), math.cos(above - here))
    factor = 2 / (inside - outside)
    bias = -factor * (inside + outside) / 2
    return (factor * direction[0], factor * direction[1]), bias, factor + abs(bias) + 1


def _fitted(read: Tensor, labels: Tensor, classes: int) -> tuple[Tensor, Tensor]:
    """Return the weights and the bias of a decoder: as small as they can be if no label is missed.

    All classes weigh the same, because of those in a table few may have a rare class.
    """
    weight = torch.zeros(classes, read.shape[1], dtype=torch.float64, requires_grad=True)
    bias = torch.zeros(classes, dtype=torch.float64, requires_grad=True)
    share = labels.bincount(minlength=classes).double().clamp(min=1).reciprocal()
    lead = -math.inf
    for decay in DECAYS:
        optimizer = torch.optim.LBFGS(
            [weight, bias], max_iter=ITERATIONS, line_search_fn="strong_wolfe", tolerance_change=1e-12
        )

        @torch.enable_grad()
        def loss(decay: float = decay, optimizer: torch.optim.Optimizer = optimizer) -> Tensor:
            optimizer.zero_grad()
            surprise = F.cross_entropy(read @ weight.T + bias, labels, weight=share)
            total = surprise + decay * weight.square().sum()
            total.backward()
            return total

        optimizer.step(loss)
        scores = (read @ weight.T + bias).detach()
        right = scores.gather(1, labels[:, None])[:, 0]
        lead = float((right - scores.scatter(1, labels[:, None], -math.inf).amax(dim=1)).min())
        if lead > 0:
            break
    factor = max(1.0, LEAD / lead) if lead > 0 else 1.0
    return factor * weight.detach(), factor * bias.detach()


class _Fewer:
    """A model, whose weights are changed, with chosen counters that are compared with 0 alone.

    The window of the choice is 1, and at most `most` labels may be missed.
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
        """Train, and drop switches; return True if no more labels are missed than may be."""
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
        """Return the gates at every token and every count that the rows show, (2 · views, D)."""
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
