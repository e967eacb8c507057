"""The proof: a machine and the task's own machine are walked side by side.

From the pair of starts every token leads to another pair of states. There are finitely many pairs, and
if both machines give the same answer in each of them, they agree after every input of every length. The
certificate contains the pairs: an invariant that can be verified without a search.

The proof of a model that counts has two such sets of pairs (`automata.comparison`). One says that the
weights compute a small machine: a pair is what the layer above the counters holds, a state of the small
machine, and the knowledge about the counts. The other says that the small machine answers as the task
does.

A data file gives the class of its rows only, and some of them may be wrong. So the machine is run over
the rows instead, and the certificate lists the rows with which it disagrees.
"""

from collections.abc import Hashable

from csprop.automata.comparison import Invariant, Undecided, compare_counting
from csprop.automata.counting import MOST_COUNT, CounterMachine
from csprop.automata.machine import Machine
from csprop.automata.walk import Difference, Endless, Oracle, compare, every_input
from csprop.data.summary import find_disagreements
from csprop.errors import InputError
from csprop.proof.certificate import (
    Certificate,
    CountingProof,
    CountingSearch,
    CountRanges,
    ExactCounts,
    FiniteProof,
    LayerMargins,
    Search,
    StateTable,
)
from csprop.proof.counters import Counting
from csprop.proof.limits import DOUBT, RATIO, NotFinite
from csprop.proof.locked import Locked
from csprop.proof.locked_counter import LockedCounter
from csprop.proof.margins import covered_moves, margin
from csprop.proof.statements import state_proof
from csprop.tasks.base import Task

MOST_KNOWN = 2**20
"""Bounds and periods of the pairs are below this."""


def domain(task: Task, depth: int | None) -> Oracle:
    """Return the inputs to consider: all, or those whose prefixes do not exceed a depth."""
    if depth is None or task.oracle is None:
        return every_input(len(task.vocab))
    return task.oracle.within(lambda state: task.size(state) <= depth)


def compare_with_task(
    machine: Machine, task: Task, depth: int | None = None
) -> list[tuple[int, Hashable]] | Difference:
    """Compare a machine with a task.

    Args:
        machine: the machine.
        task: a task that is not a data file.
        depth: for a task with infinitely many states, the largest depth of the inputs to cover.

    Returns:
        Pairs of a state of the machine and a state of the task, closed under every token; or a shortest
        counterexample.

    Raises:
        InputError: the task has too many states.
    """
    assert task.oracle is not None
    try:
        outcome = compare(machine.oracle, task.oracle if depth is None else domain(task, depth))
    except Endless as error:
        raise InputError(f"{task.name}: {error} in a comparison with it") from None
    return outcome if isinstance(outcome, Difference) else outcome.pairs


def prove(
    locked: Locked,
    measured: tuple[LayerMargins, ...],
    task: Task,
    depth: int | None,
    rounds: int,
    radius: float,
) -> Certificate | Difference:
    """Prove that a locked model answers as a task does; for a data file, list the rows that disagree.

    Args:
        locked: the locked model.
        measured: the distances in its layers.
        task: the task.
        depth: for a task with infinitely many states, the largest depth of the inputs to cover.
        rounds: the rounds of training that the search took.
        radius: the radius of the search.

    Returns:
        The certificate, or a shortest counterexample.

    Raises:
        InputError: the task has too many states.
    """
    pairs, rows = [], ()
    if task.oracle is None:
        rows = tuple(each.row + 1 for each in find_disagreements(locked.machine, task.data))
    else:
        pairs = compare_with_task(locked.machine, task, depth)
        if isinstance(pairs, Difference):
            return pairs
    numbers = {state: number for number, state in enumerate(dict.fromkeys(b for _, b in pairs))}
    proof = FiniteProof(
        machine=StateTable(
            places=tuple(map(tuple, locked.places.tolist())),
            transitions=locked.machine.transitions,
            outputs=locked.machine.outputs,
        ),
        layers=measured,
        gap_over_snap=RATIO,
        doubt=DOUBT,
        margin=margin(locked, covered_moves(locked, domain(task, depth))),
        depth=depth,
        search=Search(rounds, radius, tuple(locked.kept.sum(1).tolist())),
        pairs=tuple((mine, numbers[theirs]) for mine, theirs in pairs),
        task_states=tuple(map(repr, numbers)),
    )
    automaton = locked.automaton(task.vocab, task.classes, task.words).minimal()
    return state_proof(task, proof, automaton, rows, locked)


def prove_counting(
    locked: LockedCounter, task: Task, rounds: int, control: str
) -> Certificate | Difference:
    """Prove that a model that counts answers as a task does, at every length and depth.

    Args:
        locked: the locked model.
        task: the task.
        rounds: the rounds of simplification that it took.
        control: the origin of the weights above the counters.

    Returns:
        The certificate, or a shortest counterexample.

    Raises:
        NotFinite: neither a proof nor a counterexample was found.
    """
    automaton = locked.automaton(task.vocab, task.classes, task.words).reduce()
    outer = None if task.oracle is None else compare_counting(automaton, task_machine(task))
    if isinstance(outer, Difference):
        return outer
    inner = compare_counting(locked.machine, automaton)
    for each in (outer, inner):
        if isinstance(each, Undecided):
            raise NotFinite(f"the comparison is undecided: {each.reason}")
    assert isinstance(inner, Invariant)
    assert not isinstance(outer, Undecided)
    for ranges in (each.ranges for each in (outer, inner) if each is not None):
        if max((*ranges.bounds, *ranges.periods), default=0) >= MOST_KNOWN:
            raise NotFinite("the proof needs to know counts too far from 0")
    rows = ()
    if task.oracle is None:
        rows = tuple(each.row + 1 for each in find_disagreements(automaton, task.data))
    proof = counting_proof(locked.counting, inner, outer, CountingSearch(rounds, control))
    return state_proof(task, proof, automaton, rows, locked)


def counting_proof(
    counting: Counting, inner: Invariant, outer: Invariant | None, search: CountingSearch
) -> CountingProof:
    """Return a proof as a certificate has it.

    Args:
        counting: the machine of the weights.
        inner: the pairs of this machine and the small one.
        outer: the pairs of the small machine and the task's; None for a data file.
        search: the search that led to the model.
    """
    table = counting.table
    numbers = [table.holds.index(state) for state in counting.states]
    pairs = dict.fromkeys((numbers[mine], theirs, known) for mine, theirs, known in inner.pairs)
    return CountingProof(
        counting=table,
        ranges=_ranges(inner),
        pairs=tuple(pairs),
        gate=counting.gate,
        margin=counting.lead,
        doubt=DOUBT,
        exact_up_to=ExactCounts(network=2**24 // counting.unit, locked=MOST_COUNT),
        search=search,
        task_ranges=None if outer is None else _ranges(outer),
        task_pairs=() if outer is None else tuple(outer.pairs),
    )


def _ranges(invariant: Invariant) -> CountRanges:
    ranges = invariant.ranges
    return CountRanges(ranges.forms, ranges.bounds, ranges.periods, tuple(ranges.relations))


def task_machine(task: Task) -> CounterMachine:
    """Return the task's own machine; a task with finitely many states has no counters.

    Raises:
        NotFinite: the task has infinitely many states and declares no machine.
    """
    if task.counting is not None:
        return task.counting
    if not task.finite:
        raise NotFinite(f"{task.name} declares no machine that counts: make it a CountingTask")
    return CounterMachine(increments=((),) * len(task.vocab), window=0, control=task.machine)
