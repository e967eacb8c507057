"""`csprop train`: a model from a task or a file."""

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Literal

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
    """A task: parity, parenthesis, modK, modK-residue (`csprop tasks` lists them)."""

    data: Annotated[Path | None, arg(metavar="FILE")] = None
    """Your own labelled sequences instead: .jsonl, .csv or .tsv."""

    preset: Literal["rotor", "paper"] = "rotor"
    """`rotor`, the exact family, or `paper`, as printed."""

    seed: int = 0
    """Determines data, split, first weights and order."""

    seeds: Annotated[str | None, arg(metavar="LIST")] = None
    """Several seeds, one run each: 0-9 or 0,3,5."""

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
        chosen = preset(name, seen.get("task")) if name in PRESETS else Preset()
        defaults = {"model": chosen.model, "recipe": chosen.recipe}
    return common.parse(Args, "train", argv, Args(**defaults))


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
    flags, seen, rest = {"resume", "json", "skip", "no-skip", "help", "h"}, {}, iter(argv)
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
    if args.seeds is None:
        results = [train_one(args, task, args.seed, out)]
    else:
        results = [
            train_one(args, task, seed, out / f"seed-{seed}") for seed in parse_seeds(args.seeds)
        ]
    if args.json:
        common.show_json(results if args.seeds else results[0])
    else:
        show(results)
    return int(any(_missed(args, result) for result in results))


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


def train_one(args: Args, task: Any, seed: int, out: Path) -> dict[str, Any]:
    """Train one seed, with progress; its result, or how it diverged."""
    from csprop.training.loop import Diverged
    from csprop.training.run import configure, execute

    options = asdict(args.model) | asdict(args.recipe)
    config = configure(task, args.preset, seed, **options)
    result: dict[str, Any] = {
        "task": task.name,
        "preset": args.preset,
        "seed": seed,
        "run": str(out),
    }
    with common.progress(f"{task.name} seed {seed}", args.recipe.epochs) as on_epoch:
        try:
            trained = execute(task, config, out, args.resume, on_epoch)
            ended = (trained.result or {})["ended"]
        except Diverged as error:
            common.say(f"csprop train: {error}; {out}/diagnosis.json has the details")
            return result | {"diverged": str(error)}
    common.say(f"{task.name} seed {seed}: trained until {ended}")
    return result | (trained.result or {})


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
    exact = common.percent(score["accuracy"], score["wrong"])
    return f"{exact} of {score['count']:,}"
