"""Machines that count, made smaller: fewer counters, a narrower window, fewer states of the control.

The counters become distinct primitive forms: what is common to all increments of a counter is divided
out, and counters that are multiples of one another become one. Then a walk over what is known of the
counts (`Ranges`) tells which views a state can meet with a token. Where it meets none, the table may
hold anything. A counter is dropped if no state meets two views that differ only in it and lead to
different states; the window becomes narrower if its two outermost places on each side never lead to
different states; states are merged if they agree wherever both meet a view; and what is still never met
is filled with its neighbours.
"""

from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from csprop.automata.forms import Ranges, Rows, primitive, viewing
from csprop.automata.machine import Machine
from csprop.automata.minimal import Outputs
from csprop.automata.walk import Endless, Walk

MOST_WALKED = 1 << 17
"""If the walk is longer, all views count as met."""
MOST_MERGED = 64
"""In larger controls, only states that agree on all views are merged."""

Array = NDArray[Any]


class Parts(NamedTuple):
    """What a machine consists of."""

    increments: Rows
    window: int
    control: Machine

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the control's table: states, tokens, and a place for each counter."""
        size = 2 * self.window + 1
        return (len(self.control), len(self.increments), *(size,) * len(self.increments[0]))


def reduce_parts(parts: Parts) -> Parts:
    """A smaller machine that gives the same answers after every input."""
    parts = _primitive(parts)
    while True:
        met = views_met(parts)
        table = np.array(parts.control.transitions).reshape(parts.shape)
        increments, table, met = _narrowed(parts.increments, table, met)
        merged = _merged(table, met, parts.control.outputs)
        parts, before = _built(increments, *merged, parts.control.start), parts
        if parts.shape == before.shape:
            return parts


def _primitive(parts: Parts) -> Parts:
    """The counters as distinct primitive forms. A window that is too wide is narrowed later."""
    increments, window, control = parts
    made = [primitive(weights) for weights in zip(*increments, strict=True)]
    forms = tuple(dict.fromkeys(form for factor, form in made if factor))
    least = max((-(-window // abs(factor)) for factor, _ in made if factor), default=0)
    view = viewing(increments, window, forms)
    seen = [view(each) for each in product(range(-least, least + 1), repeat=len(forms))]
    views = len(control.transitions[0]) // len(increments)
    symbols = [token * views + each for token in range(len(increments)) for each in seen]
    rows = tuple(tuple(row[each] for each in symbols) for row in control.transitions)
    fewer = Machine(transitions=rows, outputs=control.outputs, start=control.start)
    added = tuple(tuple(form[token] for form in forms) for token in range(len(increments)))
    return Parts(added, least, fewer.minimal())


def views_met(parts: Parts) -> Array:
    """Whether a state may meet a view after a token, in the shape of the table."""
    increments, window, control = parts
    ranges = Ranges.coarsest((increments, window))
    view = viewing(increments, window, ranges.forms)
    met = np.zeros((len(control), control.symbols), bool)
    views = control.symbols // len(increments)

    def leaving(state: Any) -> list[tuple[int, Any]]:
        made = []
        for token in range(len(increments)):
            for values in ranges.after(state[1], token):
                symbol = token * views + view(values)
                met[state[0], symbol] = True
                made.append((token, (control.transitions[state[0]][symbol], values)))
        return made

    try:
        walk = Walk((control.start, (0,) * len(ranges.forms)))
        walk.run(lambda states: map(leaving, states), MOST_WALKED)
    except Endless:
        met[:] = True
    return met.reshape(parts.shape)


def _narrowed(increments: Rows, table: Array, met: Array) -> tuple[Rows, Array, Array]:
    """Without the counters that do not matter, and with the narrowest window."""
    axis = 2
    while axis < table.ndim:
        united = _united(table, met, axis, [range(table.shape[axis])])
        if united is None:
            axis += 1
            continue
        table, met = (each.squeeze(axis) for each in united)
        increments = tuple((*row[: axis - 2], *row[axis - 1 :]) for row in increments)
    while table.ndim > 2 and table.shape[2] > 3:
        size = table.shape[2]
        groups = [(0, 1), *((i,) for i in range(2, size - 2)), (size - 2, size - 1)]
        united = table, met
        for axis in range(2, table.ndim):
            united = united and _united(*united, axis, groups)
        if united is None:
            break
        table, met = united
    return increments, table, met


def _united(table: Array, met: Array, axis: int, groups: Any) -> tuple[Array, Array] | None:
    """Groups of places along an axis as one place each; None if places that are met differ."""
    tables, mets = [], []
    for group in groups:
        here, there = (each.take(list(group), axis) for each in (table, met))
        low = np.where(there, here, len(table)).min(axis)
        high = np.where(there, here, -1).max(axis)
        some = there.any(axis)
        if (some & (low != high)).any():
            return None
        tables.append(np.where(some, low, 0))
        mets.append(some)
    return np.stack(tables, axis), np.stack(mets, axis)


def _merged(table: Array, met: Array, outputs: Outputs) -> tuple[Array, Array, Outputs]:
    """States that agree wherever both meet a view, as one: all of them have its row.

    Each state is merged with the first that allows it. Then the states to which a view leads that both
    meet have to be merged as well, and so on; if two with different outputs had to be, none are.
    """
    rows = np.where(met, table, -1).reshape(len(table), -1)
    entered = set(rows.flat)
    said = tuple(output if state in entered else None for state, output in enumerate(outputs))
    heads = list(range(len(table)))
    for second in range(len(table) if len(table) <= MOST_MERGED else 0):
        for first in range(second):
            if heads[first] == first and heads[second] == second:
                found = _folded(rows, heads, said, first, second)
                rows, heads, said = found or (rows, heads, said)
    rows = rows[heads]
    named = np.array([*heads, 0])  # −1, which stands for a view that is not met, becomes 0
    return named[rows].reshape(table.shape), (rows >= 0).reshape(table.shape), said


def _folded(
    rows: Array, heads: list[int], said: Outputs, first: int, second: int
) -> tuple[Array, list[int], Outputs] | None:
    """The rows, the head of each group of states and the outputs, after a merge and what it entails."""
    rows, heads, outputs, todo = rows.copy(), heads[:], list(said), [(first, second)]
    while todo:
        one, two = sorted(heads[each] for each in todo.pop())
        if one == two:
            continue
        if None not in (outputs[one], outputs[two]) and outputs[one] != outputs[two]:
            return None
        outputs[one] = outputs[two] if outputs[one] is None else outputs[one]
        both = (rows[one] >= 0) & (rows[two] >= 0)
        todo += {*zip(rows[one][both].tolist(), rows[two][both].tolist(), strict=True)}
        rows[one] = np.where(rows[one] >= 0, rows[one], rows[two])
        heads = [one if head == two else head for head in heads]
    return rows, heads, tuple(outputs)


def _built(increments: Rows, table: Array, met: Array, outputs: Outputs, start: int) -> Parts:
    """The machine of a table, with what is never met filled in, and its control minimal."""
    table, met = table.copy(), met.copy()
    reached = met.any(axis=tuple(range(2, table.ndim)))  # (states, tokens)
    while not met[reached].all():
        for axis in range(2, table.ndim):
            for shift in (1, -1):
                near, known = (np.roll(each, shift, axis) for each in (table, met))
                edge = [slice(None)] * table.ndim
                edge[axis] = slice(0, 1) if shift > 0 else slice(-1, None)
                known[tuple(edge)] = False
                table, met = np.where(known & ~met, near, table), known | met
    table[~reached] = table[reached].flat[0]  # states that are never reached
    rows = tuple(map(tuple, table.reshape(len(table), -1).tolist()))
    window = (table.shape[2] - 1) // 2 if table.ndim > 2 else 0
    smaller = Machine(transitions=rows, outputs=outputs, start=start)
    return Parts(increments, window, smaller.minimal())
