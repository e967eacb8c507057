"""Minimisation of machines: states that no continuation distinguishes are merged."""

from collections.abc import Mapping, Sequence

from csprop.automata.walk import Walk

Rows = tuple[tuple[int, ...], ...]
Outputs = tuple[int | None, ...]


def merged(start: int, transitions: Rows, outputs: Outputs) -> tuple[int, Rows, Outputs]:
    """The start, transitions and outputs of the minimal machine, numbered in breadth-first order."""
    fresh = len(transitions)
    rows = dict(enumerate([*transitions, transitions[start]]))
    said = [*outputs, None]
    order = _reached(fresh, rows)
    block = _blocks({state: rows[state] for state in order}, said)
    united = {block[state]: [block[each] for each in rows[state]] for state in order}
    output = {block[state]: said[state] for state in order}
    begin = block[fresh]
    twins = [each for each in united if each != begin and united[each] == united[begin]]
    if twins:
        begin = min(twins, key=lambda each: output[each] or 0)
    order = _reached(begin, united)
    number = {each: i for i, each in enumerate(order)}
    table = tuple(tuple(number[there] for there in united[each]) for each in order)
    return 0, table, tuple(output[each] for each in order)


def _reached(start: int, rows: Mapping[int, Sequence[int]]) -> list[int]:
    """The states that can be reached in a table, in breadth-first order."""
    return Walk(start).run(lambda states: (enumerate(rows[each]) for each in states), None).order


def _blocks(rows: dict[int, tuple[int, ...]], outputs: Sequence[int | None]) -> dict[int, int]:
    """The number of each state's equivalence class; all states without an output have the same output.

    automata-lib minimises machines that accept or reject, without classes. So each class becomes an
    extra symbol, which leads from the states with that output to the only accepting state, and from
    all others to a trap.
    """
    from automata.fa.dfa import DFA

    accepts, trap = -1, -2
    used = {outputs[state] for state in rows} - {None}
    asks = {f"output {each}": each for each in used}
    columns = dict.fromkeys(zip(*rows.values(), strict=True))  # tokens that always lead alike are one
    paths = {
        state: {
            **{f"token {token}": column[place] for token, column in enumerate(columns)},
            **{ask: accepts if outputs[state] == each else trap for ask, each in asks.items()},
        }
        for place, state in enumerate(rows)
    }
    symbols = set(paths[next(iter(paths))])
    paths[accepts] = paths[trap] = dict.fromkeys(symbols, trap)
    machine = DFA(
        states=set(paths),
        input_symbols=symbols,
        transitions=paths,
        initial_state=next(iter(rows)),
        final_states={accepts},
    )
    merged = machine.minify(retain_names=True).states
    return {state: number for number, block in enumerate(merged) for state in block if state >= 0}
