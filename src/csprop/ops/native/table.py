"""A finite automaton over a sequence, without torch."""

import numpy as np

from csprop.ops.native.library import library, pack


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
