"""`csprop train`: a model from a task or a file."""

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

import tyro
from tyro.conf import arg

from csprop.cli import common
from csprop.errors import InputError
from csprop.nn.config import ModelOptions
from csprop.training.presets import PRESETS, Preset, Recipe, preset


@dataclass(frozen=True, kw_only=True)
class Args:
    """Train a model. The defaults shown are those of the preset."""

    task: Annotated[str | None, tyro.conf.Positional, arg(metavar="TASK")] = None
    """A task, such as parity, mod3, parenthesis or group-S5 (`csprop tasks` lists them)."""

    data: Annotated[Path | None, arg(metavar="FILE")] = None
    """Your own labelled sequences instead: .jsonl, .csv or .tsv."""

    preset: Literal["rotor", "paper"] = "rotor"
    """`rotor`, the exact family, or `paper`, as printed."""

    seed: int = 0
    """Determines data, split, first weights and order."""

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


MOST_SEEDS = 10_000


def parse(argv: list[str]) -> Args:
    seen = _glance(argv)
    defaults: dict[str, Any] = {}
    if {"resume", "out"} <= seen.keys() and not seen.keys() & {"task", "data", "seeds", "help", "h"}:
        defaults = _stored(Path(seen["out"]))
    else:
        name = seen.get("preset", "rotor")
        chosen = preset(name, _named(seen.get("task"))) if name in PRESETS else Preset()
        defaults = {"model": chosen.model, "recipe": chosen.recipe}
    return common.parse(Args, "train", argv, Args(**defaults))


def _named(name: str | None) -> Any:
    """The task, which has a say in the defaults; a wrong name is met with later."""
    if name is None:
        return None
    from csprop.tasks import get

    try:
        return get(name)
    except InputError:
        return None


def _stored(out: Path) -> dict[str, Any]:
    """The arguments that a run was started with."""
    from csprop.training.run import stored_config

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
    from csprop.tasks import from_file, get

    task = from_file(args.data) if args.data else get(args.task or "")
    if args.data:
        common.say(_summary(task))
    out = args.out or Path("runs") / task.name
    if args.workers is not None and not 1 <= args.workers <= 1024:
        raise InputError(f"--workers {args.workers}: write 1 to 1024")
    if args.workers is not None and args.seeds is None:
        raise InputError("--workers shares out seeds: add --seeds 0-9, or leave it out")
    if args.seeds is None:
        results = train_all(args, task, {args.seed: out})
    else:
        outs = {seed: out / f"seed-{seed}" for seed in parse_seeds(args.seeds)}
        results = _share_out(args, task, outs)
    if args.json:
        common.show_json(results if args.seeds else results[0])
    else:
        show(results)
    _hint(args, results)
    return int(any(_missed(args, result) for result in results))


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
        f"{task.path.name}: {len(task.data)} rows; tokens {shown(task.vocab)}; "
        f"classes {shown(task.classes)}"
    )


def parse_seeds(text: str) -> list[int]:
    """0-9 or 0,3,5-7 to a list."""
    seeds: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", part.strip())
        if not match or int(match[2] or match[1]) < int(match[1]):
            raise InputError(f"--seeds {text!r}: write a range such as 0-9, or a list such as 0,3,5")
        seeds.extend(islice(range(int(match[1]), int(match[2] or match[1]) + 1), MOST_SEEDS + 1))
    if len(seeds) > MOST_SEEDS:
        raise InputError(f"--seeds {text!r}: write at most {MOST_SEEDS:,} of them")
    return list(dict.fromkeys(seeds))


def train_all(
    args: Args, task: Any, outs: dict[int, Path], plain: bool = False
) -> list[dict[str, Any]]:
    """Train some seeds together, with progress; the result of each, or how it diverged."""
    from csprop.training.config import configure
    from csprop.training.loop import Diverged
    from csprop.training.run import execute

    options = asdict(args.model) | asdict(args.recipe)
    configs = [configure(task, args.preset, seed, **options) for seed in outs]
    label = f"{task.name} {'worst of' if len(outs) > 1 else 'seed'} {_ranges(list(outs))}"
    with common.progress(label, args.recipe.epochs, plain) as on_epoch:
        outcomes = execute(
            task, configs, list(outs.values()), args.resume, lambda rows: on_epoch(_worst(rows))
        )
    results = []
    for (seed, out), outcome in zip(outs.items(), outcomes, strict=True):
        result = {"task": task.name, "preset": args.preset, "seed": seed, "run": str(out)}
        if isinstance(outcome, Diverged):
            common.say(f"csprop train: {outcome}; {out}/diagnosis.json has the details")
            results.append(result | {"diverged": str(outcome)})
        else:
            ended = outcome.result or {}
            common.say(f"{task.name} seed {seed}: trained until {ended['ended']}")
            results.append(result | ended)
    return results


def _worst(rows: dict[int, Any]) -> dict[str, Any]:
    """The epoch of several seeds in one row: that of the lowest accuracy."""
    return min(rows.values(), key=lambda row: row["accuracy"])


def _ranges(seeds: list[int]) -> str:
    """The inverse of `parse_seeds`."""
    parts: list[list[int]] = []
    for seed in seeds:
        if parts and seed == parts[-1][-1] + 1:
            parts[-1].append(seed)
        else:
            parts.append([seed])
    return ",".join(f"{part[0]}-{part[-1]}" if len(part) > 1 else str(part[0]) for part in parts)


def _share_out(args: Args, task: Any, outs: dict[int, Path]) -> list[dict[str, Any]]:
    """Train the seeds in as many processes as there are cores."""
    from csprop.training.workers import cores, pool

    # A process needs some seconds to start: give it two seeds at least.
    workers = args.workers or min(cores(), max(1, len(outs) // 2))
    seeds = list(outs)
    parts = [seeds[len(seeds) * i // workers : len(seeds) * (i + 1) // workers] for i in range(workers)]
    parts = [{seed: outs[seed] for seed in part} for part in parts if part]
    if len(parts) == 1:
        return train_all(args, task, outs)
    from csprop.training.run import refuse_existing

    if not args.resume:
        refuse_existing(outs.values())
    with pool(len(parts), "the same command with --resume goes on") as executor:
        jobs = [executor.submit(_train_part, args, part) for part in parts]
        return [result for job in jobs for result in job.result()]


def _train_part(args: Args, outs: dict[int, Path]) -> list[dict[str, Any]]:
    from csprop.tasks import from_file, get

    task = from_file(args.data) if args.data else get(args.task or "")
    return train_all(args, task, outs, plain=True)


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
    trained = [result for result in results if "accuracy" in result]
    if not trained:
        return
    rows = [
        [
            result["run"],
            str(result["first_epoch_at_target"] or "never"),
            str(result["epochs"]),
            common.percent(result["accuracy"], int(result["accuracy"] < 1)),
            f"{result['f1']:.4f}",
            _every(result["exhaustive"]),
        ]
        for result in trained
    ]
    common.show_table(["run", "at target", "epochs", "held-out", "F1", "every input"], rows)


def _every(score: dict[str, Any] | None) -> str:
    if score is None:
        return "unknown"
    return (
        common.percent(score["accuracy"], score["wrong"])
        if score["wrong"]
        else f"all {score['count']:,}"
    )
