"""Cycles of a graph, and what they add up to."""

from collections.abc import Hashable, Mapping, Sequence
from typing import TypeVar

Node = TypeVar("Node", bound=Hashable)
Vector = tuple[int, ...]


def gains(
    following: Mapping[Node, Sequence[tuple[int, Node]]], steps: Sequence[Vector]
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
                found.setdefault(part[root], set()).add(
                    tuple(map(int.__sub__, there, reached[after]))
                )
    return list(found.values())


def _parts(following: Mapping[Node, Sequence[tuple[int, Node]]]) -> dict[Node, int]:
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


def _finished(following: Mapping[Node, Sequence[tuple[int, Node]]]) -> list[Node]:
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
