"""`csprop train`: train a model on a task or on a data file."""

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, Literal

from csprop.cells.options import BUILT_IN, Cell, Paper, Rotor, Router
from csprop.cli import common
from csprop.cli.options import Arg
from csprop.errors import InputError
from csprop.nn.config import Architecture
from csprop.training.config import check_options
from csprop.training.presets import Asking, Plain, Recipe, preset


@dataclass(frozen=True, kw_only=True)
class Args:
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

    json: common.Flag = False
    """Print one JSON document on stdout."""

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
    """What the options are that were not given: those of the run, or of the task and the preset."""
    if {"resume", "out"} <= given.keys() and not given.keys() & {"task", "data", "seeds"}:
        return Args(**_stored(given["out"]))
    asking = Plain(preset="router") if "data" in given else _asking(given.get("task"))
    name = given.get("preset", asking.preset)
    chosen = preset(name, asking)
    check_options(name, chosen.model, given.keys() & {*CELL_OPTIONS, "depth"})
    options: Any = {"preset": asking.preset, "model": chosen.model, "recipe": chosen.recipe}
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


def _asking(name: str | None) -> Asking:
    """The task, which decides some defaults; an unknown name is reported later."""
    if name is None:
        return Plain()
    from csprop.data.formats import SUFFIXES
    from csprop.tasks import get

    if Path(name).suffix in SUFFIXES:
        return Plain(preset="router")  # a file, as with --data
    try:
        return get(name)
    except InputError:
        return Plain()


def _stored(out: Path) -> dict[str, Any]:
    """The arguments that a run was started with."""
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
        _refuse(args)
        return _train(args)
    from csprop.training.workers import check_torchrun

    check_torchrun()
    from csprop.training.distributed import Elsewhere, joined

    with joined() as group:
        try:
            with group.agreed():
                _refuse(args)
            return _train(args, group)
        except Elsewhere:  # the first process says why
            return 2


def _refuse(args: Args) -> None:
    """Refuse options that exclude each other."""
    if args.resume and args.out is None and args.task is None and args.data is None:
        raise InputError("--resume needs the run to continue: add --out DIR")
    if (args.task is None) == (args.data is None):
        raise InputError("give either a TASK, such as parity, or --data FILE")
    if args.seeds is not None and args.seed is not None:
        raise InputError("--seed and --seeds exclude each other: leave one of them out")
    if args.workers is not None and not 1 <= args.workers <= 1024:
        raise InputError(f"--workers {args.workers}: write 1 to 1024")
    if args.workers is not None and args.seeds is None:
        raise InputError(
            "--workers needs several seeds: add --seeds, such as --seeds 0-9, or leave it out"
        )
    if args.distributed and args.seeds is not None:
        raise InputError(
            "--distributed trains one seed: write --seed N, or leave out --distributed and torchrun, "
            "and --workers N processes share the seeds"
        )


def _train(args: Args, group: Any = None) -> int:
    """Train, alone or as one of a group of processes, of which the first alone speaks."""
    from csprop.tasks import resolve
    from csprop.training.checkpoint import refuse_existing, refuse_zoo
    from csprop.training.seeds import parse_seeds, share_out, train

    first = group is None or group.rank == 0
    with nullcontext() if group is None else group.agreed():
        if args.data is not None:
            common.check_file(args.data, "--data")
        named = args.data or args.task or ""
        task = resolve(named)
        if task.oracle is None and first:
            for line in _summary(task):
                common.say(line)
        out = args.out or Path("runs") / task.name
        outs = {args.seed or 0: out}
        if args.seeds is not None:
            outs = {seed: out / f"seed-{seed}" for seed in parse_seeds(args.seeds)}
        _check(args, task, next(iter(outs)))
        if first:
            (refuse_zoo if args.resume else refuse_existing)(outs.values())
    if args.seeds is None:
        results = train(work(args, task, outs), common.progress, group=group)
    else:  # every process reads the task for itself
        results = share_out(work(args, named, outs), common.progress, args.workers)
    if not first:
        return 0
    say_how_they_ended(results)
    if args.json:
        common.show_json(results if args.seeds else results[0])
    else:
        show(results)
    _hint(args, results)
    return int(any(_missed(args, result) for result in results))


def _check(args: Args, task: Any, seed: int) -> None:
    """Refuse what training would refuse, before it imports torch."""
    from csprop.tasks.pairs import check_share
    from csprop.training.config import configure

    recipe = configure(task, args.preset, seed, **options_of(args)).recipe
    if task.oracle is not None:
        with common.named("--length", recipe.length):
            task.check_length(recipe.length)
    if recipe.hold_pairs:
        check_share(task, recipe.hold_pairs)


def work(args: Args, task: Any, outs: dict[int, Path]) -> Any:
    """The training job that the arguments describe.

    Args:
        args: the parsed arguments.
        task: a task, its name, or a data file.
        outs: the run directory of each seed.
    """
    from csprop.training.seeds import Seeds

    return Seeds(task, args.preset, options_of(args), outs, args.resume)


def say_how_they_ended(results: list[dict[str, Any]]) -> None:
    """Print, for each run, why training ended."""
    for result in results:
        if "diverged" in result:
            details = f"see {result['run']}/diagnosis.json"
            common.say(f"csprop train: {result['diverged']}; {details}")
        else:
            common.say(f"{result['task']} seed {result['seed']}: trained until {result['ended']}")
            if result["torch_because"]:
                common.say(f"its steps were torch operations: {result['torch_because']}")


def _hint(args: Args, results: list[dict[str, Any]]) -> None:
    """Print which runs have not learned, and what to try."""
    from csprop.training.scores import percent

    how = "add --resume" if args.recipe.schedule != "cosine" else "choose another --out, and add"
    epochs = f"more epochs: {how} --epochs {2 * args.recipe.epochs}"
    suits = args.preset in ("router", "counter")
    other = "" if suits else "another preset, such as --preset router, or "
    for result in results:
        if not result.get("learned", True):
            share, always = percent(result["commonest"]["share"]), result["commonest"]["class"]
            common.say(
                f"{result['run']}: has not learned: {percent(result['accuracy'])} of the held-out "
                f"answers are right, and always answering {always!r} gives {share}; try {other}{epochs}"
            )
    misclassified = any(result.get("learned") and result["accuracy"] < 1 for result in results)
    if args.data and misclassified and args.preset == "rotor":
        common.say(
            "csprop train: some held-out rows are misclassified; a router can be any finite machine: "
            "try --preset router"
        )


def _summary(task: Any) -> Iterator[str]:
    """The size, tokens and classes of a file, so that a misspelt one is noticed before training."""
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


def _missed(args: Args, result: dict[str, Any]) -> bool:
    if "diverged" in result:
        return True
    target = args.recipe.target
    if target is None or result["accuracy"] >= target:
        return False
    common.say(
        f"{result['run']}: held-out accuracy {result['accuracy']:.2%} is below the target {target:.2%}"
    )
    return True


def show(results: list[dict[str, Any]]) -> None:
    """Print a table with a row for each run."""
    from csprop.training.scores import percent

    trained = [result for result in results if "accuracy" in result]
    if not trained:
        return
    rows = [
        [
            result["run"],
            str(result["first_epoch_at_target"] or "never"),
            str(result["epochs"]),
            percent(result["accuracy"]),
            f"{result['f1']:.4f}",
            _every(result["exhaustive"]),
        ]
        for result in trained
    ]
    common.show_table(["run", "at target", "epochs", "held-out", "F1", "every input"], rows)


def _every(score: dict[str, Any] | None) -> str:
    if score is None:
        return "not tested"
    return f"{score['wrong']:,} wrong" if score["wrong"] else f"all {score['count']:,}"
