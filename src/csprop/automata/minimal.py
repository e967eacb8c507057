"""Minimisation of machines: states that no continuation distinguishes are merged."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from csprop.automata.walk import Walk

Transitions = tuple[tuple[int, ...], ...]
Outputs = tuple[int | None, ...]


def minimise(
    start: int, transitions: Transitions, outputs: Outputs
) -> tuple[int, Transitions, Outputs]:
    """Return the start, transitions and outputs of the minimal machine, in breadth-first order.

    The output of the start does not matter, because the first answer comes after the first token. So
    the start is first treated as a state without an output, and in the end merged with a state that has
    the same transitions; if there are several, with the one of the smallest class.
    """
    fresh = len(transitions)
    rows = dict(enumerate([*transitions, transitions[start]]))
    answers = [*outputs, None]
    order = _reach(fresh, rows)
    block = _blocks({state: rows[state] for state in order}, answers)
    united = {block[state]: [block[each] for each in rows[state]] for state in order}
    output = {block[state]: answers[state] for state in order}
    begin = block[fresh]
    twins = [each for each in united if each != begin and united[each] == united[begin]]
    if twins:
        begin = min(twins, key=lambda each: output[each] or 0)
    order = _reach(begin, united)
    number = {each: i for i, each in enumerate(order)}
    table = tuple(tuple(number[there] for there in united[each]) for each in order)
    return 0, table, tuple(output[each] for each in order)


def _reach(start: int, rows: Mapping[int, Sequence[int]]) -> list[int]:
    """Return the states that can be reached in a table, in breadth-first order."""
    return Walk(start).run(lambda states: (enumerate(rows[each]) for each in states), None).order


def _blocks(rows: Mapping[int, Sequence[int]], outputs: Sequence[int | None]) -> dict[int, int]:
    """Return the number of each state's equivalence class; states without an output are alike.

    Hopcroft's algorithm: states with different outputs are in different blocks. A block splits where
    some of its states lead into another one by a token and the others do not, and only the smaller part
    can then split further blocks in a way that was not tried.
    """
    columns = dict.fromkeys(zip(*rows.values(), strict=True))  # tokens with equal columns are one
    before: list[dict[int, list[int]]] = [defaultdict(list) for _ in columns]
    for column, sources in zip(columns, before, strict=True):
        for state, there in zip(rows, column, strict=True):
            sources[there].append(state)
    by_output: dict[int | None, set[int]] = defaultdict(set)
    for state in rows:
        by_output[outputs[state]].add(state)
    blocks = list(by_output.values())
    block_of = {state: number for number, block in enumerate(blocks) for state in block}
    untried = [(number, token) for number in range(len(blocks)) for token in range(len(before))]
    while untried:
        number, token = untried.pop()
        leading: dict[int, set[int]] = defaultdict(set)
        for state in blocks[number]:
            for source in before[token].get(state, ()):
                leading[block_of[source]].add(source)
        for each, inside in leading.items():
            if len(inside) == len(blocks[each]):
                continue
            smaller = inside if 2 * len(inside) <= len(blocks[each]) else blocks[each] - inside
            blocks[each].difference_update(smaller)
            block_of |= dict.fromkeys(smaller, len(blocks))
            untried += [(len(blocks), token) for token in range(len(before))]
            blocks.append(smaller)
    return block_of
