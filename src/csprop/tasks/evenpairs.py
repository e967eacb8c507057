"""Even pairs: is the number of pairs 01 and 10 even, that is, does the first token equal the last?"""

from collections.abc import Sequence

from csprop.tasks.base import Task


class EvenPairs(Task):
    """The number of pairs `01` and `10` is even if and only if the first token equals the last.

    The answer for the empty sequence is yes. The model has to recognise the first token and remember
    it, for which a rotor needs two layers and a router one.

    >>> task = EvenPairs()
    >>> [task.classes[task.truth(s)] for s in ([1, 0, 1], [1, 1, 0], [0], [])]
    ['yes', 'no', 'yes', 'yes']
    """

    name = "even-pairs"
    description = "does the first token equal the last?"
    vocab = ("0", "1")
    classes = ("no", "yes")
    preset = "router"
    depth = 2

    def truth(self, sequence: Sequence[int]) -> int:
        return int(not sequence or sequence[0] == sequence[-1])

    def start(self) -> None:
        return None

    def step(self, state: tuple[int, int] | None, token: int) -> tuple[int, int]:
        """The first and the last token so far."""
        return (token if state is None else state[0], token)

    def answer(self, state: tuple[int, int] | None) -> int:
        return int(state is None or state[0] == state[1])
