"""A finite automaton over a sequence, without torch."""

import numpy as np

from csprop.ops.native.layout import Table
from csprop.ops.native.library import address, library, pack


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
    where the next state's entries begin, and what to answer. `row` is where those of the first state
    begin. `out` (uint16), where it is given, receives the answer after every token. All are contiguous.

    Gives the row in the end, and −1 or the position of the first token that is none.
    """
    wide = sequence.dtype != np.uint8
    places = [0 if each is None else each.ctypes.data for each in (sequence, rows, answers, out)]
    packed = pack(Table(wide, len(sequence), symbols, row, *places))
    bad = library().csprop_table(address(packed))
    return packed[Table._fields.index("row")], bad
