"""Conditions on counters in a few words, such as "c > 0", for the arrows of a picture."""

import numpy as np
from numpy.typing import NDArray

Views = NDArray[np.bool_]
"""Whether each view is meant, with an axis for each counter."""


def condition(views: Views, names: list[str]) -> str:
    """A condition that holds for exactly these views: "any", or such as "c = 0 and d > 0 or c < 0"."""
    cases = []
    for box in _boxes(views):
        sides = zip(box, names, views.shape, strict=True)
        cases.append(" and ".join(filter(None, (_side(*side) for side in sides))))
    return " or ".join(cases) or "any"


def _boxes(views: Views) -> list[list[list[int]]]:
    """Boxes that cover the views and nothing else: the places along each axis."""
    left, boxes = views.copy(), []
    while left.any():
        box = [[int(place)] for place in np.argwhere(left)[0]]
        for axis, (place,) in enumerate(box):
            slabs = views[np.ix_(*box[:axis], range(views.shape[axis]), *box[axis + 1 :])]
            others = tuple(each for each in range(views.ndim) if each != axis)
            box[axis] = _describable(np.asarray(slabs.all(axis=others)), place)
        left[np.ix_(*box)] = False
        boxes.append(box)
    return boxes


def _describable(free: Views, place: int) -> list[int]:
    """The free places if all or all but an inner one are, or else those in a row with a place."""
    if free.all() or (free[0] and free[-1] and len(free) - free.sum() == 1):
        return np.flatnonzero(free).tolist()
    low = high = place
    while low > 0 and free[low - 1]:
        low -= 1
    while high < len(free) - 1 and free[high + 1]:
        high += 1
    return list(range(low, high + 1))


def _side(places: list[int], name: str, size: int) -> str:
    """What a row of places says of a counter; nothing if it has all of them."""
    low, high, edge = places[0] - size // 2, places[-1] - size // 2, size // 2
    if len(places) == size:
        return ""
    if len(places) <= high - low:
        (missing,) = set(range(size)) - set(places)
        return f"{name} ≠ {_number(missing - edge)}"
    if low == -edge:
        return f"{name} < 0" if high == -1 else f"{name} ≤ {_number(high)}"
    if high == edge:
        return f"{name} > 0" if low == 1 else f"{name} ≥ {_number(low)}"
    same = f"{name} = {_number(low)}"
    return same if low == high else f"{_number(low)} ≤ {name} ≤ {_number(high)}"


def _number(value: int) -> str:
    return str(value).replace("-", "−")
