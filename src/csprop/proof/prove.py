"""The proof: a machine and the task's own machine are walked side by side.

From the pair of starts every token leads to another pair of states. There are finitely many pairs, and
if both machines give the same answer in each of them, they agree after every input of every length. The
certificate contains the pairs: an invariant that can be verified without a search. A model that counts
has two such sets (`automata.comparison`): of the weights and a small machine, and of the small machine
and the task. A data file gives the class of its rows only, and some may be wrong, so the certificate
lists the rows with which the machine disagrees.
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
    Search,
    StateTable,
)
from csprop.proof.counters import Counting
from csprop.proof.limits import DOUBT, RATIO, NotFinite
from csprop.proof.lock import Measured
from csprop.proof.locked import Locked
from csprop.proof.locked_counter import LockedCounter
from csprop.proof.statements import state_proof
from csprop.tasks.base import Task

MOST_KNOWN = 2**20  # bounds and periods of the pairs are below this


def domain(task: Task, depth: int | None) -> Oracle:
    """Return the inputs to consider: all, or those whose prefixes do not exceed a depth."""
    if depth is None or task.oracle is None:
        return every_input(len(task.vocab))
    return task.oracle.within(lambda state: task.size(state) <= depth)


def compare_with_task(
    machine: Machine, task: Task, depth: int | None = None
) -> list[tuple[int, Hashable]] | Difference:
    """Return pairs of states, closed under every token, or a shortest counterexample."""
    assert task.oracle is not None
    try:
        outcome = compare(machine.oracle, task.oracle if depth is None else domain(task, depth))
    except Endless as error:
        raise InputError(f"{task.name}: {error} in a comparison with it") from None
    return outcome if isinstance(outcome, Difference) else outcome.pairs


def prove(
    locked: Locked,
    measured: Measured,
    task: Task,
    depth: int | None,
    rounds: int,
    radius: float,
) -> Certificate | Difference:
    """Prove that a locked model answers as a task does, or return a shortest counterexample.

    For a data file, the rows that disagree are listed.
    """
    pairs = []
    if task.oracle is not None:
        pairs = compare_with_task(locked.machine, task, depth)
        if isinstance(pairs, Difference):
            return pairs
    numbers = {state: number for number, state in enumerate(dict.fromkeys(b for _, b in pairs))}
    proof = FiniteProof(
        machine=state_table(locked),
        layers=measured[0],
        gap_over_snap=RATIO,
        doubt=DOUBT,
        margin=measured[1],
        depth=depth,
        search=Search(rounds, radius, tuple(locked.kept.sum(1).tolist())),
        pairs=tuple((mine, numbers[theirs]) for mine, theirs in pairs),
        task_states=tuple(map(repr, numbers)),
    )
    automaton = locked.automaton(task.vocab, task.classes, task.words).minimal()
    return state_proof(task, proof, automaton, disagreeing_rows(automaton, task), locked)


def state_table(locked: Locked) -> StateTable:
    """Return the machine of a locked model, as a certificate has it."""
    places = tuple(map(tuple, locked.places.tolist()))
    return StateTable(places, locked.machine.transitions, locked.machine.outputs)


def disagreeing_rows(machine: Machine | CounterMachine, task: Task) -> tuple[int, ...]:
    """Return the rows of a data file with other labels than the machine gives; the first row is 1."""
    if task.oracle is not None:
        return ()
    return tuple(each.row + 1 for each in find_disagreements(machine, task.data))


def prove_counting(
    locked: LockedCounter, task: Task, rounds: int, control: str
) -> Certificate | Difference:
    """Prove that a model that counts answers as a task does, or return a shortest counterexample."""
    automaton = locked.automaton(task.vocab, task.classes, task.words).reduce()
    outer = None if task.oracle is None else compare_counting(automaton, task_machine(task))
    if isinstance(outer, Difference):
        return outer
    inner = compare_counting(locked.machine, automaton)
    for each in (outer, inner):
        if isinstance(each, Undecided):
            raise NotFinite(f"the comparison is undecided: {each.reason}")
        ranges = each.ranges if isinstance(each, Invariant) else None
        if ranges and max((*ranges.bounds, *ranges.periods), default=0) >= MOST_KNOWN:
            raise NotFinite("the proof needs to know counts too far from 0")
    assert isinstance(inner, Invariant)
    assert not isinstance(outer, Undecided)
    proof = counting_proof(locked.counting, inner, outer, CountingSearch(rounds, control))
    return state_proof(task, proof, automaton, disagreeing_rows(automaton, task), locked)


def counting_proof(
    counting: Counting, inner: Invariant, outer: Invariant | None, search: CountingSearch
) -> CountingProof:
    """Return a proof as a certificate has it; the outer pairs are None for a data file."""
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
        exact_up_to=ExactCounts(network=2**24 // table.unit, locked=MOST_COUNT),
        search=search,
        task_ranges=None if outer is None else _ranges(outer),
        task_pairs=() if outer is None else tuple(outer.pairs),
    )


def _ranges(invariant: Invariant) -> CountRanges:
    ranges = invariant.ranges
    return CountRanges(ranges.forms, ranges.bounds, ranges.periods, tuple(ranges.relations))


def task_machine(task: Task) -> CounterMachine:
    """Return the task's own machine; raise NotFinite if it has infinitely many states and none."""
    if task.counting is not None:
        return task.counting
    if not task.finite:
        raise NotFinite(f"{task.name} declares no machine that counts: make it a CountingTask")
    return CounterMachine(increments=((),) * len(task.vocab), window=0, control=task.machine)
