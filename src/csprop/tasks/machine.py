"""Tasks that are machines: with counters, where no finite machine is enough, or from a table."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from csprop.automata.automaton import AnyAutomaton, CounterAutomaton
from csprop.automata.counting import CounterMachine
from csprop.automata.names import describe_size
from csprop.automata.walk import Oracle
from csprop.errors import InputError
from csprop.tasks.base import Task

State = tuple[int, tuple[int, ...]]
"""The state of the control, and the counts."""


class CountingTask(Task):
    """A task that declares a `CounterMachine`, from which its states, answers and labels follow.

    Such a task is defined by `truth` and by its machine: what each token adds to each counter, and how
    the control moves and answers, which sees the counts after each token as −1, 0 or 1 (or as far as
    the window reaches). `Majority` in `tasks/powers.py` is a short one.
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
        return _known(self, self._counting.answer(state))

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


class MachineTask(Task):
    """The task of answering as an automaton does. The description of the task holds the automaton.

    Args:
        automaton: the machine.
        name: a name that no built-in task has.

    Raises:
        InputError: there is a single class, or a name cannot be printed.

    >>> task = MachineTask(automaton)       # a lamp, dark before the first press
    >>> task.truth([0, 0, 0])               # pressed three times
    1
    """

    def __init__(self, automaton: AnyAutomaton, name: str = "machine") -> None:
        self.automaton, self.name = automaton, name
        self.vocab, self.classes, self.words = automaton.vocab, automaton.classes, automaton.words
        self.description = f"a machine of {describe_size(len(automaton), automaton.counters)}"
        if len(self.classes) == 1:
            (only,) = self.classes
            raise InputError(f"{name}: every answer is {only!r}: there must be at least two classes")
        for each in (*self.vocab, *self.classes):
            if not each.isprintable():
                raise InputError(f"{name}: the name {each!r} has unprintable characters: remove them")

    @property
    def oracle(self) -> Oracle:
        return self.automaton.oracle  # whose start may have no answer

    def truth(self, sequence: Sequence[int]) -> int:
        return self.automaton.final(sequence)

    def start(self) -> Any:
        return self.automaton.start

    def step(self, state: Any, token: int) -> Any:
        return self.automaton.control.transitions[state][token]

    def answer(self, state: Any) -> int:
        return _known(self, self.automaton.outputs[state])

    def describe(self) -> dict[str, Any]:
        return {"name": self.name, "automaton": self.automaton.to_json()}


class CountingMachineTask(CountingTask, MachineTask):
    """The task of answering as an automaton that counts does; as `MachineTask`."""

    @cached_property
    def counting(self) -> CounterMachine:
        assert isinstance(self.automaton, CounterAutomaton)
        return self.automaton


def machine_task(automaton: AnyAutomaton, name: str = "machine") -> MachineTask:
    """Return the task of answering as an automaton does, finite or with counters."""
    kind = CountingMachineTask if isinstance(automaton, CounterAutomaton) else MachineTask
    return kind(automaton, name)


def _known(task: Task, answer: int | None) -> int:
    if answer is None:
        raise InputError(f"{task.name}: there is no answer before the first token")
    return answer
