"""From the labelled rows of a prefix tree to a machine, without torch: merging, and a local search."""

import struct
from collections.abc import Sequence

import numpy as np

from csprop.ops.native.layout import Merge, Polish, Tree
from csprop.ops.native.library import address, library, pack

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
    """The table (states, symbols) that merging leads to, None where it has more than `most` states."""
    table = np.zeros((most, symbols), np.int32)
    bits = np.array(agree, np.float64)
    tree = _tree(columns, symbols, len(bits))
    prices = (_bits(conflict), _bits(floor), bits.ctypes.data)
    packed = pack(Merge(address(tree), most, breadth, *prices, table.ctypes.data))
    states = _checked(library().csprop_merge(address(packed)))
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
    """The table after a local search; `state_bits` has a column for each number of states allowed."""
    states, symbols = table.shape
    room = np.zeros((state_bits.shape[1] - 1, symbols), np.int32)
    room[:states] = table
    tree = _tree(columns, symbols, classes)
    numbers = [each.ctypes.data for each in (miss_bits, state_bits, row_bits, room)]
    packed = pack(Polish(address(tree), states, len(room), split, work, *numbers))
    return room[: _checked(library().csprop_polish(address(packed)))].copy()


def _tree(columns: Columns, symbols: int, classes: int):
    assert all(each.dtype == np.int32 and each.flags.c_contiguous for each in columns)
    places = [each.ctypes.data for each in columns]
    return pack(Tree(len(columns[0]), symbols, classes, *places))


def _bits(number: float) -> int:
    """The integer of the same eight bytes."""
    return struct.unpack("q", struct.pack("d", number))[0]


def _checked(states: int) -> int:
    if states == -2:
        raise MemoryError("the search for a machine")
    return states
