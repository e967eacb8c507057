"""A machine as a task: the answers to learn, or to be proven, are those of a table."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from csprop.automata.automaton import Automaton, CounterAutomaton
from csprop.automata.walk import Oracle
from csprop.errors import InputError
from csprop.tasks.base import Task
from csprop.tasks.counting import CountingTask


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

    def __init__(self, automaton: Automaton, name: str = "machine") -> None:
        self.automaton, self.name = automaton, name
        self.vocab, self.classes, self.words = automaton.vocab, automaton.classes, automaton.words
        self.description = f"a machine of {_counted(len(automaton), 'state')}"
        _check_names(self)

    @property
    def oracle(self) -> Oracle:
        return self.automaton.oracle  # whose start may have no answer

    def truth(self, sequence: Sequence[int]) -> int:
        return self.automaton.final(sequence)

    def start(self) -> int:
        return self.automaton.start

    def step(self, state: int, token: int) -> int:
        return self.automaton.transitions[state][token]

    def answer(self, state: int) -> int:
        answer = self.automaton.outputs[state]
        if answer is None:
            raise InputError(f"{self.name}: there is no answer before the first token")
        return answer

    def describe(self) -> dict[str, Any]:
        return {"name": self.name, "automaton": self.automaton.to_json()}


class CountingMachineTask(CountingTask):
    """The task of answering as an automaton that counts does; the description holds the automaton.

    Args:
        automaton: the machine.
        name: a name that no built-in task has.

    Raises:
        InputError: there is a single class, or a name cannot be printed.
    """

    def __init__(self, automaton: CounterAutomaton, name: str = "machine") -> None:
        self.automaton, self.name = automaton, name
        self.vocab, self.classes, self.words = automaton.vocab, automaton.classes, automaton.words
        states, counters = _counted(len(automaton), "state"), _counted(automaton.counters, "counter")
        self.description = f"a machine of {states} and {counters}"
        _check_names(self)

    @cached_property
    def counting(self) -> CounterAutomaton:
        return self.automaton

    def truth(self, sequence: Sequence[int]) -> int:
        return self.automaton.final(sequence)

    def describe(self) -> dict[str, Any]:
        return {"name": self.name, "automaton": self.automaton.to_json()}


def machine_task(
    automaton: Automaton | CounterAutomaton, name: str = "machine"
) -> MachineTask | CountingMachineTask:
    """The task of answering as a finite automaton, or one that counts, does."""
    if isinstance(automaton, CounterAutomaton):
        return CountingMachineTask(automaton, name)
    return MachineTask(automaton, name)


def _check_names(task: Task) -> None:
    if len(task.classes) == 1:
        (only,) = task.classes
        raise InputError(f"{task.name}: every answer is {only!r}: there must be at least two classes")
    for each in (*task.vocab, *task.classes):
        if not each.isprintable():
            raise InputError(f"{task.name}: the name {each!r} has unprintable characters: remove them")


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
