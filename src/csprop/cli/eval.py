"""`csprop eval`: the accuracy of a run, by length or over every input."""

import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

from csprop.cli import common
from csprop.cli.options import Arg
from csprop.errors import InputError, about


@dataclass(frozen=True, kw_only=True)
class Args(common.Arguments):
    """Measure the accuracy of a run: of a task by length, of a data file on its held-out rows.

    Examples:
        csprop eval runs/parity
        csprop eval runs/parity --lengths 16,64,1024
        csprop eval runs/parity --exhaustive --lengths 12
    """

    run: Annotated[Path, Arg("RUN", positional=True)]
    """A run directory, or one of `csprop zoo`, such as zoo:parity."""

    lengths: Annotated[
        str | None,
        Arg("LIST", "(default: 1, 2, 4, 16 and 64 times the trained length)"),
    ] = None
    """Lengths to test, such as 16,64,1024."""

    exhaustive: common.Flag = False
    """Test every input of each length (at most 2^20 of them) instead of a sample."""

    positions: common.Flag = False
    """Count the answers after all tokens of each sequence, not only those after the last one."""

    data: Annotated[Path | None, Arg("FILE", "")] = None
    """Evaluate on the rows of this file instead."""

    as_trained: common.Flag = False
    """Use the model as trained, even if the run is certified."""

    seed: int = 0
    """Seed of the random sample."""


def run(args: Args) -> int:
    from csprop.proof.answers import load_certified
    from csprop.training.config import check_seed

    check_seed(args.seed)
    if args.data is not None:
        common.check_file(args.data, "--data")
    judged = (None if args.as_trained else load_certified(args.run)) or _InTorch(args)
    if isinstance(judged, _InTorch):
        locked = judged.locked
    else:
        locked = True
        common.say_locked(judged)
    if args.data or judged.task.oracle is None:
        if args.lengths or args.exhaustive or args.positions:
            raise InputError(
                "a data file gives the correct class of its rows only: leave out --lengths, "
                "--exhaustive and --positions"
            )
        rows = [_on_file(judged, args.data)]
    else:
        rows = _by_length(args, judged)
    if args.json:
        found = {"run": str(args.run), "task": judged.task.name, "locked": locked}
        common.show_json(found | {"scores": rows})
    else:
        _show(rows)
    return 0


class _InTorch:
    """A run whose model is evaluated by torch; `CertifiedRun` does the same without it."""

    def __init__(self, args: Args) -> None:
        self.run = common.load(args.run)
        self.model = common.answering(self.run, args.as_trained)
        self.task, self.config, self.result = self.run.task, self.run.config, self.run.result
        self.locked = self.model is not self.run.model

    def at_length(self, length: int, seed: int, *, positions: bool) -> Any:
        from csprop.training.metrics import at_length

        return at_length(self.model, self.task, length, seed, positions=positions)

    def exhaustive(self, length: int, *, positions: bool) -> Any:
        from csprop.training.metrics import exhaustive

        return exhaustive(self.model, self.task, length, positions=positions)

    def on_rows(self, rows: Any) -> Any:
        from csprop.training.metrics import score

        return score(self.model, rows)

    def held_out(self) -> Any:
        from csprop.training.batches import training_data

        return training_data(self.task, self.config)[1]


def _on_file(judged: Any, data: Path | None) -> dict[str, Any]:
    from csprop.tasks import from_file

    if data is None:
        source = judged.task.source
        over = f"held-out rows of {source}"
        if judged.result is not None and judged.result.made == "learned":
            over = f"rows of {source} (not held out: the machine was fitted to all rows)"
        return {"over": over, **asdict(judged.on_rows(judged.held_out()))}
    rows = from_file(data, like=judged.task).data
    return {"over": data.name, **asdict(judged.on_rows(rows))}


def _by_length(args: Args, judged: Any) -> list[dict[str, Any]]:
    from csprop.training.scores import check_exhaustive

    trained = judged.config.recipe.length
    if args.lengths is not None:
        lengths = parse_lengths(args.lengths)
    else:
        times = (1,) if args.exhaustive else (1, 2, 4, 16, 64)
        lengths = [judged.task.length_from(trained * each) for each in times]
    with about("lengths", ",".join(map(str, lengths))):  # refused before the work begins
        for length in lengths:
            if args.exhaustive:
                check_exhaustive(judged.task, length)
            judged.task.check_length(length)
    rows, where = [], {"positions": args.positions}
    for length in lengths:
        if args.exhaustive:
            result, over = judged.exhaustive(length, **where), "every input"
        else:
            result, over = judged.at_length(length, args.seed, **where), "a sample"
        rows.append({"over": over, "length": length, **where, **asdict(result)})
    return rows


def parse_lengths(text: str) -> list[int]:
    """Read a list of lengths, such as "16,64,1024".

    Raises:
        InputError: it is not a list of whole numbers below 100 million.
    """
    parts = [part.strip() for part in text.split(",")]
    if not all(re.fullmatch(r"\d{1,8}", part) for part in parts):
        raise InputError(
            f"--lengths {text}: write whole numbers below 100 million, separated by commas, "
            "such as 16,64,1024"
        )
    return [int(part) for part in parts]


def _show(rows: list[dict[str, Any]]) -> None:
    from csprop.training.scores import percent

    answers = "positions" if rows[0].get("positions") else "answers"
    common.show_table(
        ["over", "length", answers, "wrong", "accuracy", "F1"],
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
