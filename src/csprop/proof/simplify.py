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
further with the same counters (`fewer.py`). If it then gives the same answers at every length, it
is the one that is kept.
"""

import copy
import math
from dataclasses import dataclass
from itertools import product

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from csprop.automata.comparison import Invariant, compare_counting
from csprop.automata.forms import primitive
from csprop.data.examples import UNLABELLED
from csprop.nn.model import CSP
from csprop.proof.choose import Choice, Pattern, choices, clip_counts, table
from csprop.proof.counters import tabulate
from csprop.proof.examples import Labelled
from csprop.proof.fewer import OPEN, SHARP, Fewer, misses
from csprop.proof.limits import NotFinite
from csprop.proof.locked_counter import counting_parts, weights_of

WINDOWS = (1, 2, 3)
"""The windows that are tried, the smallest first."""
FRACTION = 0.4
"""The real part of a token's channel, which is rounded to 0."""
DECAYS = (1e-3, 1e-5, 1e-7)
"""Weights of the squared weights beside the loss of the decoder, until no label is missed."""
ITERATIONS = 200
"""Most iterations with each."""
LEAD = 4.0
"""The least lead of a right score in the rows, in the end."""


def simplify(model: CSP, examples: Labelled, generator: Generator) -> bool | None:
    """Give a model as few counters and switches as the labels need, each far from a tie.

    It misses no more labels than before. If no choice of its counters is enough for that, it stays as
    it is.

    Args:
        model: a counter, whose weights are changed.
        examples: the labelled rows.
        generator: chooses the orders in which counters are left out, and rows to train on.

    Returns:
        True if the control comes from training, in the model's own weights; False if it is written by
        rule from the rows; None if the model stayed as it was.
    """
    trained = copy.deepcopy(model)
    choice = _made_anew(model, examples, misses(model, examples), generator)
    if choice is None:
        return None
    if choice.window > 1:
        return False
    most = misses(model, examples)
    same = Fewer(trained, examples, choice, most, generator).run() and _agree(trained, model)
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
            if _fits(model, choice):
                _Plan(model, choice).write(examples)
                if misses(model, examples) <= most:
                    return choice
                model.load_state_dict(before)
    return None


def _scales(choice: Choice) -> tuple[int, ...]:
    return (SHARP,) if choice.window == 1 else (SHARP, 1)


def _fits(model: CSP, choice: Choice) -> bool:
    """Return True if there are enough channels."""
    tokens, counters = len(model.embedding), len(choice.forms) * len(_scales(choice))
    return tokens + counters + len(choice.patterns) <= model.config.width


@dataclass
class _Plan:
    """The roles of the channels: first the tokens, then the counters, then the switches."""

    model: CSP
    choice: Choice

    def __post_init__(self) -> None:
        self.tokens, self.width = len(self.model.embedding), self.model.config.width
        self.scales = _scales(self.choice)
        self.first = self.tokens + len(self.choice.forms) * len(self.scales)  # of the switches
        self.end = self.first + len(self.choice.patterns)

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
    """A linear function of a phase: at least 1 where the pattern looks, and at most −1 elsewhere.

    Returns:
        The weights of both planes, the bias, and a bound of the function plus 1.
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
    """The weights and the bias of a decoder: as small as they can be if no label is to be missed.

    All classes weigh the same, because of those in a table few may have a rare class.
    """
    weight = torch.zeros(classes, read.shape[1], dtype=torch.float64, requires_grad=True)
    bias = torch.zeros(classes, dtype=torch.float64, requires_grad=True)
    share = labels.bincount(minlength=classes).double().clamp(min=1).reciprocal()
    lead = -math.inf
    for decay in DECAYS:
        if lead <= 0:
            _minimise(read, labels, weight, bias, share, decay)
            scores = (read @ weight.T + bias).detach()
            right = scores.gather(1, labels[:, None])[:, 0]
            lead = float((right - scores.scatter(1, labels[:, None], -math.inf).amax(dim=1)).min())
    factor = max(1.0, LEAD / lead) if lead > 0 else 1.0
    return factor * weight.detach(), factor * bias.detach()


@torch.enable_grad()
def _minimise(
    read: Tensor, labels: Tensor, weight: Tensor, bias: Tensor, share: Tensor, decay: float
) -> None:
    optimizer = torch.optim.LBFGS(
        [weight, bias], max_iter=ITERATIONS, line_search_fn="strong_wolfe", tolerance_change=1e-12
    )

    def loss() -> Tensor:
        optimizer.zero_grad()
        surprise = F.cross_entropy(read @ weight.T + bias, labels, weight=share)
        total = surprise + decay * weight.square().sum()
        total.backward()
        return total

    optimizer.step(loss)
