"""The finite group that learned rotations are close to, and rotations that are exactly in it.

Learned rotations are slightly inaccurate: their products drift, and never close into a finite group.
`find_group` multiplies them out, treats nearby products as one element, and averages. If the result
is a finite group, products become steps through its table, which are exact at every length.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int64
from torch import Tensor

MOST = 128
"""The largest group that is searched for."""
NEAR = (0.06, 0.1, 0.16, 0.25, 0.4, 0.6)
"""Distances at which two products are taken for one element."""
FURTHEST = 0.25
"""The largest distance of a learned rotation from its exact one: absolute, and as a part of the gap
between two elements."""
WIDE = 2.0
"""A gap above this counts as this one; the group of the identity alone has no other."""
EXACT = 1e-4
"""The largest distance of a product of exact rotations from its element."""
ROUNDS = 30


class Group(NamedTuple):
    """A finite group of orthogonal matrices, and rotations that generate it."""

    generators: Float[Tensor, "K m m"]
    elements: Float[Tensor, "E m m"]
    """The first one is the identity."""
    table: Int64[Tensor, "E K"]
    """The element that each generator leads to."""


def find_group(learned: Float[Tensor, "K m m"], near: tuple[float, ...] = NEAR) -> Group | None:
    """Return the finite group near to learned rotations, or None if there is none.

    A group of many elements is near to any rotations. So we choose the group whose generators are
    closest to the learned rotations, relative to the gap between its elements.
    """
    learned, best, least = learned.double(), None, FURTHEST
    for distance in near:
        table = _multiply_out(learned, distance)
        if table is None or any(len(set(column)) != len(table) for column in zip(*table, strict=True)):
            continue
        group = _average(learned, torch.tensor(table))
        products = group.generators[None] @ group.elements[:, None]
        off = _distance(products, group.elements[group.table]).max()
        away, one = float(_distance(group.generators, learned).max()), group.elements
        gap = min([WIDE, *_distance(one[:1], one[1:]).tolist()])  # all elements have the same gaps
        if off < EXACT and away < min(FURTHEST, least * gap):
            best, least = group, away / gap
    return best


def distinct(
    rows: Float[Tensor, "*E"], distance: float, most: int, first: int = 1
) -> Float[Tensor, "*K"] | None:
    """Return rows such that every row is within a distance of one; None if more would be needed.

    The first ones are among them.
    """
    chosen, others = rows[:first], rows[first:]
    away = torch.cdist(others.flatten(1), chosen.flatten(1)).amin(dim=1)
    while len(others) and (furthest := int(away.argmax())) >= 0 and away[furthest] >= distance:
        if len(chosen) >= most:
            return None
        chosen = torch.cat([chosen, others[furthest : furthest + 1]])
        nearer = torch.cdist(others.flatten(1), chosen[-1:].flatten(1))[:, 0]
        away = torch.minimum(away, nearer)
    return chosen


def _multiply_out(learned: Tensor, distance: float) -> list[list[int]] | None:
    """Return where each rotation leads from each element, breadth first; None beyond MOST elements."""
    elements = torch.eye(learned.shape[1], dtype=learned.dtype)[None]
    table: list[list[int]] = []
    while len(table) < len(elements):
        products = learned @ elements[len(table)]
        new = distinct(torch.cat([elements, products]), distance, MOST, len(elements))
        if new is None:
            return None
        elements = new
        table.append(torch.cdist(products.flatten(1), elements.flatten(1)).argmin(dim=1).tolist())
    return table


def _average(generators: Tensor, table: Int64[Tensor, "E K"]) -> Group:
    """Return the rotations nearest to the learned ones, on average over all elements, again and again.

    An approximate representation of a finite group lies near an exact one; averaging converges to it.
    """
    elements = _elements(generators, table)
    for _ in range(ROUNDS):
        turned = elements[table] @ elements.mT[:, None]
        u, _, v = torch.linalg.svd(turned.mean(dim=0))
        change, generators = _distance(generators, u @ v).max(), u @ v
        elements = _elements(generators, table)
        if change < 1e-12:
            break
    return Group(generators, elements, table)


def _elements(generators: Tensor, table: Int64[Tensor, "E K"]) -> Tensor:
    """Return each element as the product that first leads to it."""
    size = generators.shape[1]
    elements = torch.eye(size, dtype=generators.dtype).repeat(len(table), 1, 1)
    reached = {0}
    for source, targets in enumerate(table.tolist()):
        for generator, target in enumerate(targets):
            if target not in reached:
                reached.add(target)
                elements[target] = generators[generator] @ elements[source]
    return elements


def _distance(a: Tensor, b: Tensor) -> Tensor:
    return (a - b).flatten(-2).norm(dim=-1)
