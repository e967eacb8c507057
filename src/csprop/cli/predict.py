"""`csprop predict`: classify the sequences on stdin."""

import os
import stat
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, TextIO

from csprop.cli import common
from csprop.errors import InputError

# Lines of a file that are classified together; from a terminal or a pipe, each line on its own.
AT_ONCE = 256


@dataclass(frozen=True, kw_only=True)
class Args(common.RunArguments):
    """Read one sequence per line from stdin and print the predicted class of each.

    Tokens are characters (0110), or words separated by spaces (open close).

    Examples:
        echo 0110 | csprop predict runs/parity
        csprop predict runs/parity < sequences.txt
    """


def run(args: Args) -> int:
    if sys.stdin is None:
        raise InputError("stdin is closed: write one sequence per line to it")
    opened = common.open_run(args)
    live = not _is_file(sys.stdin)
    answers = []
    try:
        for answer in _answer(opened, sys.stdin, 1 if live else AT_ONCE):
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


def _answer(opened: Any, stream: Iterable[str], at_once: int) -> Iterator[dict[str, Any]]:
    from csprop.data.names import encode, split_symbols

    task = opened.task
    lines = ((number, line.rstrip("\r\n")) for number, line in enumerate(stream, start=1))
    while group := list(islice(lines, at_once)):
        rows = []
        for number, line in group:
            where = f"stdin line {number}"
            if line.startswith('{"') and "{" not in task.vocab:
                raise InputError(f"{where}: is a row of JSON: write its sequence alone")
            rows.append(encode(split_symbols(line, task.words), task.vocab, where))
        for (_, line), (best, chances) in zip(group, opened.answers(rows), strict=True):
            shares = dict(zip(task.classes, chances, strict=True))
            yield {"sequence": line, "prediction": task.classes[best], "probabilities": shares}
