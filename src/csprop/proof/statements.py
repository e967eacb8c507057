"""The sentences of certificates: the verdict and the statement that follow from verified facts.

The prover writes them, and the verifier compares a stored certificate with them.
"""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from csprop.automata.automaton import Automaton, CounterAutomaton
from csprop.automata.names import describe_size
from csprop.automata.walk import Difference
from csprop.data.names import join_symbols
from csprop.proof.certificate import Certificate, Counterexample, CountingProof, FiniteProof, Trial
from csprop.tasks.base import Task

if TYPE_CHECKING:
    from csprop.training.scores import Score

ALL_LENGTHS = "proven for all lengths"
EVERY_DEPTH = "proven for all lengths and depths"
UP_TO_DEPTH = "proven up to depth {}"
EVERY_ROW = "agrees with every row"
SOME_ROWS = "agrees with {:,} of {:,} rows"
ONE_LENGTH = "right on every input of length {}"
ONE_LENGTH_WRONG = "wrong on some inputs of length {}"
COUNTEREXAMPLE = "counterexample"
NOT_FINITE = "not finite"
NOT_LEARNED = "not learned"
NOT_CHECKED = "not checked"
NOTHING = "Nothing is proven: "  # the beginning of every statement that proves nothing
MADE_ANEW = "made anew"
"""The switches and the decoder of a model that counts were written by rule from the training rows."""
LONGEST_SHOWN = 60  # characters of a counterexample in a sentence; the certificate has all of it

TRUSTED = (
    "that the task's automaton, its start, step and answer, is what is meant by the task",
    "that IEEE arithmetic and the libraries compute a step with an error far below the margins stated",
    "that the file with the SHA-256 stated is the one in use, run through csprop's locked model or "
    "through the automaton made from it",
)


def state_proof(
    task: Task,
    proof: FiniteProof | CountingProof,
    automaton: Automaton | CounterAutomaton,
    disagreeing: tuple[int, ...] = (),
    locked: Any = None,
) -> Certificate:
    """Return the certificate of a proof; `disagreeing` are rows of a data file with other labels."""
    claim = _claim_of_rows if task.oracle is None else _claim_of_task
    verdict, statement = claim(task, proof, automaton, len(disagreeing))
    if isinstance(proof, CountingProof):
        statement += (
            " Counts are exact up to 2^62 in the locked model, and up to "
            f"{proof.exact_up_to.network:,} in the network's own float32; both refuse to go beyond."
        )
        if proof.search.control == MADE_ANEW:
            statement += " Its switches and its decoder were made anew from the training rows."
    rows = len(task.data) if disagreeing else None
    return Certificate(
        verdict=verdict, proven=True, statement=statement, task=task.describe(), proof=proof,
        automaton=automaton, disagreeing=disagreeing, rows=rows, trusted=list_assumptions(task),
        locked=locked,
    )  # fmt: skip


def list_assumptions(task: Task) -> tuple[str, ...]:
    """Return the assumptions of a proof."""
    return TRUSTED if task.oracle is not None else TRUSTED[1:]


def _claim_of_task(task: Task, proof: FiniteProof | CountingProof, *_: Any) -> tuple[str, str]:
    """Return the verdict and the statement about a task."""
    tokens = ", ".join(task.vocab)
    if len(task.vocab) > 6:
        tokens = f"{', '.join(task.vocab[:3])}, … ({len(task.vocab)} in all)"
    meant = f"the locked model's answer after each token is that of the task {task.name!r}"
    meant += f" ({task.description})."
    every = f"For every sequence of one or more tokens {tokens}, of any length"
    if isinstance(proof, CountingProof):
        return EVERY_DEPTH, f"{every} and any depth, {meant}"
    if proof.depth is None:
        return ALL_LENGTHS, f"{every}, {meant}"
    return UP_TO_DEPTH.format(proof.depth), (
        f"For every sequence of tokens {tokens}, of any length, in which no prefix goes deeper than "
        f"{proof.depth}, {meant} Deeper inputs are not covered: the task is not regular, and no finite "
        "machine is right on all of them."
    )


def _claim_of_rows(
    task: Task,
    proof: FiniteProof | CountingProof,
    automaton: Automaton | CounterAutomaton,
    disagreeing: int,
) -> tuple[str, str]:
    """Return the verdict and the statement about a data file."""
    if isinstance(proof, CountingProof):
        machine = f"computes what a machine of {describe_size(len(automaton), automaton.counters)}"
    else:
        machine = f"is a finite machine of {proof.machine.network_states} states, and computes what "
        machine += f"its minimal automaton of {len(automaton)} states"
    rows = len(task.data)
    agreeing, rest, verdict = f"all {rows}", ".", EVERY_ROW
    if disagreeing:
        agreeing = f"{rows - disagreeing:,} of {rows:,}"
        rest = f"; the other {disagreeing:,} are listed in the certificate, as `disagreeing`."
        verdict = SOME_ROWS.format(rows - disagreeing, rows)
    return verdict, (
        f"The locked model {machine} does, at every length. Its answers agree with {agreeing} rows of "
        f"{task.source}{rest} What is right beyond them, the file does not say."
    )


def state_unchecked(certificate: Certificate, task: Task, reason: str) -> Certificate:
    """Return the certificate of a locked model whose task is a file that cannot be read any more."""
    kind = "machine that counts" if isinstance(certificate.proof, CountingProof) else "finite machine"
    statement = (
        f"{NOTHING}the locked model is a {kind}, and whether it answers as its file does cannot be "
        f"checked ({reason})."
    )
    return replace(
        certificate, verdict=NOT_CHECKED, proven=False, statement=statement, rows=None,
        disagreeing=(), trusted=list_assumptions(task), unchecked=reason,
    )  # fmt: skip


def state_failure(task: Task, failure: Exception | Difference | None) -> Certificate:
    """Return the certificate that gives the reason why nothing is proven."""
    verdict, example = getattr(failure, "verdict", NOT_FINITE), None
    if isinstance(failure, Difference):
        verdict = COUNTEREXAMPLE
        said = _answers(task, failure)
        example = Counterexample(_sequence(task, failure), len(failure.tokens), *said)
    statement = f"{NOTHING}{reason(task, failure)}."
    return Certificate(verdict, False, statement, task.describe(), counterexample=example)


def reason(task: Task, failure: Exception | Difference | None) -> str:
    """Return the reason why nothing is proven, in a few words."""
    if not isinstance(failure, Difference):
        return str(failure)
    sequence, (said, right) = _sequence(task, failure), _answers(task, failure)
    if len(sequence) > LONGEST_SHOWN:
        sequence = f"{sequence[: LONGEST_SHOWN - 3]}… ({len(failure.tokens)} tokens)"
    return f"after {sequence} it says {said!r}, and {right!r} is right"


def _sequence(task: Task, failure: Difference) -> str:
    return join_symbols([task.vocab[token] for token in failure.tokens], task.words)


def _answers(task: Task, failure: Difference) -> tuple[str, str]:
    return task.classes[failure.left or 0], task.classes[failure.right or 0]


def state_trial(task: Task, length: int, score: "Score") -> Certificate:
    """Return the certificate of a test on every input of one length."""
    right = not score.wrong
    statement = (
        f"All {score.count:,} inputs of length {length} were tried, and the model as trained answered "
        f"{'all' if right else f'all but {score.wrong:,}'} as the task {task.name!r} does "
        f"({task.description}). Nothing is said of other lengths."
    )
    return Certificate(
        verdict=(ONE_LENGTH if right else ONE_LENGTH_WRONG).format(length), proven=right,
        statement=statement, task=task.describe(), trusted=TRUSTED,
        trial=Trial(length=length, inputs=score.count, wrong=score.wrong),
    )  # fmt: skip
