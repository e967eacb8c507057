"""Tasks that no finite machine solves: a finite control and counters do."""

from abc import abstractmethod
from dataclasses import replace
from functools import cached_property

from csprop.automata.counting import CounterMachine
from csprop.automata.walk import Oracle
from csprop.errors import InputError
from csprop.tasks.base import Task

__all__ = ["CounterMachine", "CountingTask"]

State = tuple[int, tuple[int, ...]]
"""The state of the control, and the counts."""


class CountingTask(Task):
    """A task that declares a `CounterMachine`, from which its states, answers and labels follow.

    Such a task is defined by `truth` and by its machine: what each token adds to each counter, and how
    the control moves and answers, which sees the counts after each token as −1, 0 or 1 (or as far as
    the window reaches). This one asks for a stock that was never below zero:

    Examples:
        >>> class Stock(CountingTask):
        ...     name, description = "stock", "is something left, without ever having sold too much?"
        ...     vocab, classes, words = ("deliver", "sell", "wait"), ("empty", "some", "oversold"), True
        ...
        ...     def truth(self, sequence):
        ...         left = [0]
        ...         for token in sequence:
        ...             left.append(left[-1] + (1, -1, 0)[token])
        ...         return 2 if min(left) < 0 else int(left[-1] > 0)
        ...
        ...     @cached_property
        ...     def counting(self):
        ...         return CounterMachine.explore(
        ...             increments=((1,), (-1,), (0,)),
        ...             start="fine",
        ...             step=lambda state, token, counts: "oversold" if counts[0] < 0 else state,
        ...             answer=lambda state, counts: 2 if state == "oversold" else int(counts[0] > 0),
        ...         )
        >>> task, events = Stock(), [0, 0, 2, 1, 1, 1, 0]
        >>> [task.classes[task.truth(events[:end])] for end in range(1, 8)]
        ['some', 'some', 'some', 'some', 'empty', 'oversold', 'oversold']
        >>> [task.classes[each] for each in task.counting.run(events)]
        ['some', 'some', 'some', 'some', 'empty', 'oversold', 'oversold']
    """

    preset = "counter"
    finite = False

    @cached_property
    @abstractmethod
    def counting(self) -> CounterMachine:
        """The machine."""

    @property
    def oracle(self) -> Oracle:
        return replace(self.counting.oracle, step=self.step)

    def start(self) -> State:
        return self._counting.start

    def step(self, state: State, token: int) -> State:
        """Return the state after a token, without the counts if the control can change no more."""
        control, counts = self._counting.step(state, token)
        return control, (0,) * len(counts) if control in self._last else counts

    def answer(self, state: State) -> int:
        answer = self._counting.answer(state)
        if answer is None:
            raise InputError(f"{self.name}: there is no answer before the first token")
        return answer

    def size(self, state: State) -> int:
        """Return the largest count, above or below 0."""
        return max(map(abs, state[1]), default=0)

    @cached_property
    def _counting(self) -> Oracle:
        return self.counting.oracle

    @cached_property
    def _last(self) -> frozenset[int]:
        """The states of the control that nothing leaves."""
        rows = enumerate(self.counting.control.transitions)
        return frozenset(state for state, row in rows if set(row) == {state})
