"""A machine as a task: a table gives the answers to learn or to prove."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from csprop.automata.automaton import AnyAutomaton, CounterAutomaton
from csprop.automata.counting import CounterMachine
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

    def __init__(self, automaton: AnyAutomaton, name: str = "machine") -> None:
        self.automaton, self.name = automaton, name
        self.vocab, self.classes, self.words = automaton.vocab, automaton.classes, automaton.words
        sizes = [(len(automaton), "state")]
        sizes += [(automaton.counters, "counter")] if isinstance(automaton, CounterAutomaton) else []
        nouns = (f"{count} {noun}{'' if count == 1 else 's'}" for count, noun in sizes)
        self.description = f"a machine of {' and '.join(nouns)}"
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
        answer = self.automaton.outputs[state]
        if answer is None:
            raise InputError(f"{self.name}: there is no answer before the first token")
        return answer

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
