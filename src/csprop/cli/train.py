"""`csprop train`: train a model on a task or on a data file.

The file has over 300 lines because the options of every kind of model meet here.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from csprop.cells.options import BUILT_IN, Cell, Paper, Rotor, Router
from csprop.cli import common
from csprop.cli.options import Arg
from csprop.errors import Diverged, InputError
from csprop.nn.config import Architecture
from csprop.training.checkpoint import DIAGNOSIS
from csprop.training.config import check_options
from csprop.training.presets import Needs, Recipe, preset

if TYPE_CHECKING:
    from csprop.runs.run import Run
    from csprop.training.result import Result


@dataclass(frozen=True, kw_only=True)
class Args(common.Arguments):
    """Train a model on a built-in task, or on labelled sequences of your own.

    The defaults shown are those of the preset and the task.

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
        Literal["rotor", "router", "counter", "paper"],
        Arg("NAME", "(default: the one that suits the task)"),
    ] = "rotor"
    """The kind of model. rotor: states that rotate; router: states that are places, for any finite
    machine; counter: whole numbers, for what no finite machine solves. These three are made to be
    certified. paper: the model as printed."""

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

    distributed: common.Flag = False
    """Share every batch with the other processes that torchrun has started, on one machine or several:
    torchrun --nproc-per-node 2 -m csprop train TASK --distributed."""

    model: Architecture = field(default_factory=Architecture)
    paper: Paper = field(default_factory=Paper)
    rotor: Rotor = field(default_factory=Rotor)
    router: Router = field(default_factory=Router)
    recipe: Recipe = field(default_factory=Recipe)


FLAGS = ("paper", "rotor", "router")
"""Kinds of cell that have options."""
CELL_OPTIONS = {each.name for kind in FLAGS for each in fields(BUILT_IN[kind])}
USAGE = ("TASK", "--data FILE")
SHORT = {
    "What to learn": ("task", "data", "length", "samples"),
    "The model": ("preset", "width", "depth"),
    "Training": ("epochs", "lr", "seed", "seeds"),
    "The run": ("out", "resume", "json"),
}
"""The options that `--help` shows; `--help-all` shows all."""


def parse(argv: list[str]) -> Args:
    return common.parse(Args, "train", argv, _defaults, usage=USAGE, short=SHORT)


def _defaults(given: dict[str, Any]) -> Args:
    """Return the defaults: the options of a run that is resumed, or of the task and the preset."""
    if {"resume", "out"} <= given.keys() and not given.keys() & {"task", "data", "seeds"}:
        stored = Args(**_stored(given["out"]))
        check_options(stored.preset, stored.model, given.keys() & {*CELL_OPTIONS, "depth"})
        return stored
    task = _find_needs(given)
    name = given.get("preset", task.preset)
    chosen = preset(name, task)
    check_options(name, chosen.model, given.keys() & {*CELL_OPTIONS, "depth"})
    options: Any = {"preset": task.preset, "model": chosen.model, "recipe": chosen.recipe}
    return Args(**options, **_cell_flags(chosen.model))


def _cell_flags(model: Architecture) -> dict[str, Any]:
    """Return the cell of a model under the name of its group of flags, if it has flags."""
    return {model.cell.kind: model.cell} if model.cell.kind in FLAGS and not model.cells else {}


def options_of(args: Args) -> dict[str, Any]:
    """Return the options of the model and of training, as `csprop.train` takes them."""
    model = args.model
    cell: Cell = getattr(args, model.cell.kind) if model.cell.kind in FLAGS else model.cell
    layers = {"cells": model.cells} if model.cells else {"cell": cell, "depth": model.depth}
    return {"width": model.width, "decoder": model.decoder, **layers, **asdict(args.recipe)}


def _find_needs(given: dict[str, Any]) -> Needs:
    """Return the task, which decides some defaults; an unknown name is reported later."""
    from csprop.data.formats import SUFFIXES
    from csprop.tasks import RowsTask, Task, get

    name = given.get("task", "")
    if "data" in given or Path(name).suffix in SUFFIXES:
        return RowsTask
    try:
        return get(name)
    except InputError:
        return Task


def _stored(out: Path) -> dict[str, Any]:
    """Return the arguments that a run was started with."""
    from csprop.training.stored import stored_config

    config = stored_config(out)
    own = (each.name for each in fields(Architecture))
    model = Architecture(**{name: getattr(config.model, name) for name in own})
    described = config.task
    return {
        "task": None if "data" in described else described["name"],
        "data": out / described["data"] if "data" in described else None,
        "preset": config.preset,
        "seed": config.seed,
        "model": model,
        **_cell_flags(model),
        "recipe": config.recipe,
    }


def run(args: Args) -> int:
    if not args.distributed:
        return _train(args, _read_task(args))
    from csprop.training.workers import check_torchrun

    check_torchrun()
    from csprop.training.distributed import Elsewhere, joined

    try:
        with joined() as group:
            with group.agreed():
                task = _read_task(args)
            return _train(args, task, speaks=group.rank == 0)
    except Elsewhere:  # the first process says why
        return 2


def _read_task(args: Args) -> Any:
    """Return the task, after options that exclude each other are refused."""
    from csprop.tasks import resolve

    if args.resume and args.out is None and args.task is None and args.data is None:
        raise InputError("--resume needs the run to continue: add --out DIR")
    if (args.task is None) == (args.data is None):
        raise InputError("give either a TASK, such as parity, or --data FILE")
    if args.seeds is not None and args.seed is not None:
        raise InputError("--seed and --seeds exclude each other: leave one of them out")
    if args.workers is not None and not 1 <= args.workers <= 1024:
        raise InputError("write 1 to 1024", "workers", args.workers)
    if args.workers is not None and args.seeds is None:
        raise InputError(
            "--workers needs several seeds: add --seeds, such as --seeds 0-9, or leave it out"
        )
    if args.distributed and args.seeds is not None:
        raise InputError(
            "--distributed trains one seed: write --seed N, or leave out --distributed and torchrun, "
            "and --workers N processes share the seeds"
        )
    if args.data is not None:
        common.check_file(args.data, "--data")
    return resolve(args.data or args.task or "")


def _train(args: Args, task: Any, speaks: bool = True) -> int:
    """Train; of several processes that train one model, the first alone speaks."""
    from csprop.runs.training import train, train_seeds
    from csprop.training.workers import parse_seeds, suggest_workers

    if task.oracle is None and speaks:
        for line in _summarise(task):
            common.say(line)
    out = args.out or Path("runs") / task.name
    options: dict[str, Any] = {"preset": args.preset, "resume": args.resume}
    options |= options_of(args)
    say = partial(common.say_epoch, task.name, args.recipe.epochs)
    if args.seeds is None:
        paths, seed = [out], args.seed or 0
        options["on_epoch"] = (lambda row: say({seed: row})) if speaks else (lambda row: None)
        try:
            outcomes: list[Any] = [
                train(task, seed=seed, out=out, distributed=args.distributed, **options)
            ]
        except Diverged as error:
            outcomes = [error]
    else:
        seeds = parse_seeds(args.seeds)
        paths = [out / f"seed-{seed}" for seed in seeds]
        workers = args.workers or suggest_workers(len(seeds))
        outcomes = train_seeds(task, seeds, out=out, on_epoch=say, workers=workers, **options)
    if not speaks:
        return 0
    return _tell(args, task, list(zip(paths, outcomes, strict=True)))


def _tell(args: Args, task: Any, outcomes: "list[tuple[Path, Run | Diverged]]") -> int:
    """Print how each run ended, and return the exit code."""
    trained = {path: each for path, each in outcomes if not isinstance(each, Diverged)}
    for path, each in outcomes:
        if isinstance(each, Diverged):
            common.say(f"csprop train: {each}; see {path}/{DIAGNOSIS}")
        elif each.result is not None:
            seed = each.config.seed
            common.say(f"{task.name} seed {seed}: trained until {each.result.ended}")
            if each.torch_because:
                common.say(f"its steps were torch operations: {each.torch_because}")
    results = {path: each.result for path, each in trained.items() if each.result is not None}
    if args.json:
        documents = [_document(args, task, path, each) for path, each in outcomes]
        common.show_json(documents if args.seeds else documents[0])
    elif results:
        _show(results)
    for path, result in results.items():
        _hint(args, path, result)
    missed = [path for path, result in results.items() if _misses(args, path, result)]
    return int(bool(missed) or len(trained) < len(outcomes))


def _document(args: Args, task: Any, path: Path, outcome: "Run | Diverged") -> dict[str, Any]:
    document = {"task": task.name, "preset": args.preset, "seed": args.seed or 0, "run": str(path)}
    if isinstance(outcome, Diverged):
        return document | {"seed": outcome.diagnosis["seed"], "diverged": str(outcome)}
    result = {} if outcome.result is None else outcome.result.to_json()
    own = {"seed": outcome.config.seed, "torch_because": outcome.torch_because}
    return document | own | result


def _hint(args: Args, path: Path, result: "Result") -> None:
    """Say that a run has not learned, or has not learned all, and what to try."""
    from csprop.training.scores import percent

    how = "add --resume" if args.recipe.schedule != "cosine" else "choose another --out, and add"
    epochs = f"more epochs: {how} --epochs {2 * args.recipe.epochs}"
    suits = args.preset in ("router", "counter")
    other = "" if suits else "another preset, such as --preset router, or "
    majority = result.majority
    if not result.learned and majority is not None:
        common.say(
            f"{path}: has not learned: {percent(result.accuracy)} of the held-out answers are right, "
            f"and always answering {majority.name!r} gives {percent(majority.share)}; try "
            f"{other}{epochs}"
        )
    elif args.data and result.accuracy < 1 and args.preset == "rotor":
        common.say(
            f"{path}: some held-out rows are misclassified; a router can be any finite machine: "
            "try --preset router"
        )


def _summarise(task: Any) -> Iterator[str]:
    """Yield the size, tokens and classes of a file: a misspelt one is noticed before training."""
    from csprop.automata.names import join_names

    yield (
        f"{task.source}: {len(task.data)} rows; tokens {join_names(task.vocab)}; "
        f"classes {join_names(task.classes)}"
    )
    if count := task.summary.contradictions:
        sequences = "1 sequence occurs" if count == 1 else f"{count:,} sequences occur"
        yield (
            f"{task.source}: {sequences} with different labels, in "
            f"{task.summary.contradicting_rows:,} rows: some of these labels are wrong"
        )


def _misses(args: Args, path: Path, result: "Result") -> bool:
    """Return True, and say so, if the accuracy is below --target."""
    target = args.recipe.target
    if target is None or result.accuracy >= target:
        return False
    common.say(f"{path}: held-out accuracy {result.accuracy:.2%} is below the target {target:.2%}")
    return True


def _show(results: "dict[Path, Result]") -> None:
    """Print a table with a row for each run."""
    from csprop.training.scores import percent

    rows = [
        [
            str(path),
            str(each.first_epoch_at_target or "never"),
            str(each.epochs),
            percent(each.accuracy),
            f"{each.f1:.4f}",
            _show_every(each),
        ]
        for path, each in results.items()
    ]
    common.show_table(["run", "at target", "epochs", "held-out", "F1", "every input"], rows)


def _show_every(result: "Result") -> str:
    if result.exhaustive is None:
        return "not tested"
    wrong, count = result.exhaustive.wrong, result.exhaustive.count
    return f"{wrong:,} wrong" if wrong else f"all {count:,}"
