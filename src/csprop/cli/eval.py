"""`csprop eval`: how well a run does, by length or over every input."""

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
    """Evaluate a run: by length for a task, on the held-out rows for a file."""

    run: Annotated[Path, tyro.conf.Positional, arg(metavar="RUN")]
    """A run directory."""

    lengths: Annotated[str | None, arg(metavar="LIST")] = None
    """Lengths to test, such as 16,64,1024. Default: 1, 2, 4, 16 and 64 times the trained one."""

    exhaustive: common.Flag = False
    """Every input of each length (at most 2^20 of them) instead of a sample."""

    data: Annotated[Path | None, arg(metavar="FILE")] = None
    """Score on the rows of this file instead."""

    as_trained: common.Flag = False
    """The network as training left it, where a certified run has a locked one."""

    seed: int = 0
    """Determines the sample."""

    json: common.Flag = False
    """One JSON document on stdout."""


def parse(argv: list[str]) -> Args:
    return common.parse(Args, "eval", argv)


def run(args: Args) -> int:
    from csprop.runs import load

    loaded = load(args.run)
    model = common.answering(loaded, args.as_trained)
    if args.data or loaded.task.oracle is None:
        if args.lengths or args.exhaustive:
            raise InputError(
                "the truth of a file is known for its rows alone: leave out --lengths and --exhaustive"
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
    parts = [part.strip() for part in text.split(",")]
    if not all(re.fullmatch(r"\d{1,8}", part) for part in parts):
        raise InputError(
            f"--lengths {text!r}: write whole numbers below 100 million with commas between, "
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
