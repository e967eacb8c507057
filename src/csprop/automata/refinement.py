"""More knowledge of counts, for pairs of which a comparison cannot tell whether they are reached.

What the cycles of a search among exact counts add up to says what is worth knowing: if all of them add
a multiple of g to a form, the control may know its remainder modulo g; and if they add nothing to a sum
of forms, the control may know this sum. If the search saw too few cycles, more is followed than is
needed, which costs time, but the proof holds all the same.
"""

import math
from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import TypeVar

from csprop.automata.forms import Ranges, Weights, dependency, primitive, relations

MOST_SUMS = 3
"""The largest number of forms that are followed beside those of the counters."""

Node = TypeVar("Node", bound=Hashable)
Vector = tuple[int, ...]


def finer(
    following: Mapping[Node, Collection[tuple[int, Node]]], ranges: Ranges, counted: int
) -> Ranges:
    """What the cycles of a search keep; if that is known already, larger bounds.

    Args:
        following: the pairs that were visited, with the tokens and pairs that followed each.
        ranges: what was known.
        counted: the number of forms that belong to counters.
    """
    steps = list(zip(*ranges.forms, strict=True))
    periods, sums = list(ranges.periods), dict.fromkeys(ranges.forms)
    for added in gains(following, steps) if steps else []:
        for i, column in enumerate(zip(*added, strict=True)):
            # Cycles that add multiples of g to a form keep its remainder modulo g.
            periods[i] = math.lcm(periods[i], math.gcd(*column) or 1)
        sums |= dict.fromkeys(_kept(ranges.forms, added))
    forms = tuple(sums)[: counted + MOST_SUMS]
    more = len(forms) - len(ranges.forms)
    if more or periods != list(ranges.periods):
        return Ranges(forms, ranges.bounds + (1,) * more, (*periods, *(1,) * more))
    return Ranges(forms, tuple(2 * bound + 1 for bound in ranges.bounds), ranges.periods)


def gains(
    following: Mapping[Node, Collection[tuple[int, Node]]], steps: Sequence[Vector]
) -> list[set[Vector]]:
    """What the cycles of each strongly connected part of a graph add up to.

    Args:
        following: the tokens that lead on from each node, and the nodes to which they lead.
        steps: what each token adds.

    Returns:
        For each part that has a cycle, vectors; what any of its cycles adds up to is a sum of integer
        multiples of these.
    """
    part = _parts(following)
    reached: dict[Node, Vector] = {}
    found: dict[int, set[Vector]] = {}
    for root in following:
        if root in reached:
            continue
        reached[root], todo = (0,) * len(steps[0]), [root]
        while todo:
            node = todo.pop()
            for token, after in following[node]:
                if part.get(after) != part[root]:
                    continue
                there = tuple(map(int.__add__, reached[node], steps[token]))
                if after not in reached:
                    reached[after] = there
                    todo.append(after)
                found.setdefault(part[root], set()).add(tuple(map(int.__sub__, there, reached[after])))
    return list(found.values())


def _parts(following: Mapping[Node, Collection[tuple[int, Node]]]) -> dict[Node, int]:
    """The number of each node's strongly connected part, by Kosaraju's two searches."""
    before: dict[Node, list[Node]] = {node: [] for node in following}
    for node, after in following.items():
        for _, there in after:
            if there in before:
                before[there].append(node)
    part: dict[Node, int] = {}
    for root in reversed(_finished(following)):
        todo = [] if root in part else [root]
        while todo:
            node = todo.pop()
            if node not in part:
                part[node] = part[root] if root in part else len(part)
                todo += [each for each in before[node] if each not in part]
    return part


def _finished(following: Mapping[Node, Collection[tuple[int, Node]]]) -> list[Node]:
    """The nodes in the order in which a search in depth leaves them."""
    order: list[Node] = []
    seen: set[Node] = set()
    for root in following:
        if root in seen:
            continue
        seen.add(root)
        path = [(root, iter(following[root]))]
        while path:
            node, rest = path[-1]
            after = next((each for _, each in rest if each in following and each not in seen), None)
            if after is None:
                order.append(node)
                path.pop()
            else:
                seen.add(after)
                path.append((after, iter(following[after])))
    return order


def _kept(forms: Sequence[Weights], added: set[Vector]) -> list[Weights]:
    """Sums of multiples of forms to which cycles add nothing, though other inputs may.

    Args:
        forms: the forms.
        added: what the cycles add to each form.
    """
    basis: list[Vector] = []
    for each in sorted(added):
        if dependency([*basis, each]) is None:
            basis.append(each)
    made = []
    for factors in relations(list(zip(*basis, strict=True))):
        total = [sum(map(int.__mul__, factors, column)) for column in zip(*forms, strict=True)]
        if any(total):
            made.append(primitive(total)[1])
    return made
