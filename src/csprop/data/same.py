"""Which rows have the same tokens, without a Python object for any of them."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

WORD = 63
"""Bits of a word that are used: it must stay a positive int64."""


def numbered(
    tokens: NDArray[Any], begins: NDArray[np.int64], lengths: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Number the distinct sequences in lexicographic order, a sequence before its continuations.

    Rows are sorted by their first few tokens, packed into one integer; rows that are still alike, by
    the next few, and so on. A row's rank is the number of rows that are sorted before all that are
    alike, so a refinement changes the ranks within a group of rows only.

    Args:
        tokens: the tokens of all rows, (K,).
        begins: where each row begins, (N,).
        lengths: the number of tokens of each row, (N,).

    Returns:
        For each row the number of its sequence, (N,).
    """
    rank = np.zeros(len(begins), np.int64)
    largest = int(tokens.max()) + 1 if len(tokens) else 1  # 0 is for the end of a sequence
    bits = largest.bit_length()
    count = WORD // bits
    active, start = np.arange(len(begins)), 0
    while len(active):
        words = _packed(tokens, begins[active] + start, lengths[active] - start, count, bits)
        order = np.lexsort((words, rank[active])) if start else np.argsort(words, kind="stable")
        active, words = active[order], words[order]
        before = rank[active]
        other = before[1:] != before[:-1]
        groups = np.flatnonzero(np.r_[True, other])  # where each group of rows that were alike begins
        firsts = np.flatnonzero(np.r_[True, other | (words[1:] != words[:-1])])  # that still are
        sizes = np.diff(np.r_[firsts, len(active)])
        within = firsts - groups[np.searchsorted(groups, firsts, side="right") - 1]
        rank[active] = np.repeat(before[firsts] + within, sizes)
        start += count
        going = (sizes > 1) & (np.maximum.reduceat(lengths[active], firsts) > start)
        active = active[np.repeat(going, sizes)]
    return _dense(rank)


def _packed(
    tokens: NDArray[Any], places: NDArray[np.int64], left: NDArray[np.int64], count: int, bits: int
) -> NDArray[np.int64]:
    """The next `count` tokens of each row in one integer, which sorts as they do."""
    words = np.zeros(len(places), np.int64)
    for step in range(min(count, int(left.max()))):
        there = left > step
        words[there] |= (tokens[places[there] + step].astype(np.int64) + 1) << (
            bits * (count - 1 - step)
        )
    return words


def _dense(rank: NDArray[np.int64]) -> NDArray[np.int64]:
    """The same order, numbered 0, 1, 2, … without gaps."""
    used = np.zeros(len(rank), np.int64)
    used[rank] = 1
    return (np.cumsum(used) - 1)[rank]
