"""The arrows of a picture of an automaton, and their labels, such as "a, b if c > 0"."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from csprop.automata.automaton import AnyAutomaton, Automaton
from csprop.automata.names import escape
from csprop.automata.reduction import views_met

Views = NDArray[np.bool_]
"""A set of views of the counters: True for each view in it, with an axis for each counter."""


class Arrow(NamedTuple):
    """All transitions from one state to another."""

    state: int
    there: int
    tokens: list[int]
    labels: list[str]
    """The names of the tokens; with counters, each with its condition."""


def arrows(automaton: AnyAutomaton) -> list[Arrow]:
    """Return the arrows of a picture."""
    made = []
    for state, row in enumerate(rules(automaton)):
        tokens: dict[int, list[int]] = {}
        together: dict[int, dict[str, list[str]]] = {}  # the names of tokens, by condition
        for token, leads in enumerate(row):
            for there, when in leads.items():
                tokens.setdefault(there, []).append(token)
                names = together.setdefault(there, {}).setdefault(when, [])
                names.append(escape(automaton.vocab[token]))
        for there, conditions in together.items():
            labels = conditions.get("", [])
            if automaton.counters:
                joined = ((", ".join(names), when) for when, names in conditions.items())
                labels = [f"{names} if {when}" if when else names for names, when in joined]
            made.append(Arrow(state, there, tokens[there], labels))
    return made


def rules(automaton: AnyAutomaton) -> list[list[dict[int, str]]]:
    """Return the states to which each token leads from each state, with the condition of each.

    A condition is about the counts after the token, and is empty if the token always leads there.
    Counts that no input leads to are left out.
    """
    if isinstance(automaton, Automaton):
        return [[{there: ""} for there in row] for row in automaton.transitions]
    names = counter_names(automaton)
    table = np.array(automaton.control.transitions).reshape(automaton.shape)

    def leads(row: NDArray[np.int64], met: Views) -> dict[int, str]:
        states = dict.fromkeys(row[met].tolist())
        return {there: describe_views(row == there, met, names) for there in states}

    made = []
    for rows, met in zip(table, views_met(automaton), strict=True):
        met = met | ~met.any()  # a state that no input leads to must still have arrows
        made.append([leads(*each) for each in zip(rows, met, strict=True)])
    return made


def counter_names(automaton: AnyAutomaton) -> list[str]:
    """Return c, or with several counters c1, c2, …; another letter where a token is called c."""
    count = automaton.counters
    for letter in "cnkdmxyzuvw":
        names = [letter] if count == 1 else [f"{letter}{number}" for number in range(1, count + 1)]
        if not {letter, *names} & set(automaton.vocab):
            return names
    return [f"count {number}" for number in range(1, count + 1)]


def describe_counters(automaton: AnyAutomaton) -> dict[str, str]:
    """Return what the tokens add to each counter, by its name: such as "( +1, ) −1"."""
    if isinstance(automaton, Automaton):
        return {}
    made = {}
    for counter, name in enumerate(counter_names(automaton)):
        added = zip(automaton.vocab, (row[counter] for row in automaton.increments), strict=True)
        made[name] = ", ".join(f"{escape(token)} {_minus(f'{n:+d}')}" for token, n in added if n)
    return made


def caption(automaton: AnyAutomaton) -> list[str]:
    """Return the lines below a picture, about the counters; none without counters."""
    lines = [f"{name}: {added}" for name, added in describe_counters(automaton).items()]
    return [*lines, "if: the counts after the token"] if lines else []


def describe_views(views: Views, met: Views, names: list[str]) -> str:
    """Return a condition such as "c = 0 and d > 0 or c < 0" for some views; empty if it always holds.

    It may be true or false for views that are not met.
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


def _boxes(left: Views, fitting: Views, known: list[list[int]]) -> list[list[list[int]]]:
    """Return boxes of known places that cover what is left, and only places that fit."""
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


def _describable(free: Views, place: int) -> list[int]:
    """Return the free places if all or all but an inner one are free, or else a run of them."""
    if free.all() or (free[0] and free[-1] and len(free) - free.sum() == 1):
        return np.flatnonzero(free).tolist()
    low = high = place
    while low > 0 and free[low - 1]:
        low -= 1
    while high < len(free) - 1 and free[high + 1]:
        high += 1
    return list(range(low, high + 1))


def _side(places: list[int], known: list[int], name: str, size: int) -> str:
    """Return the condition on one counter for some of its known places; empty for all of them."""
    edge = size // 2
    low, high = places[0] - edge, places[-1] - edge
    missing = [place for place in known if place not in places]
    if not missing:
        return ""
    if len(places) > 1 and places[0] < missing[0] < places[-1]:
        return _minus(f"{name} ≠ {missing[0] - edge}")
    if low == high and abs(low) < edge:
        return _minus(f"{name} = {low}")
    if places[0] == known[0]:
        return f"{name} < 0" if high == -1 else _minus(f"{name} ≤ {high}")
    if places[-1] == known[-1]:
        return f"{name} > 0" if low == 1 else _minus(f"{name} ≥ {low}")
    return _minus(f"{low} ≤ {name} ≤ {high}")


def _minus(text: str) -> str:
    return text.replace("-", "−")
