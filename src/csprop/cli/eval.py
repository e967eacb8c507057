"""`csprop eval`: the accuracy of a run, by length or over every input."""

import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro
from tyro.conf import arg

from csprop.cli import common
from csprop.errors import InputError


@dataclass(frozen=True, kw_only=True)
class Args:
    """Evaluate a run: a task by length, a data file on its held-out rows."""

    run: Annotated[Path, tyro.conf.Positional, arg(metavar="RUN")]
    """A run directory."""

    lengths: Annotated[
        str | None,
        arg(
            metavar="LIST",
            help_behavior_hint="(default: 1, 2, 4, 16 and 64 times the trained length)",
        ),
    ] = None
    """Lengths to test, such as 16,64,1024."""

    exhaustive: common.Flag = False
    """Test every input of each length (at most 2^20 of them) instead of a sample."""

    data: Annotated[Path | None, arg(metavar="FILE", help_behavior_hint="")] = None
    """Evaluate on the rows of this file instead."""

    as_trained: common.Flag = False
    """Use the model as trained, even if the run is certified."""

    seed: int = 0
    """Seed of the random sample."""

    json: common.Flag = False
    """Print one JSON document on stdout."""


def parse(argv: list[str]) -> Args:
    return common.parse(Args, "eval", argv)


def run(args: Args) -> int:
    from csprop.runs import load

    loaded = load(args.run)
    model = common.answering(loaded, args.as_trained)
    if args.data or loaded.task.oracle is None:
        if args.lengths or args.exhaustive:
            raise InputError(
                "a data file gives the correct class of its rows only: leave out --lengths and "
                "--exhaustive"
            )
        rows = [_on_file(loaded, model, args.data)]
    else:
        rows = _by_length(args, loaded, model)
    if args.json:
        found = {"run": str(args.run), "task": loaded.task.name, "locked": model is not loaded.model}
        common.show_json(found | {"scores": rows})
    else:
        _show(rows)
    return 0


def _on_file(run: Any, model: Any, data: Path | None) -> dict[str, Any]:
    from csprop.tasks import from_file
    from csprop.training.metrics import score
    from csprop.training.session import training_data

    if data is None:
        over = f"held-out rows of {run.task.source}"
        if run.made == "learned":
            over = f"rows of {run.task.source} (not held out: the machine was fitted to all rows)"
        return {"over": over, **asdict(score(model, training_data(run.task, run.config)[1]))}
    rows = from_file(data, like=run.task).data
    return {"over": data.name, **asdict(score(model, rows))}


def _by_length(args: Args, run: Any, model: Any) -> list[dict[str, Any]]:
    from csprop.training.metrics import at_length, check_exhaustive, exhaustive

    trained = run.config.recipe.length
    if args.lengths is not None:
        lengths = parse_lengths(args.lengths)
    else:
        lengths = [trained] if args.exhaustive else [trained * times for times in (1, 2, 4, 16, 64)]
    for length in lengths:  # refuse before the work begins
        if args.exhaustive:
            check_exhaustive(run.task, length)
        run.task.check_length(length)
    rows = []
    for length in lengths:
        if args.exhaustive:
            result, over = exhaustive(model, run.task, length), "every input"
        else:
            result, over = at_length(model, run.task, length, args.seed), "a sample"
        rows.append({"over": over, "length": length, **asdict(result)})
    return rows


def parse_lengths(text: str) -> list[int]:
    """Read a list of lengths, such as "16,64,1024".

    Raises:
        InputError: it is not a list of whole numbers below 100 million.
    """
    parts = [part.strip() for part in text.split(",")]
    if not all(re.fullmatch(r"\d{1,8}", part) for part in parts):
        raise InputError(
            f"--lengths {text!r}: write whole numbers below 100 million, separated by commas, "
            "such as 16,64,1024"
        )
    return [int(part) for part in parts]


def _show(rows: list[dict[str, Any]]) -> None:
    from csprop.training.metrics import percent

    common.show_table(
        ["over", "length", "answers", "wrong", "accuracy", "F1"],
        [
            [
                row["over"],
                f"{row['length']:,}" if "length" in row else "as given",
                f"{row['count']:,}",
                f"{row['wrong']:,}",
                percent(row["accuracy"]),
                f"{row['f1']:.4f}",
            ]
            for row in rows
        ],
    )
