"""The choice of the counters and switches that the labels of some rows need.

What a control of switches knows after a token is the token, the counts as a window shows them, and for
each switch whether it has fired: whether some token came at some count. So two points of the rows that
agree in all of this must have the same label. If they do not, we speak of a conflict, and no weights
can resolve it: a counter or a switch is missing. This is seen by sorting the points, without training.
A set of counters is enough if there are no more conflicts than labels may be missed, where every switch
is there that looks at one counter and one token.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import torch
from torch import Generator, Tensor

from csprop.automata.forms import Weights
from csprop.data.examples import UNLABELLED
from csprop.progress import check_time
from csprop.proof.examples import Labelled

ORDERS = 8  # orders in which counters are left out
MOST_SWITCHES = 8  # more of them would tell rows apart one by one
LARGE = 1 << 62  # random numbers are below this. Sums of them may overflow, which does no harm


@dataclass(frozen=True)
class Pattern:
    """When a switch fires: at a token, or any (None), and at some counts of a form."""

    token: int | None
    form: int
    count: int
    above: bool  # True for this count and all above, False for this count alone
    inside: bool  # True if it fires at these counts, False if it fires at all others

    def fired(self, tokens: Tensor, counts: Tensor) -> Tensor:
        """Return True where it has fired by then, (N, T), from tokens (N, T) and counts (F, N, T)."""
        count = counts[self.form]
        met = (count >= self.count if self.above else count == self.count) == self.inside
        if self.token is not None:
            met &= tokens == self.token
        return met.cummax(dim=1).values


@dataclass(frozen=True)
class Choice:
    """Counters and switches that are enough."""

    forms: tuple[Weights, ...]
    patterns: tuple[Pattern, ...]
    window: int  # counts are seen from −window to window


def clip_counts(tokens: Tensor, forms: Sequence[Weights], window: int) -> Tensor:
    """Return the counts after every token as the window shows them, (F, N, T) int8."""
    counts = torch.empty(len(forms), *tokens.shape, dtype=torch.int8)
    for place, form in enumerate(forms):
        counts[place] = torch.tensor(form)[tokens].cumsum(dim=1).clamp(-window, window)
    return counts


def choices(
    examples: Labelled, forms: Sequence[Weights], window: int, most: int, generator: Generator
) -> list[Choice]:
    """Return sets of counters and switches with which at most `most` labels are in conflict.

    The counters are as small as possible: the least size that is enough is used, without any counter
    that can be left out. The result depends on the order in which they are left out, so several orders
    are tried. The smallest choice comes first. There is none if all counters together are not enough.
    """
    forms = sorted(forms, key=lambda form: (_size(form), form))
    points = _points_of_forms(examples, forms, window, generator)
    enough = range(len(forms))
    for size in sorted(set(map(_size, forms))):
        enough = [place for place, form in enumerate(forms) if _size(form) <= size]
        if points.conflicts(enough) <= most:
            break
    else:
        return []
    subsets = set()
    for _ in range(ORDERS):
        lots = torch.rand(len(forms), generator=generator).tolist()
        order = sorted(enough, key=lambda place: (-_size(forms[place]), lots[place]))
        subsets.add(tuple(points.leave_out(enough, order, most)))
    made = [
        _with_patterns(examples, [forms[i] for i in each], window, most) for each in sorted(subsets)
    ]
    enough = [each for each in made if each is not None]
    return sorted(enough, key=lambda each: sum(map(_size, each.forms)) + len(each.patterns))


def _size(form: Weights) -> int:
    return sum(map(abs, form))


class _Points:
    """All labelled points, and a number for what each part of a control tells about each of them.

    The numbers are sums of random ones, so equal knowledge has equal sums: what is known without any
    part, (P,), and what each part tells, (K, P), times its own number. Points with the same knowledge
    of all parts are one point with several labels.
    """

    def __init__(self, base: Tensor, parts: Tensor, numbers: Tensor, labels: Tensor) -> None:
        knowledge = base.clone()
        for number, part in zip(numbers.tolist(), parts, strict=True):
            knowledge += number * part
        groups = knowledge.unique(return_inverse=True)[1]
        self.labels = table(groups, labels)
        one_of_each = torch.empty(len(self.labels), dtype=torch.int64)
        one_of_each[groups] = torch.arange(len(groups))
        self.base, self.parts = base[one_of_each], parts[:, one_of_each] * numbers[:, None]

    def conflicts(self, parts: Sequence[int]) -> int:
        """Return the number of labels that differ from the majority label of equal knowledge."""
        return conflicts(self.base + self.parts[list(parts)].sum(dim=0), self.labels)

    def leave_out(self, parts: Sequence[int], order: Sequence[int], most: int) -> list[int]:
        """Return the parts without those, tried in an order, that can be left out."""
        kept = list(parts)
        for part in order:
            fewer = [each for each in kept if each != part]
            if self.conflicts(fewer) <= most:
                kept = fewer
        return kept


def _points_of_forms(
    examples: Labelled, forms: Sequence[Weights], window: int, generator: Generator
) -> _Points:
    """Return what each form tells: the view now, and each pair of a token and a view so far."""
    tokens, known = examples.tokens, examples.labels != UNLABELLED
    symbols, seen = int(tokens.max()) + 1, 2 * window + 1
    numbers = torch.randint(LARGE, (len(forms) + 1, 1 + symbols, seen), generator=generator)
    parts = torch.empty(len(forms), int(known.sum()), dtype=torch.int64)
    for place, counts in enumerate(clip_counts(tokens, forms, window)):
        shown = counts.long() + window
        total, pairs = numbers[place, 0][shown], tokens * seen + shown
        for pair, number in enumerate(numbers[place, 1:].flatten().tolist()):
            total += number * (pairs == pair).cummax(dim=1).values
        parts[place] = total[known]
    ones = torch.ones(len(forms), dtype=torch.int64)
    return _Points(numbers[-1, 1:, 0][tokens][known], parts, ones, examples.labels[known])


def table(groups: Tensor, labels: Tensor) -> Tensor:
    """Count the labels of each group (P,), (G, C)."""
    classes = int(labels.max()) + 1
    flat = (groups * classes + labels).bincount(minlength=(int(groups.max()) + 1) * classes)
    return flat.view(-1, classes)


def conflicts(known: Tensor, labels: Tensor) -> int:
    """Count the labels (P, C) that differ from the majority label of their number (P,)."""
    check_time()
    values, groups = known.unique(return_inverse=True)
    sums = labels.new_zeros(len(values), labels.shape[1]).index_add_(0, groups, labels)
    return int(sums.sum() - sums.amax(dim=1).sum())


def patterns(tokens: int, forms: int, window: int) -> Iterator[Pattern]:
    """Yield all switches that look at one counter and at one token or none, the simplest first."""
    for token in (None, *range(tokens)):
        for form in range(forms):
            for count, inside in product(range(1 - window, window + 1), (True, False)):
                yield Pattern(token, form, count, True, inside)
                if count < window:
                    yield Pattern(token, form, count, False, inside)


def _with_patterns(examples: Labelled, forms: list[Weights], window: int, most: int) -> Choice | None:
    """Add the switch that resolves most conflicts, again and again; then leave out what can be."""
    tokens, known = examples.tokens, examples.labels != UNLABELLED
    counts = clip_counts(tokens, forms, window)
    listed = list(patterns(int(tokens.max()) + 1, len(forms), window))
    fired = torch.empty(len(listed), int(known.sum()), dtype=torch.bool)
    for place, pattern in enumerate(listed):
        fired[place] = pattern.fired(tokens, counts)[known]
    now = tokens[known]
    for count in counts:
        now = now * (2 * window + 1) + count[known] + window
    numbers = torch.randint(LARGE, (len(listed) + 1,), generator=Generator().manual_seed(0))
    points = _Points(now * numbers[-1], fired, numbers[:-1], examples.labels[known])
    fires = list(enumerate(points.parts != 0))
    first = {each.numpy().tobytes(): place for place, each in reversed(fires)}
    kept: list[int] = []
    remaining = points.conflicts(kept)
    while remaining > most:
        tried = {each: points.conflicts([*kept, each]) for each in sorted(first.values())}
        best = min(tried, key=tried.__getitem__)
        if tried[best] >= remaining or len(kept) == MOST_SWITCHES:
            return None
        kept, remaining = [*kept, best], tried[best]
    kept = points.leave_out(kept, kept, most)
    return Choice(tuple(forms), tuple(listed[each] for each in kept), window)
