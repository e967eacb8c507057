"""Cycle navigation: the position on a ring after a number of steps."""

from collections.abc import Sequence

from csprop.tasks.base import Task


class CycleNav(Task):
    """Five positions on a ring, starting at 0: `-` is a step back, `.` stays, `+` is a step forward.

    >>> task = CycleNav()
    >>> [task.classes[task.truth(steps)] for steps in ([2, 1, 2], [0], [2, 2, 2, 2, 2, 2])]
    ['2', '4', '1']
    """

    name = "cycle-nav"
    description = "the position on a ring of 5, starting at 0"
    vocab = ("-", ".", "+")
    classes = ("0", "1", "2", "3", "4")

    def truth(self, sequence: Sequence[int]) -> int:
        tokens = list(sequence)
        return (tokens.count(2) - tokens.count(0)) % 5

    def start(self) -> int:
        return 0

    def step(self, state: int, token: int) -> int:
        return (state + token - 1) % 5

    def answer(self, state: int) -> int:
        return state
