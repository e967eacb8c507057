"""The proof of a model that counts, and its certificate.

It has two parts, each a set of pairs as `automata.comparison` describes it. The first one says that the
weights compute what a small machine does: a pair is what the layer above the counters holds, a state
of the small machine, and what is known of the counts. The second one says that this machine answers as
the task's own machine does. A data file has no machine of its own, so there is no second part: the rows
with which the machine disagrees are listed.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from csprop.automata.comparison import Invariant, Undecided, compare_counting
from csprop.automata.counter_automaton import CounterAutomaton
from csprop.automata.counting import MOST_COUNT, CounterMachine
from csprop.automata.names import describe_size
from csprop.automata.walk import Difference
from csprop.data.summary import find_disagreements
from csprop.proof.document import (
    NOT_CHECKED,
    NOTHING,
    TRUSTED,
    Certificate,
    claim_of_rows,
    head,
    listed,
)
from csprop.proof.limits import DOUBT, NotFinite
from csprop.tasks.base import Task

if TYPE_CHECKING:
    from csprop.proof.locked_counter import LockedCounter
    from csprop.proof.tables import CountingTables

EVERY_DEPTH = "proven for all lengths and depths"
MOST_KNOWN = 2**20
"""Bounds and periods of the pairs are below this."""
CONTROLS = ("trained", "made anew")
"""Where the weights of switches and decoder come from: from the model, perhaps trained further, or from
the training rows alone."""
ROUTER = "router"
"""In its place, of a model with a router, of which nothing is changed."""


@dataclass(frozen=True)
class CountingProof:
    """A small machine, why the weights compute it, and why it answers as the task does."""

    automaton: CounterAutomaton
    inner: Invariant
    """Of the machine of the weights and the small one."""
    outer: Invariant | None
    """Of the small machine and the task's; None for a data file."""


def prove_counting(locked: "LockedCounter | CountingTables", task: Task) -> CountingProof | Difference:
    """Prove that a model that counts answers as a task does, at every length and depth.

    Returns:
        The proof, or a shortest counterexample. For a data file, always a proof.

    Raises:
        NotFinite: neither a proof nor a counterexample was found.
    """
    automaton = locked.automaton(task.vocab, task.classes, task.words).reduce()
    outer = None if task.oracle is None else compare_counting(automaton, reference(task))
    if isinstance(outer, Difference):
        return outer
    inner = compare_counting(locked.machine, automaton)
    for found in (outer, inner):
        if isinstance(found, Undecided):
            raise NotFinite(f"the comparison is undecided: {found.reason}")
    assert isinstance(inner, Invariant)
    assert not isinstance(outer, Undecided)
    for ranges in (each.ranges for each in (outer, inner) if each is not None):
        if max((*ranges.bounds, *ranges.periods), default=0) >= MOST_KNOWN:
            raise NotFinite("the proof needs to know counts too far from 0")
    return CountingProof(automaton, inner, outer)


def reference(task: Task) -> CounterMachine:
    """The task's own machine; one with finitely many states has no counters.

    Raises:
        NotFinite: the task has infinitely many states and declares no machine.
    """
    if task.counting is not None:
        return task.counting
    if not task.finite:
        raise NotFinite(f"{task.name} declares no machine that counts: make it a CountingTask")
    return CounterMachine(increments=((),) * len(task.vocab), window=0, control=task.machine)


def proven(
    task: Task, locked: "LockedCounter | CountingTables", proof: CountingProof, search: dict[str, Any]
) -> Certificate:
    """The certificate of a locked model that counts.

    Raises:
        InputError: the task is a data file, and its rows cannot be read any more.
    """
    file = task.oracle is None
    rows = [each.row + 1 for each in find_disagreements(proof.automaton, task.data)] if file else []
    verdict, statement = _claim(task, locked, proof, len(rows))
    if search["control"] == CONTROLS[1]:
        statement += " Its switches and its decoder were made anew from the training rows."
    document = head(task, verdict, statement, proven=True) | _measured(task, locked, proof, search)
    if rows:
        document |= {"rows": len(task.data), "disagreeing": rows}
    return Certificate(verdict, True, statement, document, locked, proof.automaton)


def unchecked(
    task: Task,
    locked: "LockedCounter | CountingTables",
    proof: CountingProof,
    search: dict[str, Any],
    why: str,
) -> Certificate:
    """The certificate of a locked model whose task is a file that cannot be read any more."""
    statement = (
        f"{NOTHING}the locked model computes what {_machine(proof)} does, and whether that answers as "
        f"its file does cannot be checked ({why})."
    )
    document = head(task, NOT_CHECKED, statement, proven=False)
    document |= _measured(task, locked, proof, search)
    return Certificate(NOT_CHECKED, False, statement, document, locked, proof.automaton, why)


def _measured(
    task: Task, locked: "LockedCounter | CountingTables", proof: CountingProof, search: dict[str, Any]
) -> dict[str, Any]:
    """What is known of a locked model that counts by itself."""
    counting = locked.counting
    holds = list(dict.fromkeys(counting.states))  # one of them may have several answers
    numbers = [holds.index(state) for state in counting.states]
    pairs = dict.fromkeys((numbers[mine], theirs, known) for mine, theirs, known in proof.inner.pairs)
    document = {
        "counting": {
            "unit": counting.unit,
            "increments": [list(row) for row in locked.machine.increments],
            "window": locked.machine.window,
            "holds": [list(state) for state in holds],
            "decisions": [
                [holds.index(state), token, list(values), holds.index(after), answer]
                for (state, token, values), (after, answer) in counting.decided.items()
            ],
        },
        "automaton": proof.automaton.to_json(),
        "ranges": _ranges(proof.inner),
        "pairs": [list(pair) for pair in pairs],
        "gate": counting.gate,
        "margin": counting.lead,
        "doubt": DOUBT,
        "exact_up_to": {"network": _most(locked), "locked": MOST_COUNT},
        "search": search,
        "minimal_states": len(proof.automaton),
        "trusted": TRUSTED if task.oracle is not None else TRUSTED[1:],
    }
    if proof.outer is not None:
        document["task_ranges"] = _ranges(proof.outer)
        document["task_pairs"] = [list(pair) for pair in proof.outer.pairs]
    return document


def _ranges(invariant: Invariant) -> dict[str, Any]:
    ranges = invariant.ranges
    return {
        "forms": [list(form) for form in ranges.forms],
        "bounds": list(ranges.bounds),
        "periods": list(ranges.periods),
        "relations": [list(relation) for relation in ranges.relations],
    }


def _claim(
    task: Task, locked: "LockedCounter | CountingTables", proof: CountingProof, disagreeing: int
) -> tuple[str, str]:
    """Verdict and statement of a proof."""
    exact = (
        "Counts are exact up to 2^62 in the locked model, and up to "
        f"{_most(locked):,} in the network's own float32; both refuse to go beyond."
    )
    if task.oracle is None:
        machine = f"The locked model computes what {_machine(proof)} does, at every length."
        verdict, statement = claim_of_rows(task, machine, disagreeing)
        return verdict, f"{statement} {exact}"
    return EVERY_DEPTH, (
        f"For every sequence of one or more tokens {listed(task.vocab)}, of any length and any depth, "
        f"the locked model's answer after each token is that of the task {task.name!r} "
        f"({task.description}). {exact}"
    )


def _most(locked: "LockedCounter | CountingTables") -> int:
    """The largest count that the network holds, in float32, in which its own numbers are larger."""
    return 2**24 // locked.counting.unit


def _machine(proof: CountingProof) -> str:
    return f"a machine of {describe_size(len(proof.automaton), proof.automaton.counters)}"
