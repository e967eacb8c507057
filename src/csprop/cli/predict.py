"""`csprop predict`: classify the sequences on stdin."""

import os
import stat
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, TextIO

from csprop.cli import common
from csprop.cli.options import Arg
from csprop.errors import InputError

Answers = Callable[[list[list[int]]], list[tuple[int, list[float]]]]
"""From sequences of numbers to the class of each, and the probabilities of all classes."""
# Lines of a file that are classified together; from a terminal or a pipe, each line on its own.
AT_ONCE = 256


@dataclass(frozen=True, kw_only=True)
class Args:
    """Read one sequence per line from stdin and print the predicted class of each.

    Tokens are characters (0110), or words separated by spaces (open close).

    Examples:
        echo 0110 | csprop predict runs/parity
        csprop predict runs/parity < sequences.txt
    """

    run: Annotated[Path, Arg("RUN", positional=True)]
    """A run directory, or one of `csprop zoo`, such as zoo:parity."""

    as_trained: common.Flag = False
    """Use the model as trained, even if the run is certified."""

    json: common.Flag = False
    """Print one JSON document on stdout, with the probability of each class."""


def run(args: Args) -> int:
    if sys.stdin is None:
        raise InputError("stdin is closed: write one sequence per line to it")
    task, asked = _asked(args)
    lines = ((number, line.rstrip("\r\n")) for number, line in enumerate(sys.stdin, start=1))
    answers = []
    live = not _is_file(sys.stdin)
    try:
        for answer in _answers(task, asked, lines, 1 if live else AT_ONCE):
            if args.json:
                answers.append(answer)
            else:
                print(answer["prediction"], flush=live)
    except UnicodeDecodeError:
        raise InputError("stdin: the text is not UTF-8") from None
    if args.json:
        common.show_json({"run": str(args.run), "predictions": answers})
    return 0


def _is_file(stream: TextIO) -> bool:
    try:
        return stat.S_ISREG(os.fstat(stream.fileno()).st_mode)
    except OSError:
        return False


def _asked(args: Args) -> tuple[Any, Answers]:
    """Return the task of the run, and the function that answers."""
    from csprop.proof.answers import load_certified

    run = None if args.as_trained else load_certified(args.run)
    if run is not None:
        common.say_locked(run)
        return run.task, run.answers
    loaded = common.load(args.run)
    from csprop.proof.locked_counter import LockedCounter
    from csprop.training.metrics import last_logits

    model = common.answering(loaded, args.as_trained)
    certain = isinstance(model, LockedCounter)  # its scores are 1 for the answer and 0 for the others

    def answers(rows: list[list[int]]) -> list[tuple[int, list[float]]]:
        return [
            (int(scores.argmax()), (scores if certain else scores.softmax(dim=0)).tolist())
            for scores in last_logits(model, rows)
        ]

    return loaded.task, answers


def _answers(
    task: Any, asked: Answers, lines: Iterator[tuple[int, str]], at_once: int
) -> Iterator[dict[str, Any]]:
    from csprop.data.names import encode, split_symbols

    vocab, classes = task.vocab, task.classes
    while group := list(islice(lines, at_once)):
        rows = []
        for number, line in group:
            where = f"stdin line {number}"
            if line.startswith('{"') and "{" not in vocab:
                raise InputError(f"{where}: is a row of JSON: write its sequence alone")
            rows.append(encode(split_symbols(line, task.words), vocab, where))
        for (_, line), (best, chances) in zip(group, asked(rows), strict=True):
            shares = dict(zip(classes, chances, strict=True))
            yield {"sequence": line, "prediction": classes[best], "probabilities": shares}
