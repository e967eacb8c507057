"""The proof: a machine and the task's own machine are walked side by side.

From the pair of starts every token leads to another pair of states. There are finitely many pairs, and
if both machines give the same answer in each of them, they agree after every input of every length. The
certificate contains the pairs: an invariant that can be checked without a search.

A data file gives the class of its rows only, and some of them may be wrong. So the machine is run over
them instead, and the certificate contains the rows with which it disagrees.
"""

from collections.abc import Hashable
from dataclasses import dataclass, field

from csprop.automata.machine import Machine
from csprop.automata.walk import Difference, Endless, Oracle, compare, every_input
from csprop.data.summary import find_disagreements
from csprop.errors import InputError
from csprop.tasks.base import Task


@dataclass(frozen=True)
class Proof:
    """Pairs of a state of the machine and a state of the task, closed under every token.

    For a data file there are no pairs: what is proven is which rows get their label.
    """

    pairs: list[tuple[int, int]]
    states: list[Hashable]
    """The states of the task, by their number in the pairs."""
    disagreeing: list[int] = field(default_factory=list)
    """The rows of a data file of which some label is not the machine's answer; the first row is 1."""


def domain(task: Task, depth: int | None) -> Oracle:
    """The inputs to consider: all, or those whose prefixes do not exceed a depth."""
    if depth is None or task.oracle is None:
        return every_input(len(task.vocab))
    return task.oracle.within(lambda state: task.size(state) <= depth)


def prove(machine: Machine, task: Task, depth: int | None = None) -> Proof | Difference:
    """Prove that a machine answers as a task does.

    Args:
        machine: the machine.
        task: the task.
        depth: for a task with infinitely many states, the largest depth of the inputs to cover.

    Returns:
        The proof, or a shortest counterexample. For a data file, always a proof.

    Raises:
        InputError: the task has too many states.
    """
    if task.oracle is None:
        return Proof([], [], [each.row + 1 for each in find_disagreements(machine, task.data)])
    oracle = task.oracle if depth is None else domain(task, depth)
    try:
        found = compare(machine.oracle, oracle)
    except Endless as error:
        raise InputError(f"{task.name}: {error} in a comparison with it") from None
    if isinstance(found, Difference):
        return found
    numbers = {state: number for number, state in enumerate(dict.fromkeys(b for _, b in found.pairs))}
    return Proof([(mine, numbers[theirs]) for mine, theirs in found.pairs], list(numbers))
