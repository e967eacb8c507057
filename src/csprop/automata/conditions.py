"""Conditions on counters in a few words, such as "c > 0", for the arrows of a picture."""

import numpy as np
from numpy.typing import NDArray

Views = NDArray[np.bool_]
"""Whether each view is meant, with an axis for each counter."""
Places = list[int]
"""Places along one axis, in order."""


def condition(views: Views, met: Views, names: list[str]) -> str:
    """A condition such as "c = 0 and d > 0 or c < 0"; empty if it always holds.

    Args:
        views: the views for which it holds, among those that are met.
        met: the views that are met at all; of the others it may say anything.
        names: of the counters.
    """
    if (views | ~met).all():
        return ""
    known = [np.flatnonzero(met.any(axis=_others(met, axis))).tolist() for axis in range(met.ndim)]
    cases = []
    for box in _boxes(views & met, views | ~met, known):
        sides = zip(box, known, names, views.shape, strict=True)
        cases.append(" and ".join(filter(None, (_side(*side) for side in sides))))
    return " or ".join(cases)


def _others(views: Views, axis: int) -> tuple[int, ...]:
    return tuple(each for each in range(views.ndim) if each != axis)


def _boxes(left: Views, fitting: Views, known: list[Places]) -> list[list[Places]]:
    """Boxes of known places that cover what is left, and nothing that does not fit."""
    left, boxes = left.copy(), []
    while left.any():
        box = [[int(place)] for place in np.argwhere(left)[0]]
        for axis, (place,) in enumerate(box):
            slabs = fitting[np.ix_(*box[:axis], known[axis], *box[axis + 1 :])]
            free = np.asarray(slabs.all(axis=_others(fitting, axis)))
            box[axis] = [known[axis][i] for i in _describable(free, known[axis].index(place))]
        left[np.ix_(*box)] = False
        boxes.append(box)
    return boxes


def _describable(free: Views, place: int) -> Places:
    """The free places if all or all but an inner one are, or else those in a row with a place."""
    if free.all() or (free[0] and free[-1] and len(free) - free.sum() == 1):
        return np.flatnonzero(free).tolist()
    low = high = place
    while low > 0 and free[low - 1]:
        low -= 1
    while high < len(free) - 1 and free[high + 1]:
        high += 1
    return list(range(low, high + 1))


def _side(places: Places, known: Places, name: str, size: int) -> str:
    """What some of the known places say of a counter; nothing if they are all of them."""
    edge = size // 2
    low, high = places[0] - edge, places[-1] - edge
    missing = [place for place in known if place not in places]
    if not missing:
        return ""
    if len(places) > 1 and places[0] < missing[0] < places[-1]:
        return f"{name} ≠ {_number(missing[0] - edge)}"
    if low == high and abs(low) < edge:
        return f"{name} = {_number(low)}"
    if places[0] == known[0]:
        return f"{name} < 0" if high == -1 else f"{name} ≤ {_number(high)}"
    if places[-1] == known[-1]:
        return f"{name} > 0" if low == 1 else f"{name} ≥ {_number(low)}"
    return f"{_number(low)} ≤ {name} ≤ {_number(high)}"


def _number(value: int) -> str:
    return str(value).replace("-", "−")
