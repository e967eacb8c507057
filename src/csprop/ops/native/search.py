"""From the labelled rows of a prefix tree to a machine, without torch: merging, and a local search."""

from collections.abc import Sequence

import numpy as np

from csprop.ops.native.layout import Arguments
from csprop.ops.native.library import library, pack

Columns = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""Parent, token and end of every node, where its labels begin; every label and how often: int32."""


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
