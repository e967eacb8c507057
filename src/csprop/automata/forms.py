"""Linear forms of the tokens read so far, and partial knowledge of their values.

A counter is a linear form: the sum over the tokens of what each adds, times how often it was read. The
counters of two machines are multiples of a few primitive forms, whose weights have no common divisor
and begin with a positive one. `Ranges` holds a value for each form, exactly near zero and only roughly
beyond: there are finitely many values.

    bound    N     a value from −N to N is known exactly
    period   m     for a value beyond, the sign and the remainder modulo m are known

A value is written as a whole number v: if |v| ≤ N it stands for v alone, if v > N for v, v + m, v + 2m,
…, and if v < −N for v, v − m, v − 2m, …; so v goes from −N − m to N + m.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property
from itertools import combinations, islice, product

Weights = tuple[int, ...]
"""A linear form: what each token adds."""
Increments = tuple[tuple[int, ...], ...]
Values = tuple[int, ...]
"""A value for each form."""

MOST_SUBSETS = 512


def primitive(weights: Sequence[int]) -> tuple[int, Weights]:
    """Return a factor and the primitive form that it multiplies; the factor is 0 if the weights are."""
    factor = math.gcd(*weights)
    if not factor:
        return 0, tuple(weights)
    if next(filter(None, weights)) < 0:
        factor = -factor
    return factor, tuple(each // factor for each in weights)


def dependency(rows: Sequence[Sequence[int]]) -> tuple[int, ...] | None:
    """Return whole numbers, not all 0, such that the rows times them sum to 0; None if impossible."""
    reduced: list[tuple[int, list[Fraction], list[Fraction]]] = []
    for place, numbers in enumerate(rows):
        row = [Fraction(each) for each in numbers]
        how = [Fraction(int(i == place)) for i in range(len(rows))]
        for pivot, other, other_how in reduced:
            factor = row[pivot] / other[pivot]
            row = [x - factor * y for x, y in zip(row, other, strict=True)]
            how = [x - factor * y for x, y in zip(how, other_how, strict=True)]
        if any(row):
            reduced.append((next(i for i, each in enumerate(row) if each), row, how))
            continue
        scale = math.lcm(*(each.denominator for each in how))
        return primitive([int(each * scale) for each in how])[1]
    return None


def relations(forms: Sequence[Sequence[int]]) -> list[tuple[int, ...]]:
    """Return the integer relations among the first sets of forms that contain no smaller relation.

    These are enough to test intervals: if each of them can be satisfied by real numbers in some
    intervals, all relations can be satisfied at once (Rockafellar, Convex Analysis, Theorem 22.6).
    """
    minimal: dict[frozenset[int], tuple[int, ...]] = {}
    if dependency(forms) is None:
        return []
    sizes = range(1, min(len(forms), len(forms[0]) + 1) + 1)
    subsets = (each for size in sizes for each in combinations(range(len(forms)), size))
    for subset in islice(subsets, MOST_SUBSETS):
        if any(known <= set(subset) for known in minimal):
            continue
        factors = dependency([forms[i] for i in subset])
        if factors is not None:
            full = [0] * len(forms)
            for i, factor in zip(subset, factors, strict=True):
                full[i] = factor
            minimal[frozenset(subset)] = tuple(full)
    return list(minimal.values())


def view_function(
    increments: Increments, window: int, forms: Sequence[Weights]
) -> Callable[[Values], int]:
    """Return the function from values of its counters' primitive forms to a machine's view."""
    size = 2 * window + 1
    made = [primitive(weights) for weights in zip(*increments, strict=True)]
    parts = [(factor, forms.index(form) if factor else 0) for factor, form in made]

    @cache
    def view(values: Values) -> int:
        number = 0
        for factor, place in parts:
            count = factor * values[place] if factor else 0
            number = number * size + min(max(count, -window), window) + window
        return number

    return view


@dataclass(frozen=True)
class Ranges:
    """Partial knowledge of the values of some forms."""

    forms: tuple[Weights, ...]
    bounds: tuple[int, ...]
    periods: tuple[int, ...]

    @classmethod
    def coarsest(cls, *machines: tuple[Increments, int]) -> "Ranges":
        """Return the forms of counters, (increments, window), with the least bounds for their views."""
        bounds: dict[Weights, int] = {}
        for increments, window in machines:
            for weights in zip(*increments, strict=True):
                factor, form = primitive(weights)
                if factor:
                    least = max(0, -(-window // abs(factor)) - 1)
                    bounds[form] = max(bounds.get(form, 0), least)
        return cls(tuple(bounds), tuple(bounds.values()), (1,) * len(bounds))

    @cached_property
    def relations(self) -> list[tuple[int, ...]]:
        """Integer relations among the forms: Σ relation[i] · forms[i] = 0."""
        return relations(self.forms)

    def rough(self, exact: Iterable[int]) -> Values:
        """Return what is known of exact values."""
        return tuple(map(_rough, exact, self.bounds, self.periods))

    def possible(self, values: Values) -> bool:
        """Return True if no relation contradicts the values. The true values contradict none."""
        return all(self._satisfies(values, relation) for relation in self.relations)

    def _satisfies(self, values: Values, relation: tuple[int, ...]) -> bool:
        """Return True if the sum can be 0 when values beyond their bounds grow by whole periods."""
        total = sum(map(int.__mul__, values, relation))
        growth = [
            factor * (period if value > 0 else -period)
            for value, factor, bound, period in zip(
                values, relation, self.bounds, self.periods, strict=True
            )
            if abs(value) > bound and factor
        ]
        towards = any((each < 0) == (total > 0) for each in growth)
        return total == 0 or (towards and total % math.gcd(*growth) == 0)

    def after(self, values: Values, token: int) -> list[Values]:
        """Return all that may be known of the values after a token, if `values` was known before it."""
        key = (values, token)
        if key not in self._after:
            ways = map(_moved, values, (form[token] for form in self.forms), self.bounds, self.periods)
            self._after[key] = [each for each in product(*ways) if self.possible(each)]
        return self._after[key]

    @cached_property
    def _after(self) -> dict[tuple[Values, int], list[Values]]:
        return {}


def _rough(exact: int, bound: int, period: int) -> int:
    if abs(exact) <= bound:
        return exact
    rest = bound + 1 + (abs(exact) - bound - 1) % period
    return rest if exact > 0 else -rest


def _moved(value: int, change: int, bound: int, period: int) -> list[int]:
    """Return what may be known of one value after a change."""
    if value < 0:
        return [-each for each in _moved(-value, -change, bound, period)]
    after = value + change
    values = [_rough(after, bound, period)]
    if value > bound:  # it may have been larger by any number of periods
        near = max(after, -bound + (after + bound) % period)  # all below −bound are one value
        for each in range(near, bound + period + 1, period):
            values.append(_rough(each, bound, period))
    return list(dict.fromkeys(values))
