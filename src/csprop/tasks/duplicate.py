"""Missing duplicate: the bit that is missing in a string that was written twice."""

from collections.abc import Sequence

import numpy as np

from csprop.data.draws import Draws, Whole
from csprop.errors import InputError
from csprop.tasks.whole import WholeTask

BLANK = 2
"""The token in place of the missing bit."""


class MissingDuplicate(WholeTask):
    """A string of bits and the same string again, with `_` in place of one bit: which bit is it?

    Delétang et al. ("Neural Networks and the Chomsky Hierarchy", 2023). No stack is enough for it.
    Lengths are even. Any other sequence has class 0.

    >>> task = MissingDuplicate()
    >>> def missing(text): return task.classes[task.truth([task.vocab.index(each) for each in text])]
    >>> [missing(text) for text in ("0110_110", "01100_10", "_1", "0_")]
    ['0', '1', '1', '0']
    """

    name = "missing-duplicate"
    description = "the bit missing in w w"
    vocab = ("0", "1", "_")
    classes = ("0", "1")

    def truth(self, sequence: Sequence[int]) -> int:
        """1 if a 1 in place of the blank makes the string a double one."""
        text = self.text(list(sequence))
        full, half = text.replace("_", "1"), len(text) // 2
        return int(text.count("_") == 1 and full[:half] == full[half:])

    def start(self) -> tuple[int, ...]:
        return ()

    def step(self, state: tuple[int, ...], token: int) -> tuple[int, ...]:
        return *state, token

    def answer(self, state: tuple[int, ...]) -> int:
        """1 if a 1 and the blank are the only pair of tokens in the same place that are not equal."""
        half = len(state) // 2
        unequal = [
            set(pair) for pair in zip(state[:half], state[half:], strict=False) if len({*pair}) > 1
        ]
        return int(len(state) == 2 * half and unequal == [{1, BLANK}] and state.count(BLANK) == 1)

    def check_length(self, length: int) -> None:
        super().check_length(length)
        if length % 2:
            raise InputError(
                f"{self.name}: no string of odd length {length} is written twice: write {length + 1}"
            )

    def draw(self, count: int, length: int, draws: Draws) -> Whole:
        self.check_length(length)
        bits = draws.below(2, (count, length // 2))
        tokens = np.concatenate([bits, bits], axis=1)
        tokens[np.arange(count), draws.below(length, (count,))] = BLANK
        return tokens
