"""Reduction of machines that count: fewer counters, a narrower window, fewer states of the control.

The counters become distinct primitive forms: a common divisor of a counter's increments is divided out,
and counters that are multiples of one another become one. Then a walk over partial knowledge of the
counts (`Ranges`) finds the views that a state can meet with a token. The table may hold anything for
the others. A counter is dropped if no state meets two views that differ only in it and lead to
different states; the window becomes narrower if its two outermost places on each side never lead to
different states; states are merged if they agree wherever both meet a view; and entries that are never
met are filled with their neighbours.
"""

from dataclasses import replace
from itertools import product
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from csprop.automata.counting import CounterMachine
from csprop.automata.forms import Increments, Ranges, primitive, view_function
from csprop.automata.machine import Machine
from csprop.automata.minimal import Outputs
from csprop.automata.walk import Endless, Walk

MOST_WALKED, MOST_MERGED = 1 << 17, 64
"""If a walk is longer, all views count as met; in larger controls, only equal states are merged."""

Array = NDArray[Any]
Counting = TypeVar("Counting", bound=CounterMachine)


def reduce_machine(machine: Counting) -> Counting:
    """Return a smaller machine that gives the same answers after every input."""
    machine = _make_primitive(machine)
    while True:
        table = np.array(machine.control.transitions).reshape(machine.shape)
        increments, table, met = _narrow(machine.increments, table, views_met(machine))
        table, met, outputs = _merge(table, met, machine.control.outputs)
        before, machine = machine, _build(machine, increments, _fill(table, met), outputs)
        if machine.shape == before.shape:
            return machine


def _build(machine: Counting, increments: Increments, table: Array, outputs: Outputs) -> Counting:
    """Return a machine with other counters and another table."""
    rows = tuple(map(tuple, table.reshape(len(table), -1).tolist()))
    window = (table.shape[2] - 1) // 2 if table.ndim > 2 else 0
    control = Machine(transitions=rows, outputs=outputs, start=machine.control.start).minimal()
    return replace(machine, increments=increments, window=window, control=control)


def _make_primitive(machine: Counting) -> Counting:
    """Make the counters distinct primitive forms. A window that is too wide is narrowed later."""
    made = [primitive(weights) for weights in zip(*machine.increments, strict=True)]
    forms = tuple(dict.fromkeys(form for factor, form in made if factor))
    least = max((-(-machine.window // abs(factor)) for factor, _ in made if factor), default=0)
    view = view_function(machine.increments, machine.window, forms)
    seen = [view(each) for each in product(range(-least, least + 1), repeat=len(forms))]
    table = np.array(machine.control.transitions).reshape(len(machine), machine.symbols, machine.views)
    shape = (len(machine), machine.symbols, *(2 * least + 1,) * len(forms))
    added = tuple(tuple(form[token] for form in forms) for token in range(machine.symbols))
    return _build(machine, added, table[:, :, seen].reshape(shape), machine.control.outputs)


def views_met(machine: CounterMachine) -> Array:
    """Return True where a state may meet a view after a token, in the shape of the table."""
    increments, window, control = machine.increments, machine.window, machine.control
    ranges = Ranges.coarsest((increments, window))
    view = view_function(increments, window, ranges.forms)
    met = np.zeros((len(control), control.symbols), bool)

    def leaving(state: Any) -> list[tuple[int, Any]]:
        made = []
        for token in range(len(increments)):
            for values in ranges.after(state[1], token):
                symbol = token * machine.views + view(values)
                met[state[0], symbol] = True
                made.append((token, (control.transitions[state[0]][symbol], values)))
        return made

    try:
        walk = Walk((control.start, (0,) * len(ranges.forms)))
        walk.run(lambda states: map(leaving, states), MOST_WALKED)
    except Endless:
        met[:] = True
    return met.reshape(machine.shape)


def _narrow(increments: Increments, table: Array, met: Array) -> tuple[Increments, Array, Array]:
    """Drop the counters that do not matter, and make the window as narrow as possible."""
    axis = 2
    while axis < table.ndim:
        united = _unite(table, met, axis, [range(table.shape[axis])])
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
            united = united and _unite(*united, axis, groups)
        if united is None:
            break
        table, met = united
    return increments, table, met


def _unite(table: Array, met: Array, axis: int, groups: Any) -> tuple[Array, Array] | None:
    """Unite groups of places along an axis; None if places that are met differ."""
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


def _merge(table: Array, met: Array, outputs: Outputs) -> tuple[Array, Array, Outputs]:
    """Give states that agree wherever both meet a view the same row, each the first that allows it.

    Then the states to which a view leads that both meet have to be merged as well, and so on; if two of
    them have different outputs, nothing is merged.
    """
    rows = np.where(met, table, -1).reshape(len(table), -1)
    entered = set(rows.flat)
    answers = tuple(output if state in entered else None for state, output in enumerate(outputs))
    heads = list(range(len(table)))
    for second in range(len(table) if len(table) <= MOST_MERGED else 0):
        for first in range(second):
            if heads[first] == first and heads[second] == second:
                folded = _fold(rows, heads, answers, first, second)
                rows, heads, answers = folded or (rows, heads, answers)
    rows = rows[heads]
    numbers = np.array([*heads, 0])  # −1, which stands for a view that is not met, becomes 0
    return numbers[rows].reshape(table.shape), (rows >= 0).reshape(table.shape), answers


def _fold(
    rows: Array, heads: list[int], answers: Outputs, first: int, second: int
) -> tuple[Array, list[int], Outputs] | None:
    """Return the rows, the head of each group and the outputs after a merge and what it entails."""
    rows, heads, outputs, todo = rows.copy(), heads[:], list(answers), [(first, second)]
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


def _fill(table: Array, met: Array) -> Array:
    """Fill entries that are never met with their neighbours."""
    reached = met.any(axis=tuple(range(2, table.ndim)))  # (states, tokens)
    while not met[reached].all():
        for axis in range(2, table.ndim):
            for shift in (1, -1):
                near, known = (np.roll(each, shift, axis) for each in (table, met))
                edge = [slice(None)] * table.ndim
                edge[axis] = slice(0, 1) if shift > 0 else slice(-1, None)
                known[tuple(edge)] = False
                table, met = np.where(known & ~met, near, table), known | met
    return np.where(
        reached.reshape(*reached.shape, *[1] * (table.ndim - 2)), table, table[reached].flat[0]
    )
