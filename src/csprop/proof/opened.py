"""A certified run as the machine that its locked model is: read, checked and run without torch.

The check is that of `exact.reading`, by the tables of `exact.tables`. It only ever accepts: whatever it
cannot confirm is left to torch, which says what is wrong.
"""

from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load as unpacked

from csprop.data.draws import NumpyDraws, seed_of
from csprop.data.examples import Examples
from csprop.data.splits import hold_out
from csprop.errors import InputError
from csprop.nn.config import CSPConfig
from csprop.proof.check_shapes import Rejected, check_weights, demand, shapes_of
from csprop.proof.counters import counts
from csprop.proof.document import Certificate
from csprop.proof.limits import MOST_CODES, NotFinite
from csprop.proof.reading import Ways, read
from csprop.proof.tables import CountingTables, Tables
from csprop.tasks.base import Task
from csprop.training import checkpoint
from csprop.training.checkpoint import RunFolder
from csprop.training.config import RunConfig
from csprop.training.scores import EVALUATION, Score, check_exhaustive, scored
from csprop.training.stored import stored_result, stored_task

WINDOW = 1 << 15
"""Tokens that are read at once."""
Reals = NDArray[np.float64]
Whole = NDArray[np.int64]


@dataclass(frozen=True)
class Opened:
    """A run whose locked model answers, as tables."""

    path: Path
    task: Task
    config: RunConfig
    result: dict[str, Any] | None
    certificate: Certificate
    locked: Tables | CountingTables

    def answers(self, rows: Sequence[Sequence[int]]) -> list[tuple[int, list[float]]]:
        """The class of each sequence, and the probabilities of all classes."""
        lengths = defaultdict(list)
        for number, row in enumerate(rows):
            lengths[len(row)].append(number)
        found: dict[int, tuple[int, list[float]]] = {}
        for numbers in lengths.values():
            scores = self._last_scores(np.array([rows[number] for number in numbers]))
            best = scores.argmax(axis=1).tolist()
            if isinstance(self.locked, Tables):
                scores = np.exp(scores - scores.max(axis=1, keepdims=True))
                scores /= scores.sum(axis=1, keepdims=True)
            found |= zip(numbers, zip(best, scores.tolist(), strict=True), strict=True)
        return [found[number] for number in range(len(rows))]

    def _scores(self, tokens: Whole) -> Iterator[Reals]:
        """The scores after every token of rows (N, T): (N, some, classes) at a time."""
        state, size = self.locked.initial_state(len(tokens)), max(1, WINDOW // max(1, len(tokens)))
        for first in range(0, tokens.shape[1], size):
            scores, state = self.locked.run(tokens[:, first : first + size], state)
            yield scores

    def _last_scores(self, tokens: Whole) -> Reals:
        """The scores after the last token of each row (N, T), (N, classes)."""
        (last,) = deque(self._scores(tokens), maxlen=1)
        return last[:, -1]

    # Evaluation, on the same sequences as `training.metrics` draws.

    def at_length(self, length: int, seed: int, *, positions: bool = False) -> Score:
        """The score on random sequences of a length.

        Args:
            length: of the sequences.
            seed: what they are drawn by.
            positions: count the answers after all tokens, not only those after the last one.
        """
        draws = NumpyDraws(seed_of(seed, "eval", length))
        tokens = self.task.draw(EVALUATION.count(length), length, draws)
        return scored(self._judged(tokens, positions))

    def exhaustive(self, length: int, *, positions: bool = False) -> Score:
        """The score on every input of a length.

        Args:
            length: of the inputs.
            positions: count the answers after all tokens, not only those after the last one.

        Raises:
            InputError: the task is not defined at the length, or there are too many inputs.
        """
        check_exhaustive(self.task, length)
        symbols, rows = len(self.task.vocab), max(1, WINDOW // length)
        places = symbols ** np.arange(length - 1, -1, -1)

        def parts() -> Iterator[tuple[Reals, Whole]]:
            for first in range(0, symbols**length, rows):
                numbers = np.arange(first, min(first + rows, symbols**length))
                tokens = numbers[:, None] // places % symbols
                yield from self._judged(tokens, positions)

        return scored(parts())

    def _judged(self, tokens: Whole, positions: bool) -> Iterator[tuple[Reals, Whole]]:
        """Scores and right classes: after the last token of each row (N, T), or after every token."""
        labels, end = self.task.classify(tokens), 0
        if not positions:
            yield self._last_scores(tokens), labels[:, -1]
            return
        for scores in self._scores(tokens):
            begin, end = end, end + scores.shape[1]
            yield scores.reshape(-1, scores.shape[2]), labels[:, begin:end].ravel()

    def on_rows(self, rows: Examples) -> Score:
        """The score on labelled rows."""

        def parts() -> Iterator[tuple[Reals, Whole]]:
            for batch in rows.matrices(WINDOW):
                scores, _ = self.locked.run(batch.tokens, self.locked.initial_state(len(batch.tokens)))
                yield scores[batch.answers], batch.labels[batch.answers]

        return scored(parts())

    def held_out(self) -> Examples:
        """The rows of the data file that training did not learn from."""
        draws, rows = NumpyDraws(seed_of(self.config.seed, "split")), self.task.data
        try:
            return rows[hold_out(rows, self.config.recipe.split, draws)]
        except InputError as error:
            raise InputError(f"{self.task.describe()['data']}: {error}") from None


def opened(path: str | Path) -> Opened | None:
    """Read a certified run.

    Returns:
        The run, with its certificate checked; None if nothing is locked, or if the certificate cannot
        be confirmed here, so that `csprop.load` has to look.

    Raises:
        InputError: the directory is not a run, or is damaged.
    """
    folder = RunFolder(path)
    config, task = stored_task(folder)
    if not (folder.has(checkpoint.LOCKED) and folder.has(checkpoint.CERTIFICATE)):
        return None
    try:
        with np.errstate(all="ignore"):  # what is not finite is refused where it matters
            _check_trained(folder, config.model)
            ways = Ways(partial(_locked, config.model), Tables.tightness, Tables.settled, _length)
            certificate = read(folder, task, config.model, ways)
    except (InputError, Rejected, NotFinite, SafetensorError, LookupError, TypeError, ValueError):
        return None
    locked = None if certificate is None else certificate.locked
    if certificate is None or not isinstance(locked, Tables | CountingTables):
        return None
    result = stored_result(folder)
    folder.read_metrics()  # which must be whole, too
    return Opened(folder.path, task, config, result, certificate, locked)


def _check_trained(folder: RunFolder, config: CSPConfig) -> None:
    """That the weights as trained are those of such a model: a run that is damaged is not served."""
    stored = unpacked(folder.read(checkpoint.WEIGHTS))
    due = shapes_of(config.to_json())
    due.pop("kept")
    shapes = {f"network.{name}": value.shape for name, value in stored.items()}
    single = all(value.dtype == np.float32 for value in stored.values())
    demand(single and shapes == due, "its weights are not those of such a model")
    demand(all(np.isfinite(value).all() for value in stored.values()), "a weight is not finite")


def _locked(config: CSPConfig, content: bytes) -> Tables | CountingTables:
    """The tables of a locked model from the content of its file."""
    stored = unpacked(content)
    options = config.to_json()
    counting = counts(config) and "kept" not in stored
    check_weights(stored, options, counting)
    small = all((np.abs(each) <= 2.0**20).all() for each in stored.values() if each.dtype != np.bool_)
    demand(small, "a weight is beyond ±2^20, or not a number")
    if counting:
        return CountingTables({name.removeprefix("network."): each for name, each in stored.items()})
    few = all(len(stored[f"codes_{layer}"]) <= MOST_CODES for layer in range(config.depth))
    demand(few, "it has too many codes")
    return Tables({name: each.astype(np.float64) for name, each in stored.items()}, options)


def _length(length: int) -> NoReturn:
    raise InputError("the model as trained answers")
