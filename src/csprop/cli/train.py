"""`csprop train`: train a model on a task or on a data file."""

import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from functools import partial
from multiprocessing import parent_process
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from csprop import progress
from csprop.cells.options import Paper, Rotor, Router
from csprop.cli import common, options
from csprop.cli.options import Arg
from csprop.errors import Diverged, InputError
from csprop.fields import check_ranges
from csprop.nn.config import Architecture
from csprop.training.checkpoint import DIAGNOSIS
from csprop.training.config import RunConfig, configure
from csprop.training.presets import Needs, Recipe, preset

if TYPE_CHECKING:
    from csprop.runs.run import Run


@dataclass(frozen=True, kw_only=True)
class Args(common.Arguments):
    """Train a model on a built-in task, or on labelled sequences of your own.

    A model that has learned is then locked and proven, if that takes only seconds. The defaults shown
    are those of the preset and the task.

    Examples:
        csprop train parity
        csprop train group-S5 --seeds 0-4 --out runs/s5
        csprop train --data events.jsonl --epochs 60
    """

    task: Annotated[str | None, Arg("TASK", "", positional=True)] = None
    """A built-in task, such as parity, mod3 or group-S5. `csprop tasks` lists them."""

    data: Annotated[Path | None, Arg("FILE", "")] = None
    """Labelled sequences of your own instead of a task: a .jsonl, .csv or .tsv file."""

    preset: Annotated[
        Literal["rotor", "router", "counter", "tracker", "paper"] | None,
        Arg("NAME", "(default: the one that suits the task)"),
    ] = None
    """The kind of model. rotor: states that rotate; router: states that are places, for any finite
    machine; counter: whole numbers, for what no finite machine solves; tracker: heads of all kinds,
    without a hint. These are made to be certified. paper: the model as printed."""

    seed: Annotated[int | None, Arg(hint="(default: 0)")] = None
    """Seed of the data, the split, the initial weights and the order of examples."""

    seeds: Annotated[str | None, Arg("LIST", "")] = None
    """Train several seeds together, one run for each: a list such as 0-9 or 0,3,5."""

    workers: Annotated[int | None, Arg("N", "(default: one per core)")] = None
    """Number of processes that share the seeds."""

    out: Annotated[Path | None, Arg("DIR", "(default: runs/TASK)")] = None
    """Run directory to write; with --seeds, the directory that holds the runs."""

    resume: common.Flag = False
    """Continue the run in --out from the last epoch that it has completed."""

    as_trained: common.Flag = False
    """Do not look for a proof once the model has learned; `csprop certify` does so at any time."""

    changes: dict[str, Any] = field(default_factory=dict, metadata={"flag": False})
    """The options of `GROUPS` that differ from the preset."""


GROUPS: dict[str, type] = {
    "The model": Architecture,
    "Its layers with --preset paper; z is the input of a block, h its state, printed: as in the "
    "paper": Paper,
    "Its layers with --preset rotor": Rotor,
    "Its layers with --preset router": Router,
    "Training": Recipe,
}
"""More options, by their heading in `--help-all`."""
SHORT = {
    "What to learn": ("task", "data", "length", "samples"),
    "The model": ("preset", "width", "depth"),
    "Training": ("epochs", "lr", "seed", "seeds"),
    "The run": ("out", "resume", "as_trained", "json"),
}
"""The options that `--help` shows; `--help-all` shows all."""


def parse(argv: list[str]) -> Args:
    usage = ("TASK", "--data FILE")
    values = options.parse(
        Args, "train", argv, groups=GROUPS, defaults=_list_defaults, usage=usage, short=SHORT
    )
    known = {each.name for each in fields(Args)}
    changes = {name: values.pop(name) for name in [*values] if name not in known}
    if {"resume", "out"} <= values.keys() and not values.keys() & {"task", "data", "seeds"}:
        stored, stored_changes = _read_stored(values["out"])
        values, changes = stored | values, stored_changes | changes
    return Args(**values, changes=changes)


def _list_defaults(values: dict[str, Any]) -> dict[str, Any]:
    """Return the defaults of the preset and the task, for help."""
    from csprop.tasks import RowsTask, Task, get

    task: Needs = RowsTask if "data" in values else Task
    with suppress(InputError):  # an unknown task is reported without --help
        task = get(values["task"]) if "task" in values else task
    chosen = preset(values.get("preset", task.preset), task)
    cell = {} if chosen.model.cells else vars(chosen.model.cell)
    return {**vars(chosen.model), **cell, **vars(chosen.recipe)}


def _read_stored(out: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the arguments that a run was started with, and its options."""
    from csprop.training.stored import stored_config

    config = stored_config(out)
    task, model = config.task, config.model
    source = {"data": out / task["data"]} if "data" in task else {"task": task["name"]}
    layers = {"cells": model.cells} if model.cells else {"cell": model.cell, "depth": model.depth}
    changes = {"width": model.width, "decoder": model.decoder, **layers, **asdict(config.recipe)}
    return source | {"preset": config.preset, "seed": config.seed}, changes


def run(args: Args) -> int:
    from csprop.runs.training import train, train_seeds
    from csprop.training.workers import parse_seeds, suggest_workers

    task, config = _configure(args)
    if task.oracle is None:
        common.say_rows(task)
    out = args.out or Path("runs") / task.name
    settings: Any = {"preset": args.preset, "out": out, "resume": args.resume, **args.changes}
    settings["as_trained"] = args.as_trained
    say = partial(_say_epoch, task.name, config.recipe.epochs)
    if args.seeds is not None:
        seeds = parse_seeds(args.seeds)
        workers = args.workers or suggest_workers(len(seeds))
        outcomes = train_seeds(task, seeds, on_epoch=say, workers=workers, **settings)
        paths = [out / f"seed-{seed}" for seed in seeds]
        return _finish(args, config, list(zip(paths, outcomes, strict=True)))
    settings["on_epoch"] = lambda row: say({config.seed: row})
    try:
        outcome = train(task, seed=config.seed, **settings)
    except Diverged as error:
        outcome = error
    return _finish(args, config, [(out, outcome)])


def _configure(args: Args) -> tuple[Any, RunConfig]:
    """Return the task and the configuration, after options that exclude each other are refused."""
    from csprop.tasks import resolve

    if args.resume and args.out is None and args.task is None and args.data is None:
        raise InputError("--resume needs the run to continue: add --out DIR")
    if (args.task is None) == (args.data is None):
        raise InputError("give either a TASK, such as parity, or --data FILE")
    if args.seeds is not None and args.seed is not None:
        raise InputError("--seed and --seeds exclude each other: leave one of them out")
    check_ranges(args, workers=(1, 1024))
    if args.workers is not None and args.seeds is None:
        raise InputError(
            "--workers needs several seeds: add --seeds, such as --seeds 0-9, or leave it out"
        )
    if args.data is not None:
        common.check_file(args.data)
    task = resolve(args.data or args.task or "")
    return task, configure(task, args.preset, args.seed or 0, **args.changes)


def _say_epoch(task: str, epochs: int, rows: Mapping[int, progress.Epoch]) -> None:
    """Say how the worst seed did in an epoch, unless a bar on a terminal shows it."""
    if sys.stderr.isatty() and parent_process() is None:  # several processes have no bar
        return
    from csprop.training.workers import label_seeds, worst_row

    row = worst_row(rows)
    common.say(
        f"{label_seeds(task, list(rows))}  epoch {row['epoch']:>3}/{epochs}  {progress.summary(row)}  "
        f"f1 {row['f1']:.3f}  {row['seconds']:.1f} s"
    )


def _finish(args: Args, config: RunConfig, outcomes: "list[tuple[Path, Run | Diverged]]") -> int:
    """Print how each run ended, and return the exit code."""
    documents, rows, hints = [], [], []
    for path, outcome in outcomes:
        document = {"task": config.task["name"], "preset": config.preset, "run": str(path)}
        if isinstance(outcome, Diverged):
            common.say(f"csprop train: {outcome}; see {path}/{DIAGNOSIS}")
            seed = outcome.diagnosis["seed"]
            documents.append(document | {"seed": seed, "diverged": str(outcome)})
            continue
        result, seed, because = outcome.result, outcome.config.seed, outcome.torch_because
        assert result is not None
        common.say(f"{config.task['name']} seed {seed}: trained until {result.ended}")
        if because:
            common.say(f"its steps were torch operations: {because}")
        document |= {"seed": seed, "torch_because": because, **result.to_json()}
        documents.append(document | {"proven": outcome.proven, "verdict": outcome.verdict or None})
        if outcome.verdict:
            how = f"; `csprop certify {path}` looks without a limit of time, and says what to try"
            verdict = outcome.verdict + ("" if outcome.proven else how)
            common.say(f"{config.task['name']} seed {seed}: {verdict}")
        rows.append(_make_row(path, outcome))
        hints += _list_hints(path, config, result)
    if args.json:
        common.show_json(documents if args.seeds else documents[0])
    elif rows:
        common.show_table(["run", "at target", "epochs", "held-out", "every input", "proven"], rows)
    for hint in hints:
        common.say(hint)
    target = config.recipe.target
    missed = target is not None and any(document.get("accuracy", 0) < target for document in documents)
    return int(missed or len(rows) < len(outcomes))


def _make_row(path: Path, run: Any) -> list[str]:
    from csprop.training.scores import percent

    result, proven = run.result, "yes" if run.proven else "no" if run.verdict else "not tried"
    every, wrong = result.exhaustive, result.exhaustive and result.exhaustive.wrong
    tested = "not tested" if every is None else f"{wrong:,} wrong" if wrong else f"all {every.count:,}"
    first = str(result.first_epoch_at_target or "never")
    return [str(path), first, str(result.epochs), percent(result.accuracy), tested, proven]


def _list_hints(path: Path, config: RunConfig, result: Any) -> list[str]:
    """Return sentences about a run that has not learned, or not all, and what to try."""
    from csprop.training.scores import percent

    recipe, majority, hints = config.recipe, result.majority, []
    if not result.learned and majority is not None:
        other = "another preset, such as --preset router, or "
        how = "add --resume" if recipe.schedule != "cosine" else "choose another --out, and add"
        hints.append(
            f"{path}: has not learned: {percent(result.accuracy)} of the held-out answers are right, "
            f"and always answering {majority.name!r} gives {percent(majority.share)}; try "
            f"{'' if config.preset in ('router', 'counter') else other}"
            f"more epochs: {how} --epochs {2 * recipe.epochs}"
        )
    elif "data" in config.task and result.accuracy < 1 and config.preset == "rotor":
        hints.append(
            f"{path}: some held-out rows are misclassified; a router can be any finite machine: "
            "try --preset router"
        )
    if recipe.target is not None and result.accuracy < recipe.target:
        hints.append(
            f"{path}: held-out accuracy {result.accuracy:.2%} is below the target {recipe.target:.2%}"
        )
    return hints
