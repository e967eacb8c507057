"""The proof: a machine beside the task's own, walked until nothing is new.

From the pair of first states every token leads to another pair; there are finitely many, and if the
machine's answer is the task's on the way to each, it is right after every input of every length. The
pairs are what a certificate carries: an invariant that anyone can check without the search.

Of a file the truth is known for its rows alone, and the machine is run over them.
"""

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np

from csprop.automata.machine import Machine
from csprop.automata.walk import Difference, Oracle, compare, every_input
from csprop.tasks.base import UNLABELLED, Task


@dataclass(frozen=True)
class Proof:
    """Pairs of a state of the machine and one of the task, closed under every input of the domain.

    Of a file there are none: what is proven is that every row is answered as the file says.
    """

    pairs: list[tuple[int, int]]
    states: list[Hashable]
    """The task's, by their number in the pairs."""


def domain(task: Task, depth: int | None) -> Oracle:
    """The inputs that count: all, or those of which no prefix goes deeper than `depth`."""
    if depth is None or task.oracle is None:
        return every_input(len(task.vocab))
    return task.oracle.within(lambda state: task.size(state) <= depth)


def prove(machine: Machine, task: Task, depth: int | None = None) -> Proof | Difference:
    """That the machine answers as the task does, or a shortest input to which it does not.

    Raises:
        Endless: the task has too many states.
    """
    if task.oracle is None:
        return _over_rows(machine, task)
    oracle = task.oracle if depth is None else domain(task, depth)
    found = compare(machine.oracle, oracle)
    if isinstance(found, Difference):
        return found
    numbers = {state: number for number, state in enumerate(dict.fromkeys(b for _, b in found.pairs))}
    return Proof([(mine, numbers[theirs]) for mine, theirs in found.pairs], list(numbers))


def _over_rows(machine: Machine, task: Task) -> Proof | Difference:
    data = task.data
    said, labels = machine.run(data.tokens.numpy()), data.labels.numpy()
    wrong = np.argwhere((said != labels) & (labels != UNLABELLED))
    if not len(wrong):
        return Proof([], [])
    row, place = wrong[0].tolist()
    tokens = tuple(data.tokens[row, : place + 1].tolist())
    return Difference(tokens, int(said[row, place]), int(labels[row, place]))
