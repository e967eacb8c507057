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
"""Distances at which two products are taken for one element, tried in this order."""
FURTHEST = 0.25
"""The largest distance of a learned rotation from its exact one."""
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
    """Return the finite group near to learned rotations, or None if there is none."""
    learned = learned.double()
    for distance in near:
        table = _multiply_out(learned, distance)
        if table is None or any(len(set(column)) != len(table) for column in zip(*table, strict=True)):
            continue
        group = _average(learned, torch.tensor(table))
        products = group.generators[None] @ group.elements[:, None]
        off = _distance(products, group.elements[group.table]).max()
        if off < EXACT and _distance(group.generators, learned).max() < FURTHEST:
            return group
    return None


def distinct(rows: Float[Tensor, "*E"], distance: float, most: int) -> Float[Tensor, "*K"] | None:
    """Return rows such that every row is within a distance of one; None if more would be needed."""
    chosen = rows[:1]
    while True:
        away, place = torch.cdist(rows.flatten(1), chosen.flatten(1)).amin(dim=1).max(dim=0)
        if away < distance:
            return chosen
        if len(chosen) >= most:
            return None
        chosen = torch.cat([chosen, rows[place : place + 1]])


def _multiply_out(learned: Tensor, distance: float) -> list[list[int]] | None:
    """Return where each rotation leads from each element, breadth first; None beyond MOST elements."""
    elements = torch.eye(learned.shape[1], dtype=learned.dtype)[None]
    table: list[list[int]] = []
    while len(table) < len(elements):
        targets = []
        for product in learned @ elements[len(table)]:
            away, place = _distance(elements, product).min(dim=0)
            if away < distance:
                targets.append(int(place))
            elif len(elements) < MOST:
                targets.append(len(elements))
                elements = torch.cat([elements, product[None]])
            else:
                return None
        table.append(targets)
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
