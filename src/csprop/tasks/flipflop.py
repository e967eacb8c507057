"""Flip-flop: the bit that was written last."""

from collections.abc import Sequence

from csprop.tasks.base import Task


class FlipFlop(Task):
    """One bit of memory, initially 0: `0` and `1` write it, and `.` leaves it unchanged.

    >>> task = FlipFlop()
    >>> [task.classes[task.truth(s)] for s in ([0, 1, 2, 2], [1, 0], [2, 2])]
    ['1', '0', '0']
    """

    name = "flip-flop"
    description = "the bit last written; 0 before any"
    vocab = ("0", "1", ".")
    classes = ("0", "1")

    def truth(self, sequence: Sequence[int]) -> int:
        written = [token for token in sequence if token != 2]
        return written[-1] if written else 0

    def start(self) -> int:
        return 0

    def step(self, state: int, token: int) -> int:
        return state if token == 2 else token

    def answer(self, state: int) -> int:
        return state
