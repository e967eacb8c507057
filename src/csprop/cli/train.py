"""`csprop train`: a model from a task or a file."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

import tyro
from tyro.conf import arg

from csprop.cli import common
from csprop.errors import InputError
from csprop.nn.config import ModelOptions
from csprop.training.presets import PRESETS, Asking, Plain, Preset, Recipe, preset


@dataclass(frozen=True, kw_only=True)
class Args:
    """Train a model. The defaults shown are those of the preset."""

    task: Annotated[str | None, tyro.conf.Positional, arg(metavar="TASK")] = None
    """A task, such as parity, mod3, parenthesis or group-S5 (`csprop tasks` lists them)."""

    data: Annotated[Path | None, arg(metavar="FILE")] = None
    """Your own labelled sequences instead: .jsonl, .csv or .tsv."""

    preset: Literal["rotor", "paper"] = "rotor"
    """`rotor`, the exact family, or `paper`, as printed."""

    seed: int | None = None
    """Determines data, split, first weights and order. Default: 0."""

    seeds: Annotated[str | None, arg(metavar="LIST")] = None
    """Several seeds, one run each, trained together: 0-9 or 0,3,5."""

    workers: Annotated[int | None, arg(metavar="N")] = None
    """Processes that share the seeds. Default: one for each core."""

    out: Annotated[Path | None, arg(metavar="DIR")] = None
    """Run directory; with --seeds, one below it for each. Default: runs/TASK."""

    resume: common.Flag = False
    """Go on with the run in --out from its last finished epoch."""

    json: common.Flag = False
    """One JSON document on stdout."""

    model: ModelOptions = field(default_factory=ModelOptions)
    recipe: Recipe = field(default_factory=Recipe)


def parse(argv: list[str]) -> Args:
    seen = _glance(argv)
    defaults: dict[str, Any] = {}
    if {"resume", "out"} <= seen.keys() and not seen.keys() & {"task", "data", "seeds", "help", "h"}:
        defaults = _stored(Path(seen["out"]))
    else:
        name = seen.get("preset", "rotor")
        chosen = preset(name, _asking(seen.get("task"))) if name in PRESETS else Preset()
        defaults = {"model": chosen.model, "recipe": chosen.recipe}
    return common.parse(Args, "train", argv, Args(**defaults))


def _asking(name: str | None) -> Asking:
    """The task, which has a say in the defaults; a wrong name is met with later."""
    if name is None:
        return Plain()
    from csprop.tasks import get

    try:
        return get(name)
    except InputError:
        return Plain()


def _stored(out: Path) -> dict[str, Any]:
    """The arguments that a run was started with."""
    from csprop.training.load import stored_config

    config = stored_config(out)
    options = {each.name: getattr(config.model, each.name) for each in fields(ModelOptions)}
    described = config.task
    return {
        "task": None if "data" in described else described["name"],
        "data": Path(described["data"]) if "data" in described else None,
        "preset": config.preset,
        "seed": config.seed,
        "model": ModelOptions(**options),
        "recipe": config.recipe,
    }


def _glance(argv: Sequence[str]) -> dict[str, str]:
    """What decides the defaults, before the options themselves can be read."""
    switches = [name for name, hint in get_type_hints(ModelOptions).items() if hint is bool]
    flags = {"resume", "json", "help", "h", *switches, *(f"no-{name}" for name in switches)}
    seen, rest = {}, iter(argv)
    for word in rest:
        if not word.startswith("-"):
            seen["task"] = word
            continue
        name, given, value = word.lstrip("-").partition("=")
        name = name.replace("_", "-")
        seen[name] = value if given else "yes" if name in flags else next(rest, "")
    return seen


def run(args: Args) -> int:
    if args.resume and args.out is None and args.task is None and args.data is None:
        raise InputError("--resume needs to know the run: add --out DIR")
    if (args.task is None) == (args.data is None):
        raise InputError("say what to learn: a TASK (such as parity) or --data FILE, not both")
    if args.seeds is not None and args.seed is not None:
        raise InputError("--seeds and --seed both say which seed: leave one of them out")
    if args.workers is not None and not 1 <= args.workers <= 1024:
        raise InputError(f"--workers {args.workers}: write 1 to 1024")
    if args.workers is not None and args.seeds is None:
        raise InputError("--workers shares out seeds: add --seeds 0-9, or leave it out")
    from csprop.tasks import resolve
    from csprop.training.seeds import parse_seeds, share_out, train

    named = args.data or args.task or ""
    task = resolve(named)
    if task.oracle is None:
        common.say(_summary(task))
    out = args.out or Path("runs") / task.name
    outs = {args.seed or 0: out}
    if args.seeds is not None:
        outs = {seed: out / f"seed-{seed}" for seed in parse_seeds(args.seeds)}
    seeds = work(args, named, outs)
    if args.seeds is None:
        results = train(seeds, common.progress)
    else:
        results = share_out(seeds, common.progress, args.workers)
    say_how_they_ended(results)
    if args.json:
        common.show_json(results if args.seeds else results[0])
    else:
        show(results)
    _hint(args, results)
    return int(any(_missed(args, result) for result in results))


def work(args: Args, task: str | Path, outs: dict[int, Path]) -> Any:
    """What is to be trained, as the options have it."""
    from csprop.training.seeds import Seeds

    options = asdict(args.model) | asdict(args.recipe)
    return Seeds(task, args.preset, options, outs, args.resume)


def say_how_they_ended(results: list[dict[str, Any]]) -> None:
    """A line a run."""
    for result in results:
        if "diverged" in result:
            details = f"{result['run']}/diagnosis.json has the details"
            common.say(f"csprop train: {result['diverged']}; {details}")
        else:
            common.say(f"{result['task']} seed {result['seed']}: trained until {result['ended']}")


def _hint(args: Args, results: list[dict[str, Any]]) -> None:
    """What to try where one layer of switches was not enough for a file."""
    unlearned = any(result.get("accuracy", 1) < 1 for result in results)
    if args.data and unlearned and (args.model.depth, args.model.decay) == (1, "switch"):
        common.say(
            "csprop train: not all held-out rows are right; two layers with soft gates learn more, "
            "though they seldom lock: --depth 2 --decay reset --decoder complex"
        )


def _summary(task: Any) -> str:
    """What was read off a file, so that a mistake in it is seen before it is learned."""
    from csprop.tasks.base import shown

    return (
        f"{task.source}: {len(task.data)} rows; tokens {shown(task.vocab)}; "
        f"classes {shown(task.classes)}"
    )


def _missed(args: Args, result: dict[str, Any]) -> bool:
    if "diverged" in result:
        return True
    target = args.recipe.target
    if target is None or result["accuracy"] >= target:
        return False
    common.say(
        f"{result['run']}: held-out accuracy {result['accuracy']:.2%} misses the target {target:.2%}"
    )
    return True


def show(results: list[dict[str, Any]]) -> None:
    """A row a run."""
    from csprop.training.metrics import percent

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
        return "unknown"
    return f"{score['wrong']:,} wrong" if score["wrong"] else f"all {score['count']:,}"
