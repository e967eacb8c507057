"""What a certificate says: its verdict, its statement, and everything that a check needs."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from csprop.automata.automaton import Automaton
from csprop.automata.counter_automaton import CounterAutomaton
from csprop.automata.walk import Difference
from csprop.data.names import join_symbols
from csprop.proof.limits import DOUBT, RATIO, NotLearned, Tightness
from csprop.proof.prove import Proof
from csprop.tasks.base import Task

if TYPE_CHECKING:
    from csprop.proof.locked import Locked
    from csprop.proof.tables import Tables
    from csprop.training.scores import Score

FORMAT = 2
ALL_LENGTHS = "proven for all lengths"
UP_TO_DEPTH = "proven up to depth {}"
EVERY_ROW = "agrees with every row"
SOME_ROWS = "agrees with {:,} of {:,} rows"
ONE_LENGTH = "right on every input of length {}"
ONE_LENGTH_WRONG = "wrong on some inputs of length {}"
COUNTEREXAMPLE = "counterexample"
NOT_FINITE = "not finite"
NOT_LEARNED = "not learned"
NOT_CHECKED = "not checked"
NOTHING = "Nothing is proven: "
"""How the statement of a certificate begins that proves nothing."""
LONGEST_SHOWN = 60
"""Characters of a counterexample in a sentence; the document has all of it."""

TRUSTED = (
    "that the task's automaton, its start, step and answer, is what is meant by the task",
    "that IEEE arithmetic and the libraries compute a step with an error far below the margins stated",
    "that the file with the SHA-256 stated is the one in use, run through csprop's locked model or "
    "through the automaton made from it",
)


@dataclass(frozen=True)
class Certificate:
    """What was found, in words and as certificate.json has it."""

    verdict: str
    proven: bool
    statement: str
    document: dict[str, Any] = field(repr=False)
    locked: Any = field(default=None, repr=False)
    """A `Locked` or `LockedCounter`; if it was read without torch, `Tables` or `CountingTables`."""
    automaton: Automaton | CounterAutomaton | None = field(default=None, repr=False)
    """The smallest with the same answers."""
    unchecked: str = ""
    """Why a certificate that was read from a run could not be checked; empty where it was. It then
    claims nothing, though it has a locked model."""

    def __repr__(self) -> str:
        from csprop.proof.words import verdict

        return f"Certificate({self.document['task']['name']}: {verdict(self)})"

    def _repr_html_(self) -> str:
        from csprop.proof.words import html

        return html(self)


def claim(
    task: Task, depth: int | None, states: int, minimal_states: int, disagreeing: int
) -> tuple[str, str]:
    """Verdict and statement of a proof.

    Args:
        depth: how deep the inputs go, of a task with infinitely many states.
        states: of the locked network; `minimal_states` are those of its minimal automaton.
        disagreeing: how many rows of a data file have another label.
    """
    if task.oracle is None:
        return claim_of_rows(
            task,
            f"The locked model is a finite machine of {states} states, and computes what its minimal "
            f"automaton of {minimal_states} states does, at every length.",
            disagreeing,
        )
    tokens, meant = listed(task.vocab), f"the task {task.name!r} ({task.description})"
    if depth is None:
        return ALL_LENGTHS, (
            f"For every sequence of one or more tokens {tokens}, of any length, the locked model's "
            f"answer after each token is that of {meant}."
        )
    return UP_TO_DEPTH.format(depth), (
        f"For every sequence of tokens {tokens}, of any length, in which no prefix goes deeper than "
        f"{depth}, the locked model's answer after each token is that of {meant}. Deeper inputs are "
        "not covered: the task is not regular, and no finite machine is right on all of them."
    )


def claim_of_rows(task: Task, machine: str, disagreeing: int) -> tuple[str, str]:
    """Verdict and statement of a data file.

    Args:
        machine: a sentence about the machine.
        disagreeing: how many rows have another label.
    """
    rows = len(task.data)
    agreeing, rest = f"all {rows}", "."
    if disagreeing:
        agreeing = f"{rows - disagreeing:,} of {rows:,}"
        rest = f"; the other {disagreeing:,} are listed in the certificate, as `disagreeing`."
    return SOME_ROWS.format(rows - disagreeing, rows) if disagreeing else EVERY_ROW, (
        f"{machine} Its answers agree with {agreeing} rows of {task.source}{rest} What is right beyond "
        "them, the file does not say."
    )


def made_of(search: dict[str, Any]) -> str:
    """What was changed, where the locked model is a rotor made from a sum of angles (frames.py)."""
    if "frame" not in search:
        return ""
    return (
        " The locked model is a rotor made from the trained one: it counts as the summed angle of one "
        "of its layers does, with the angle of each token rounded to a fraction of a turn. The rest of "
        "the trained model is not used, and the answer at each count is that of the training rows."
    )


def machine_of(locked: "Locked | Tables") -> dict[str, Any]:
    """A locked model's machine, with the codes that each of its states stands for."""
    return {
        "places": locked.places.tolist(),
        "transitions": [list(row) for row in locked.machine.transitions],
        "outputs": list(locked.machine.outputs),
    }


def network_states(places: Sequence[Sequence[int]]) -> int:
    """States of the network; one of them is several of the machine where its answers differ."""
    return len(set(map(tuple, places)))


def proven(
    task: Task,
    depth: int | None,
    locked: "Locked | Tables",
    measured: Sequence[Tightness],
    margin: float,
    proof: Proof,
    search: dict[str, Any],
) -> Certificate:
    """The certificate of a locked model."""
    automaton = locked.automaton(task.vocab, task.classes, task.words).minimal()
    states = network_states(locked.places.tolist())
    verdict, statement = claim(task, depth, states, len(automaton), len(proof.disagreeing))
    statement += made_of(search)
    document = head(task, verdict, statement, proven=True)
    document |= _measured(task, depth, locked, automaton, measured, margin, search)
    if proof.pairs:
        document |= {"pairs": proof.pairs, "task_states": [repr(state) for state in proof.states]}
    if proof.disagreeing:
        document |= {"rows": len(task.data), "disagreeing": proof.disagreeing}
    return Certificate(verdict, True, statement, document, locked, automaton)


def unchecked(
    task: Task,
    locked: "Locked | Tables",
    measured: Sequence[Tightness],
    margin: float,
    search: dict[str, Any],
    why: str,
) -> Certificate:
    """The certificate of a locked model whose task is a file that cannot be read any more."""
    automaton = locked.automaton(task.vocab, task.classes, task.words).minimal()
    statement = (
        f"{NOTHING}the locked model is a finite machine of {network_states(locked.places.tolist())} "
        f"states, and whether it answers as its file does cannot be checked ({why})."
    )
    document = head(task, NOT_CHECKED, statement, proven=False)
    document |= _measured(task, None, locked, automaton, measured, margin, search)
    return Certificate(NOT_CHECKED, False, statement, document, locked, automaton, why)


def _measured(
    task: Task,
    depth: int | None,
    locked: "Locked | Tables",
    automaton: Automaton,
    measured: Sequence[Tightness],
    margin: float,
    search: dict[str, Any],
) -> dict[str, Any]:
    """What is known of a locked model by itself."""
    return {
        "machine": machine_of(locked),
        "automaton": automaton.to_json(),
        "layers": [asdict(each) for each in measured],
        "gap_over_snap": RATIO,
        "doubt": DOUBT,
        "margin": margin,
        "depth": depth,
        "search": search | {"channels": locked.kept.sum(1).tolist()},
        "minimal_states": len(automaton),
        "trusted": TRUSTED if task.oracle is not None else TRUSTED[1:],
    }


def refused(task: Task, failure: Exception | Difference | None) -> Certificate:
    """The certificate that says why nothing is proven."""
    verdict, document = NOT_LEARNED if isinstance(failure, NotLearned) else NOT_FINITE, {}
    if isinstance(failure, Difference):
        verdict = COUNTEREXAMPLE
        document["counterexample"] = {
            "sequence": join_symbols([task.vocab[i] for i in failure.tokens], task.words),
            "length": len(failure.tokens),
            "said": task.classes[failure.left or 0],
            "right": task.classes[failure.right or 0],
        }
    statement = f"{NOTHING}{reason(task, failure)}."
    return Certificate(
        verdict, False, statement, head(task, verdict, statement, proven=False) | document
    )


def reason(task: Task, failure: Exception | Difference | None) -> str:
    """Why nothing is proven, in a few words."""
    if not isinstance(failure, Difference):
        return str(failure)
    sequence = join_symbols([task.vocab[i] for i in failure.tokens], task.words)
    if len(sequence) > LONGEST_SHOWN:
        sequence = f"{sequence[: LONGEST_SHOWN - 3]}… ({len(failure.tokens)} tokens)"
    said, right = task.classes[failure.left or 0], task.classes[failure.right or 0]
    return f"after {sequence} it says {said!r}, and {right!r} is right"


def of_length(task: Task, length: int, score: "Score") -> Certificate:
    """The certificate of every input of one length."""
    right = not score.wrong
    verdict = (ONE_LENGTH if right else ONE_LENGTH_WRONG).format(length)
    statement = (
        f"All {score.count:,} inputs of length {length} were tried, and the model as trained answered "
        f"{'all' if right else f'all but {score.wrong:,}'} as the task {task.name!r} does "
        f"({task.description}). Nothing is said of other lengths."
    )
    more = {"length": length, "inputs": score.count, "wrong": score.wrong, "trusted": TRUSTED}
    return Certificate(verdict, right, statement, head(task, verdict, statement, right) | more)


def head(task: Task, verdict: str, statement: str, proven: bool) -> dict[str, Any]:
    """How every certificate begins."""
    return {
        "format": FORMAT,
        "verdict": verdict,
        "proven": proven,
        "statement": statement,
        "task": task.describe(),
    }


def listed(vocab: tuple[str, ...]) -> str:
    """The tokens, or the first of them."""
    return ", ".join(vocab) if len(vocab) <= 6 else f"{', '.join(vocab[:3])}, … ({len(vocab)} in all)"
