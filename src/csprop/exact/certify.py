"""From a trained model to a certificate: lock it, prove it, and say what was proven.

Where a model does not lock as it is, or locks and is wrong, it is tuned towards a finite set of states
and tried again, for a number of rounds.
"""

import copy
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Generator, nn

from csprop.errors import InputError
from csprop.exact.automaton import Automaton
from csprop.exact.lock import (
    ANYWHERE,
    DOUBT,
    RADII,
    RATIO,
    Inputs,
    Labelled,
    Tightness,
    every_input,
    follow,
    lock,
    margin,
    moves_of,
    prune,
    thinned,
)
from csprop.exact.locked import Locked, NotFinite
from csprop.exact.models import Stepwise
from csprop.exact.prove import Counterexample, Proof, prove, within
from csprop.exact.tune import draw_in, harden, held, is_rotor, round_angles, straighten, tune
from csprop.tasks.base import UNLABELLED, Task, written
from csprop.tasks.file import FileTask
from csprop.training.config import described, found
from csprop.training.metrics import exhaustive

FORMAT = 1
ROUNDS = 8
HARDENINGS = 4
"""Gates are doubled in so many rounds: 2^4 times δ = 0.5 is a gate of 0.9997."""
SLACK = 0.002
"""Part of the training labels that may be missed on the way; in the end none more than at first."""
LENGTH = 16

ALL_LENGTHS = "proven for all lengths"
UP_TO_DEPTH = "proven up to depth {}"
EVERY_ROW = "agrees with every row"
ONE_LENGTH = "right on every input of length {}"
ONE_LENGTH_WRONG = "wrong on some inputs of length {}"
COUNTEREXAMPLE = "counterexample"
NOT_FINITE = "not finite"

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
    locked: Locked | None = field(default=None, repr=False)
    automaton: Automaton | None = field(default=None, repr=False)
    """The smallest with the same answers."""


def certify(
    model: Stepwise,
    task: str | Path | Task | FileTask,
    examples: Labelled | None = None,
    *,
    rounds: int = ROUNDS,
    depth: int | None = None,
    seed: int = 0,
    on_round: Callable[[str], None] = lambda line: None,
) -> Certificate:
    """Lock a model and prove that it computes the task's function.

    `examples` are what the model was trained on: it must not get worse on them. Without any,
    sequences of length 16 are drawn. Of a task that has infinitely many states, such as parenthesis,
    inputs no deeper than `depth` are considered. The model itself is left as it is.
    """
    task = found(task)
    if not (hasattr(model, "initial_state") and hasattr(model, "step")):
        raise InputError(
            f"a {type(model).__name__} has no single step: wrap it in csprop.exact.models.FromRNN or "
            "FromStep"
        )
    if examples is None:
        examples = drawn(task, seed)
    if depth is not None and depth < 1:
        raise InputError(f"depth={depth}: write 1 or more")
    if isinstance(task, Task) and not task.finite:
        depth = examples.tokens.shape[1] // 2 if depth is None else depth
        examples = _within(task, depth, examples)
    elif depth is not None:
        raise InputError(f"{task.name}: has finitely many states: leave the depth out")
    return _Attempts(copy.deepcopy(model), task, examples, depth, seed, on_round).run(rounds)


def drawn(task: Task | FileTask, seed: int, length: int = LENGTH) -> Labelled:
    """Labelled sequences: those of the file, or as many as training draws."""
    if isinstance(task, FileTask):
        return Labelled(task.data.tokens, task.data.labels)
    tokens = task.sample(task.samples, length, Generator().manual_seed(seed))
    return Labelled(tokens, task.labels(tokens))


def _within(task: Task, depth: int, examples: Labelled) -> Labelled:
    """Without the labels of sequences once they have gone too deep."""
    labels, inputs = examples.labels.clone(), within(task, depth)
    for row, tokens in enumerate(examples.tokens.tolist()):
        state: Any = task.start()
        for place, token in enumerate(tokens):
            state = inputs(state, token)
            if state is None:
                labels[row, place:] = UNLABELLED
                break
    return Labelled(examples.tokens, labels)


class _Simple(NamedTuple):
    """A model, the channels in use, and those of a rotor that turn."""

    model: Any
    kept: torch.Tensor
    turning: torch.Tensor

    def scores(self, kept: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        """After every token, with these channels alone."""
        if is_rotor(self.model):
            return held(self.model, kept, self.turning, tokens)
        return follow(self.model, kept, tokens)

    def __str__(self) -> str:
        kept, turning = int(self.kept.sum()), int((self.kept & self.turning).sum())
        return f"{kept} channels" + (f", {turning} turning" if is_rotor(self.model) else "")


class _Attempts:
    def __init__(
        self,
        model: Any,
        task: Task | FileTask,
        examples: Labelled,
        depth: int | None,
        seed: int,
        on_round: Callable[[str], None],
    ) -> None:
        self.model, self.task, self.examples, self.depth = model, task, examples, depth
        self.generator, self.on_round = Generator().manual_seed(seed), on_round
        if isinstance(model, nn.Module):
            model.eval().requires_grad_(False)
        first = self.model.initial_state()[0]
        scores = follow(
            self.model, torch.ones(first.shape[0], first.shape[2]) > 0, examples.tokens[:1, :1]
        )
        if scores.shape[2] != len(task.classes):
            raise InputError(
                f"the model has {scores.shape[2]} scores and {task.name} {len(task.classes)} classes: "
                "they must be as many"
            )
        self.everything = torch.ones(first.shape[0], first.shape[2], dtype=torch.bool)
        self.misses = self._misses(_Simple(model, self.everything, self.everything))
        self.slack = int(SLACK * (examples.labels != UNLABELLED).sum())
        self.failure: NotFinite | Counterexample | None = None
        self.loose: Sequence[torch.Tensor] | None = None
        """Codes that were found but lie too near to each other."""
        self.inputs: Inputs = every_input
        self.begin: Any = ANYWHERE
        if depth is not None:
            assert isinstance(task, Task)
            self.inputs, self.begin = within(task, depth), task.start()

    def _misses(self, simple: "_Simple") -> int:
        return self.examples.judge(simple.scores(simple.kept, self.examples.tokens)).misses

    def run(self, rounds: int) -> Certificate:
        if (found := self._attempt(self.model, self.everything, 0, RADII[:1])) is not None:
            return found
        model, kept, turning = self.model, self.everything, self.everything
        for number in range(rounds + 1):
            simple = _Simple(model, kept, turning)
            if self._misses(simple) <= self.misses + self.slack:  # or it would keep what it gets wrong
                simple = self._simpler(simple)
            if (found := self._attempt(simple.model, simple.kept, number)) is not None:
                return found
            self.on_round(f"round {number}: {simple}: {self._words(self.failure)}")
            if number == rounds or not self._can_go_on(model):
                break
            model, kept, turning = self._tuned(simple, number < HARDENINGS)
        return self._refused(self.failure)

    def _simpler(self, of: "_Simple") -> "_Simple":
        """Without what the answers do not need."""
        model, kept, turning = of
        kept = prune(of.scores, self.examples, kept)
        if is_rotor(model):
            model = copy.deepcopy(model)
            turning = straighten(model, kept, turning, self.examples)
            round_angles(model, kept, turning, self.examples)
        return _Simple(model, kept, turning)

    def _can_go_on(self, model: Any) -> bool:
        trainable = isinstance(model, nn.Module) and any(True for _ in model.parameters())
        return is_rotor(model) or (trainable and self.loose is not None)

    def _tuned(self, simple: "_Simple", hardens: bool) -> "_Simple":
        """Trained a little further; with a third fewer channels, or fewer that turn, if it can be."""
        model, kept, turning = simple
        if not is_rotor(model):
            assert self.loose is not None
            draw_in(model, kept, self.loose, self.examples, self.generator)
            return simple
        if hardens:
            harden(model)

        def still(turning: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
            return held(model, kept, turning, tokens)

        fewer = thinned(simple.scores, self.examples, kept)
        for mine, turns in ((fewer, turning), (kept, thinned(still, self.examples, kept & turning))):
            thinner = _Simple(copy.deepcopy(model), mine, turns)
            tune(*thinner, self.examples, self.generator)
            if self._misses(thinner) <= self.misses + self.slack:
                return thinner
        tune(*simple, self.examples, self.generator)
        return simple

    def _attempt(
        self, model: Any, kept: torch.Tensor, number: int, radii: Sequence[float] = RADII
    ) -> Certificate | None:
        """Lock and prove with these channels; where that fails, the reason is kept."""
        self.loose = None
        for radius in radii:
            try:
                locked, measured = self._lock(model, kept, radius)
                outcome = self._judge(locked)
            except NotFinite as reason:
                self.loose = reason.codes or self.loose
                if not isinstance(self.failure, Counterexample):
                    self.failure = reason
                continue
            if isinstance(outcome, Counterexample):
                self.failure = outcome
                continue
            search = {"rounds": number, "radius": radius, "channels": kept.sum(dim=1).tolist()}
            return self._certified(locked, measured, outcome, search)
        return None

    def _lock(self, model: Any, kept: torch.Tensor, radius: float) -> tuple[Locked, list[Tightness]]:
        symbols = len(self.task.vocab)
        locked, measured = lock(model, kept, symbols, radius, self.inputs, self.begin)
        misses = self.examples.judge(locked(self.examples.tokens)).misses
        if misses > self.misses:
            raise NotFinite(
                f"locked, it misses {misses:,} of the training labels, {self.misses:,} before"
            )
        return locked, measured

    def _judge(self, locked: Locked) -> Proof | Counterexample | None:
        """Against the task's automaton; of a file, against every row."""
        if isinstance(self.task, Task):
            return prove(locked, self.task, self.depth)
        data = self.task.data
        said = locked(data.tokens).argmax(dim=2)
        wrong = ((said != data.labels) & (data.labels != UNLABELLED)).nonzero()
        if not len(wrong):
            return None
        row, place = wrong[0].tolist()
        tokens = tuple(data.tokens[row, : place + 1].tolist())
        return Counterexample(tokens, int(said[row, place]), int(data.labels[row, place]))

    def _certified(
        self, locked: Locked, measured: list[Tightness], proof: Proof | None, search: dict[str, Any]
    ) -> Certificate:
        task = self.task
        automaton = locked.automaton(task.vocab, task.classes, task.words).minimal()
        if isinstance(task, FileTask):
            verdict = EVERY_ROW
            statement = (
                f"The locked model is a finite machine of {len(locked.following)} states, and "
                f"computes what its minimal automaton of {len(automaton)} states does, at every "
                f"length. Its answers agree with all {len(task.data)} rows of {task.path.name}. What "
                "is right beyond them, the file does not say."
            )
        elif self.depth is None:
            verdict = ALL_LENGTHS
            statement = (
                f"For every sequence of one or more tokens {_listed(task.vocab)}, of any length, the "
                f"locked model's answer after each token is that of the task {task.name!r} "
                f"({task.description})."
            )
        else:
            verdict = UP_TO_DEPTH.format(self.depth)
            statement = (
                f"For every sequence of tokens {_listed(task.vocab)}, of any length, in which no "
                f"prefix goes deeper than {self.depth}, the locked model's answer after each token is "
                f"that of the task {task.name!r} ({task.description}). Deeper inputs are not covered: "
                "the task is not regular, and no finite machine is right on all of them."
            )
        document = self._document(verdict, statement, proven=True) | {
            "machine": {
                "places": locked.places.tolist(),
                "following": locked.following.tolist(),
                "answers": locked.scores.argmax(dim=2).tolist(),
            },
            "layers": [asdict(each) for each in measured],
            "gap_over_snap": RATIO,
            "doubt": DOUBT,
            "margin": margin(locked, moves_of(locked, self.inputs, self.begin)),
            "depth": self.depth,
            "search": search,
            "minimal_states": len(automaton),
            "trusted": TRUSTED[1:] if isinstance(task, FileTask) else TRUSTED,
        }
        if proof is not None:
            document |= {
                "pairs": proof.pairs,
                "task_states": [repr(state) for state in proof.states],
            }
        return Certificate(verdict, True, statement, document, locked, automaton)

    def _refused(self, failure: NotFinite | Counterexample | None) -> Certificate:
        document = {}
        if isinstance(failure, Counterexample):
            verdict = COUNTEREXAMPLE
            document["counterexample"] = {
                "sequence": written([self.task.vocab[i] for i in failure.tokens], self.task.words),
                "length": len(failure.tokens),
                "said": self.task.classes[failure.said],
                "right": self.task.classes[failure.right],
            }
        else:
            verdict = NOT_FINITE
        statement = f"Nothing is proven: {self._words(failure)}."
        return Certificate(
            verdict, False, statement, self._document(verdict, statement, proven=False) | document
        )

    def _document(self, verdict: str, statement: str, proven: bool) -> dict[str, Any]:
        return document(self.task, verdict, statement, proven)

    def _words(self, failure: NotFinite | Counterexample | None) -> str:
        if not isinstance(failure, Counterexample):
            return str(failure)
        sequence = written([self.task.vocab[i] for i in failure.tokens], self.task.words)
        if len(sequence) > 60:
            sequence = f"{sequence[:57]}… ({len(failure.tokens)} tokens)"
        said, right = self.task.classes[failure.said], self.task.classes[failure.right]
        if isinstance(self.task, FileTask):
            return f"after {sequence} it says {said!r}, and {self.task.path.name} says {right!r}"
        return f"after {sequence} it says {said!r}, and {right!r} is right"


def certify_length(model: Any, task: Task | FileTask, length: int) -> Certificate:
    """Every input of one length, tried: for any model, locked or not."""
    if not isinstance(task, Task):
        raise InputError(f"{task.name}: the truth of every input is not known: leave the length out")
    score = exhaustive(model, task, length)
    proven = not score.wrong
    verdict = (ONE_LENGTH if proven else ONE_LENGTH_WRONG).format(length)
    statement = (
        f"All {score.count:,} inputs of length {length} were tried, and the model as trained answered "
        f"{'all' if proven else f'all but {score.wrong:,}'} as the task {task.name!r} does "
        f"({task.description}). Nothing is said of other lengths."
    )
    more = {"length": length, "inputs": score.count, "wrong": score.wrong, "trusted": TRUSTED}
    return Certificate(verdict, proven, statement, document(task, verdict, statement, proven) | more)


def document(task: Task | FileTask, verdict: str, statement: str, proven: bool) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "verdict": verdict,
        "proven": proven,
        "statement": statement,
        "task": described(task),
    }


def _listed(vocab: tuple[str, ...]) -> str:
    return ", ".join(vocab) if len(vocab) <= 6 else f"{', '.join(vocab[:3])}, … ({len(vocab)} in all)"
