"""Machines as tables, without torch: one that runs, and searches for one that fits labelled rows."""

from collections.abc import Sequence

import numpy as np

from csprop.ops.native.library import Arguments, library, pack

Columns = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""Parent, token and end of every node, where its labels begin; every label and how often: int32."""


def run_table(
    rows: np.ndarray,
    answers: np.ndarray,
    symbols: int,
    row: int,
    sequence: np.ndarray,
    out: np.ndarray | None,
) -> tuple[int, int]:
    """Run an automaton over a sequence of uint8 or int64, its tokens 0 to `symbols` − 1.

    `rows` (uint32) and `answers` (uint16) have an entry for each state and symbol, state by state:
    where the next state's entries begin, and the answer. `row` is where the first state's begin.
    `out` (uint16), unless it is None, receives the answer after every token. All are contiguous.

    Returns the row in the end, and −1 or the position of the first token outside of the symbols.
    """
    table = pack(
        "Table",
        {
            "wide": sequence.dtype != np.uint8, "length": len(sequence), "symbols": symbols, "row": row,
            "sequence": sequence, "rows": rows, "answers": answers, "out": out,
        },
    )  # fmt: skip
    wrong = library().csprop_table(table.address)
    return table["row"], wrong


def merge_tree(
    columns: Columns,
    agree: Sequence[float],
    symbols: int,
    most: int,
    breadth: int,
    conflict: float,
    floor: float,
) -> np.ndarray | None:
    """Return the table (states, symbols) of merging, None if it has more than `most` states."""
    table = np.zeros((most, symbols), np.int32)
    bits = np.array(agree, np.float64)
    merge = pack(
        "Merge",
        {
            "tree": _tree(columns, symbols, len(bits)), "most": most, "breadth": breadth,
            "conflict": conflict, "floor": floor, "agree": bits, "table": table,
        },
    )  # fmt: skip
    states = _checked(library().csprop_merge(merge.address))
    return None if states < 0 else table[:states]


def polish_table(
    columns: Columns,
    classes: int,
    table: np.ndarray,
    miss_bits: np.ndarray,
    state_bits: np.ndarray,
    row_bits: np.ndarray,
    split: bool,
    work: int,
) -> np.ndarray:
    """Return the table after a local search; `state_bits` has a column for each allowed size."""
    states, symbols = table.shape
    room = np.zeros((state_bits.shape[1] - 1, symbols), np.int32)
    room[:states] = table
    polish = pack(
        "Polish",
        {
            "tree": _tree(columns, symbols, classes), "states": states, "room": len(room),
            "split": split, "work": work, "miss_bits": miss_bits, "state_bits": state_bits,
            "row_bits": row_bits, "table": room,
        },
    )  # fmt: skip
    return room[: _checked(library().csprop_polish(polish.address))].copy()


def _tree(columns: Columns, symbols: int, classes: int) -> Arguments:
    assert all(each.dtype == np.int32 and each.flags.c_contiguous for each in columns)
    names = ("parent", "token", "end", "first", "label", "weight")
    sizes = {"nodes": len(columns[0]), "symbols": symbols, "classes": classes}
    return pack("Tree", {**sizes, **dict(zip(names, columns, strict=True))})


def _checked(states: int) -> int:
    if states == -2:
        raise MemoryError("the search for a machine")
    return states
