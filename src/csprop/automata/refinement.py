"""More knowledge of counts, for a comparison that cannot tell whether some pairs are reached.

The sums over the cycles of a search among exact counts show what is worth knowing: if all of them add a
multiple of g to a form, the control may know its remainder modulo g; and if they add nothing to a sum
of forms, the control may know this sum. If the search saw too few cycles, more is followed than is
needed, which costs time, but the proof still holds.
"""

import math
from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import TypeVar

from csprop.automata.forms import Ranges, Weights, dependency, primitive, relations

MOST_SUMS = 3
"""The most forms that are followed beside the forms of the counters."""

Node = TypeVar("Node", bound=Hashable)
Vector = tuple[int, ...]
Graph = Mapping[Node, Collection[tuple[int, Node]]]
"""The tokens that lead on from each node, and the nodes to which they lead."""


def refine(graph: Graph[Node], ranges: Ranges, counted: int) -> Ranges:
    """Return ranges that hold what the cycles of a search keep; if they do already, larger bounds.

    The first `counted` forms belong to counters.
    """
    steps = list(zip(*ranges.forms, strict=True))
    periods, sums = list(ranges.periods), dict.fromkeys(ranges.forms)
    for added in cycle_sums(graph, steps) if steps else []:
        for i, column in enumerate(zip(*added, strict=True)):
            # Cycles that add multiples of g to a form keep its remainder modulo g.
            periods[i] = math.lcm(periods[i], math.gcd(*column) or 1)
        sums |= dict.fromkeys(_invariant_sums(ranges.forms, added))
    forms = tuple(sums)[: counted + MOST_SUMS]
    more = len(forms) - len(ranges.forms)
    if more or periods != list(ranges.periods):
        return Ranges(forms, ranges.bounds + (1,) * more, (*periods, *(1,) * more))
    return Ranges(forms, tuple(2 * bound + 1 for bound in ranges.bounds), ranges.periods)


def cycle_sums(graph: Graph[Node], steps: Sequence[Vector]) -> list[set[Vector]]:
    """Return vectors for each strongly connected part of a graph that has a cycle.

    The sum of `steps`, which the tokens add, along any cycle is a sum of integer multiples of them.
    """
    import networkx

    edges = networkx.DiGraph((node, after) for node in graph for _, after in graph[node])
    edges.add_nodes_from(graph)
    parts = enumerate(networkx.strongly_connected_components(edges))
    part = {node: number for number, nodes in parts for node in nodes}
    reached: dict[Node, Vector] = {}
    sums: dict[int, set[Vector]] = {}
    for root in graph:
        if root in reached:
            continue
        reached[root], todo = (0,) * len(steps[0]), [root]
        while todo:
            node = todo.pop()
            for token, after in graph[node]:
                if part[after] != part[root]:
                    continue
                there = tuple(map(int.__add__, reached[node], steps[token]))
                if after not in reached:
                    reached[after] = there
                    todo.append(after)
                sums.setdefault(part[root], set()).add(tuple(map(int.__sub__, there, reached[after])))
    return list(sums.values())


def _invariant_sums(forms: Sequence[Weights], added: set[Vector]) -> list[Weights]:
    """Return sums of multiples of forms to which cycles, with the sums `added`, add nothing."""
    basis: list[Vector] = []
    for each in sorted(added):
        if dependency([*basis, each]) is None:
            basis.append(each)
    sums = []
    for factors in relations(list(zip(*basis, strict=True))):
        total = [sum(map(int.__mul__, factors, column)) for column in zip(*forms, strict=True)]
        if any(total):
            sums.append(primitive(total)[1])
    return sums
