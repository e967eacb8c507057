"""Machines that answer rows of tokens, and certified runs that answer by them.

They are tables in NumPy: they need neither torch nor the network.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load

from csprop.automata.counting import MOST_COUNT, CounterMachine
from csprop.automata.machine import Machine
from csprop.data.draws import NumpyDraws, derive_seed
from csprop.data.examples import Examples
from csprop.data.splits import hold_out
from csprop.errors import InputError
from csprop.proof.certificate import Certificate, FiniteProof
from csprop.proof.verify import read_certificate
from csprop.proof.verify_network import complete, network_shapes
from csprop.tasks.base import Task
from csprop.training import checkpoint
from csprop.training.checkpoint import RunFolder
from csprop.training.config import RunConfig
from csprop.training.scores import EVALUATION, Result, Score, check_exhaustive, scored
from csprop.training.stored import stored_result, stored_task

WINDOW = 1 << 15  # tokens that are read at once
Reals = NDArray[np.float64]
Whole = NDArray[np.int64]
Flags = NDArray[np.bool_]


class FiniteAnswers:
    """A finite machine with the scores of its transitions. A state is a number for each row."""

    def __init__(self, machine: Machine, scores: Reals) -> None:
        self.machine, self.scores = machine, scores  # (states, tokens, classes)

    def initial_state(self, batch: int) -> Whole:
        """Return the start, for each row."""
        return np.full(batch, self.machine.start)

    def check(self, state: Whole, steps: int) -> None:
        """Raise an InputError for numbers that are not states."""
        if state.size and not 0 <= state.min() <= state.max() < len(self.machine):
            raise InputError(f"state must have numbers from 0 to {len(self.machine) - 1}")

    def run(self, tokens: Whole, state: Whole, reset: Flags | None = None) -> tuple[Reals, Whole]:
        """Return the scores after every token of rows (N, T), and the states after the last."""
        self.check(state, tokens.shape[1])
        after = self.machine.visit(tokens, state, reset)
        visited = np.concatenate([state[:, None], after], axis=1)  # (N, T + 1)
        before = (
            visited[:, :-1] if reset is None else np.where(reset, self.machine.start, visited[:, :-1])
        )
        return self.scores[before, tokens], visited[:, -1]

    def single_step(self) -> Callable[[int, int], tuple[Reals, int]]:
        """Return a function from a state and a token to the scores and the next state."""
        return lambda state, token: (self.scores[state, token], self.machine.transitions[state][token])

    def probabilities(self, scores: Reals) -> Reals:
        """Return the softmax of scores (N, classes)."""
        shares = np.exp(scores - scores.max(axis=1, keepdims=True))
        return shares / shares.sum(axis=1, keepdims=True)


class CountingAnswers:
    """A machine with counters. A state is the state of the control and the counts, for each row."""

    def __init__(self, machine: CounterMachine, classes: int) -> None:
        self.machine, self.classes = machine, np.eye(classes)
        self.increments = np.array(machine.increments, np.int64).reshape(machine.symbols, -1)
        self.outputs = np.array([each or 0 for each in machine.control.outputs])

    def initial_state(self, batch: int) -> Whole:
        """Return the start of the control and counts of 0, for each row."""
        return np.tile([self.machine.control.start] + [0] * self.machine.counters, (batch, 1))

    def check(self, state: Whole, steps: int) -> None:
        """Raise an InputError for numbers that are not states, or counts that could be too large."""
        control, counts, states = state[:, 0], state[:, 1:], len(self.machine)
        if control.size and not 0 <= control.min() <= control.max() < states:
            raise InputError(f"state[:, 0] must have numbers from 0 to {states - 1}")
        largest = max(map(abs, (int(counts.min(initial=0)), int(counts.max(initial=0)))))
        if steps * int(np.abs(self.increments).max(initial=0)) + largest > MOST_COUNT:
            raise InputError("the sequence is so long that a count could exceed 2^62")

    def run(self, tokens: Whole, state: Whole, reset: Flags | None = None) -> tuple[Reals, Whole]:
        """Return 1 for the answer and 0 for other classes after every token, and the last states."""
        self.check(state, tokens.shape[1])
        machine, added = self.machine, self.increments[tokens]
        counts = state[:, None, 1:] + added.cumsum(axis=1)  # (N, T, k)
        if reset is not None and tokens.size:  # what was counted before the last reset is taken off
            before = np.where(reset, np.arange(tokens.shape[1]), -1)
            last = np.maximum.accumulate(before, axis=1)[..., None]
            gone = np.take_along_axis(counts - added, np.maximum(last, 0), axis=1)
            counts = counts - np.where(last >= 0, gone, 0)
        symbols = tokens * machine.views + machine.view(counts)
        visited = machine.control.visit(symbols, state[:, 0], reset)
        states = np.concatenate([visited[..., None], counts], axis=2)
        scores = self.classes[self.outputs[visited]]
        return scores, np.concatenate([state[:, None], states], axis=1)[:, -1]

    def single_step(self) -> Callable[[list[int], int], tuple[Reals, list[int]]]:
        """Return a function from a state and a token to the scores and the next state."""
        oracle = self.machine.oracle

        def step(state: list[int], token: int) -> tuple[Reals, list[int]]:
            place, counts = oracle.step((state[0], tuple(state[1:])), token)
            if any(abs(each) > MOST_COUNT for each in counts):
                raise InputError("a count would exceed 2^62: the stream must be reset")
            return self.classes[self.outputs[place]], [place, *counts]

        return step

    def probabilities(self, scores: Reals) -> Reals:
        """Return the scores: an answer is certain."""
        return scores


@dataclass(frozen=True)
class CertifiedRun:
    """A run whose certificate holds, and the machine that answers."""

    path: Path
    task: Task
    config: RunConfig
    result: Result | None
    certificate: Certificate
    machine: FiniteAnswers | CountingAnswers

    def answers(self, rows: Sequence[Sequence[int]]) -> list[tuple[int, list[float]]]:
        """Return the class of each sequence, and the probabilities of all classes."""
        lengths = defaultdict(list)
        for number, row in enumerate(rows):
            lengths[len(row)].append(number)
        answers: dict[int, tuple[int, list[float]]] = {}
        for numbers in lengths.values():
            scores = self._last_scores(np.array([rows[number] for number in numbers]))
            best, shares = scores.argmax(axis=1), self.machine.probabilities(scores)
            pairs = zip(best.tolist(), shares.tolist(), strict=True)
            answers |= zip(numbers, pairs, strict=True)
        return [answers[number] for number in range(len(rows))]

    def _scores(self, tokens: Whole) -> Iterator[Reals]:
        """Yield the scores after every token of rows (N, T): (N, some, classes) at a time."""
        state, size = self.machine.initial_state(len(tokens)), max(1, WINDOW // max(1, len(tokens)))
        for first in range(0, tokens.shape[1], size):
            scores, state = self.machine.run(tokens[:, first : first + size], state)
            yield scores

    def _last_scores(self, tokens: Whole) -> Reals:
        """Return the scores after the last token of each row (N, T), (N, classes)."""
        (last,) = deque(self._scores(tokens), maxlen=1)
        return last[:, -1]

    # Evaluation, on the same sequences as `training.metrics` draws.

    def at_length(self, length: int, seed: int, *, positions: bool = False) -> Score:
        """Return the score on random sequences; `positions` counts the answers after all tokens."""
        draws = NumpyDraws(derive_seed(seed, "eval", length))
        tokens = self.task.draw(EVALUATION.count(length), length, draws)
        return scored(self._judged(tokens, positions))

    def exhaustive(self, length: int, *, positions: bool = False) -> Score:
        """Return the score on every input of a length; `positions` is as for `at_length`."""
        check_exhaustive(self.task, length)
        symbols, rows = len(self.task.vocab), max(1, WINDOW // length)
        places = symbols ** np.arange(length - 1, -1, -1)

        def parts() -> Iterator[tuple[Reals, Whole]]:
            for first in range(0, symbols**length, rows):
                numbers = np.arange(first, min(first + rows, symbols**length))
                yield from self._judged(numbers[:, None] // places % symbols, positions)

        return scored(parts())

    def _judged(self, tokens: Whole, positions: bool) -> Iterator[tuple[Reals, Whole]]:
        """Yield scores and right classes: after the last token of each row, or after every token."""
        labels, end = self.task.classify(tokens), 0
        if not positions:
            yield self._last_scores(tokens), labels[:, -1]
            return
        for scores in self._scores(tokens):
            begin, end = end, end + scores.shape[1]
            yield scores.reshape(-1, scores.shape[2]), labels[:, begin:end].ravel()

    def on_rows(self, rows: Examples) -> Score:
        """Return the score on labelled rows."""

        def parts() -> Iterator[tuple[Reals, Whole]]:
            for batch in rows.matrices(WINDOW):
                state = self.machine.initial_state(len(batch.tokens))
                scores, _ = self.machine.run(batch.tokens, state)
                yield scores[batch.answers], batch.labels[batch.answers]

        return scored(parts())

    def held_out(self) -> Examples:
        """Return the rows of the data file that training did not learn from."""
        draws, rows = NumpyDraws(derive_seed(self.config.seed, "split")), self.task.data
        try:
            return rows[hold_out(rows, self.config.recipe.split, draws)]
        except InputError as error:
            raise InputError(f"{self.task.describe()['data']}: {error}") from None


def load_certified(path: str | Path) -> CertifiedRun | None:
    """Read a certified run without torch; None if the run has no locked model.

    Raises:
        InputError: the directory is not a run or is damaged, or its certificate does not hold.
    """
    folder = RunFolder(path)
    config, task = stored_task(folder)
    if not (folder.has(checkpoint.LOCKED) and folder.has(checkpoint.CERTIFICATE)):
        return None
    model = config.model.to_json()
    _check_trained(folder, model)
    certificate = read_certificate(folder, model, task)
    if certificate is None or certificate.automaton is None:
        return None
    result = stored_result(folder)
    folder.read_metrics()  # which must be readable, too
    if isinstance(certificate.proof, FiniteProof):
        table = certificate.proof.machine
        machine = Machine(transitions=table.transitions, outputs=table.outputs)
        answering = FiniteAnswers(machine, certificate.scores)
    else:
        assert isinstance(certificate.automaton, CounterMachine)
        answering = CountingAnswers(certificate.automaton, len(task.classes))
    return CertifiedRun(folder.path, task, config, result, certificate, answering)


def _check_trained(folder: RunFolder, model: dict[str, Any]) -> None:
    """Refuse a run whose trained weights are damaged, as `csprop.load` does."""
    try:
        stored = load(folder.read(checkpoint.WEIGHTS))
        shapes = {name: value.shape for name, value in stored.items()}
        fits = all(value.dtype == np.float32 for value in stored.values())
        trackers = model["cells"][0]["kind"] == "tracker"  # which the verifier does not know
        fits = fits and (trackers or shapes == network_shapes(complete(model)))
    except (SafetensorError, LookupError, TypeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        stored, fits = {}, False
    path = folder.path / checkpoint.WEIGHTS
    if not fits:
        raise InputError(f"{path}: does not fit config.json; the run is damaged")
    if not all(np.isfinite(value).all() for value in stored.values()):
        raise InputError(f"{path}: has weights that are not finite; the run is damaged")
