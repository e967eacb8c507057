"""`csprop eval`: the accuracy of a run, by length or over every input."""

import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

from csprop.cli import common
from csprop.cli.options import Arg
from csprop.errors import InputError, about


@dataclass(frozen=True, kw_only=True)
class Args(common.RunArguments):
    """Measure the accuracy of a run: of a task by length, of a data file on its held-out rows.

    Examples:
        csprop eval runs/parity
        csprop eval runs/parity --lengths 16,64,1024
        csprop eval runs/parity --exhaustive --lengths 12
    """

    lengths: Annotated[str | None, Arg("LIST", "")] = None
    """Lengths to test, such as 16,64,1024; by default, 1, 2, 4, 16 and 64 times the trained length."""

    exhaustive: common.Flag = False
    """Test every input of each length (at most 2^20 of them) instead of a sample."""

    positions: common.Flag = False
    """Count the answers after all tokens of each sequence, not only those after the last one."""

    data: Annotated[Path | None, Arg("FILE", "")] = None
    """Evaluate on the rows of this file instead."""

    seed: int = 0
    """Seed of the random sample."""


def run(args: Args) -> int:
    from csprop.training.config import check_seed

    check_seed(args.seed)
    if args.data is not None:
        common.check_file(args.data)
    opened = common.open_run(args)
    if args.data is None and opened.task.oracle is not None:
        rows = _by_length(args, opened)
    elif args.lengths or args.exhaustive or args.positions:
        raise InputError(
            "a data file gives the correct class of its rows only: leave out --lengths, "
            "--exhaustive and --positions"
        )
    else:
        rows = [_on_file(opened, args.data)]
    if args.json:
        locked = not isinstance(opened, common.TorchRun) or opened.locked
        found = {"run": str(args.run), "task": opened.task.name, "locked": locked}
        common.show_json(found | {"scores": rows})
    else:
        _show(rows)
    return 0


def _on_file(opened: Any, data: Path | None) -> dict[str, Any]:
    from csprop.tasks import from_file

    if data is not None:
        rows = from_file(data, like=opened.task).data
        return {"over": data.name, **asdict(opened.on_rows(rows))}
    over = f"held-out rows of {opened.task.source}"
    if opened.result is not None and opened.result.made == "learned":
        over = f"rows of {opened.task.source} (not held out: the machine was fitted to all rows)"
    return {"over": over, **asdict(opened.on_rows(opened.held_out()))}


def _by_length(args: Args, opened: Any) -> list[dict[str, Any]]:
    from csprop.training.scores import check_exhaustive

    trained = opened.config.recipe.length
    if args.lengths is not None:
        if not re.fullmatch(r"\s*\d{1,8}\s*(,\s*\d{1,8}\s*)*", args.lengths):
            below = "write whole numbers below 100 million, separated by commas, such as 16,64,1024"
            raise InputError(below, "lengths", args.lengths)
        lengths = list(map(int, args.lengths.split(",")))
    else:
        times = (1,) if args.exhaustive else (1, 2, 4, 16, 64)
        lengths = [opened.task.length_from(trained * each) for each in times]
    with about("lengths", ",".join(map(str, lengths))):  # refused before the work begins
        for length in lengths:
            if args.exhaustive:
                check_exhaustive(opened.task, length)
            opened.task.check_length(length)
    rows, where = [], {"positions": args.positions}
    for length in lengths:
        if args.exhaustive:
            score = opened.exhaustive(length, **where)
        else:
            score = opened.at_length(length, args.seed, **where)
        over = "every input" if args.exhaustive else "a sample"
        rows.append({"over": over, "length": length, **where, **asdict(score)})
    return rows


def _show(rows: list[dict[str, Any]]) -> None:
    from csprop.training.scores import percent

    table = []
    for row in rows:
        length = f"{row['length']:,}" if "length" in row else "as given"
        counts = [f"{row['count']:,}", f"{row['wrong']:,}"]
        table.append([row["over"], length, *counts, percent(row["accuracy"]), f"{row['f1']:.4f}"])
    answers = "positions" if rows[0].get("positions") else "answers"
    common.show_table(["over", "length", answers, "wrong", "accuracy", "F1"], table)
