"""The configuration of a run: making it, writing it to config.json, reading and comparing it."""

import json
import platform
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import csprop
from csprop.errors import InputError, did_you_mean
from csprop.files import digest
from csprop.nn.config import FIRST_OPTIONS, CSPConfig, ModelOptions
from csprop.nn.fields import check_fields, essential
from csprop.nn.hub import Names
from csprop.ops.backends import backend
from csprop.tasks import resolve
from csprop.tasks.base import Task
from csprop.training import checkpoint
from csprop.training.presets import FIRST_RECIPE, Recipe, preset


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """Everything that determines a run, as config.json stores it."""

    task: dict[str, Any]
    preset: str
    seed: int
    model: CSPConfig
    recipe: Recipe


def configure(
    task: str | Path | Task, preset_name: str | None = None, seed: int = 0, **changes: Any
) -> RunConfig:
    """The configuration of a preset for a task, with some options changed.

    Args:
        task: a task, its name, or a data file.
        preset_name: the name of one in `PRESETS`; without it, the one that suits the task.
        seed: the seed of the run.
        changes: options of `CSPConfig` or `Recipe`, by name.

    Raises:
        InputError: there is no such task, preset or option, or a value is out of range.
    """
    task = resolve(task)
    preset_name = task.preset if preset_name is None else preset_name
    chosen = preset(preset_name, task)
    of_model = {field.name for field in fields(ModelOptions)}
    of_recipe = {field.name for field in fields(Recipe)}
    for name in changes:
        if name not in of_model | of_recipe:
            known = sorted(of_model | of_recipe)
            near = did_you_mean(name, known) or f"write {', '.join(known)}"
            raise InputError(f"{name!r} is not an option: {near}")
    check_seed(seed)
    model = asdict(chosen.model) | {k: v for k, v in changes.items() if k in of_model}
    return RunConfig(
        task=task.describe(),
        preset=preset_name,
        seed=seed,
        model=CSPConfig(vocab_size=len(task.vocab), num_classes=len(task.classes), **model),
        recipe=replace(chosen.recipe, **{k: v for k, v in changes.items() if k in of_recipe}),
    )


def identity(config: RunConfig) -> str:
    """A digest of the configuration without `epochs`, the only option that may change on resume.

    With the schedule cosine it may not, because the learning rate of each epoch depends on it.
    """
    values = asdict(config)
    values["model"] = essential(values["model"], CSPConfig, FIRST_OPTIONS)
    values["recipe"] = essential(values["recipe"], Recipe, FIRST_RECIPE)
    if config.recipe.schedule != "cosine":
        del values["recipe"]["epochs"]
    return digest(json.dumps(values, sort_keys=True).encode())


def environment() -> dict[str, Any]:
    """The versions, the machine and the backend in use."""
    import numpy
    import torch

    return {
        "csprop": csprop.__version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": numpy.__version__,
        "platform": platform.platform(),
        "cpu": _cpu(),
        "threads": torch.get_num_threads(),
        "backend": backend(),
    }


def _cpu() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def to_json(config: RunConfig, task: Task, where: dict[str, Any]) -> dict[str, Any]:
    """The content of config.json: configuration, names of tokens and classes, and environment."""
    described = {"names": asdict(names_of(task)), "environment": where}
    return {"format": checkpoint.FORMAT, **asdict(config), **described}


def names_of(task: Task) -> Names:
    """The names of a task's tokens and classes."""
    return Names(tuple(task.vocab), tuple(task.classes), task.words)


def from_json(path: Path, values: dict[str, Any]) -> RunConfig:
    """The configuration that `to_json` described.

    Args:
        path: the run directory, for error messages.
        values: the content of config.json.

    Raises:
        InputError: a field is unknown, missing or malformed.
    """
    known = {field.name for field in fields(RunConfig)}
    where = path / checkpoint.CONFIG
    for name in values.keys() - known - {"format", "environment", "names"}:
        raise InputError(f"{where}: {name!r} is not a field: expected {', '.join(sorted(known))}")
    try:
        _check_types(values)
        check_fields(Recipe, values["recipe"], FIRST_RECIPE)
        return RunConfig(
            task=values["task"],
            preset=values["preset"],
            seed=values["seed"],
            model=CSPConfig.from_dict(values["model"]),
            recipe=Recipe(**values["recipe"]),
        )
    except InputError as error:
        raise InputError(f"{where}: {error}") from None
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{where}: {error} is missing or malformed; the run is damaged") from None


def _check_types(values: dict[str, Any]) -> None:
    """Reject values of the wrong type: the file is damaged."""
    task, where = values["task"], values["environment"]
    wanted = [
        (task["name"], str),
        (values["preset"], str),
        (values["seed"], int),
        (where["threads"], int),
        (where["backend"], str),
    ]
    if "data" in task:
        wanted += [(task["data"], str), (task["sha256"], str), (task["words"], bool)]
        for names in (task["vocab"], task["classes"]):
            wanted += [(names, list), *((name, str) for name in names)]
    for value, kind in wanted:
        if type(value) is not kind:
            raise InputError(f"{value!r} is malformed; the run is damaged")
    if not 1 <= where["threads"] <= 1024:
        raise InputError(f"environment.threads={where['threads']} is malformed; the run is damaged")
    check_seed(values["seed"])
    for names in (task["vocab"], task["classes"]) if "data" in task else ():
        if len(set(names)) < len(names) or not all(name and name.isprintable() for name in names):
            raise InputError(f"{names!r} is malformed; the run is damaged")


def check_seed(seed: Any) -> None:
    """Refuse what no generator takes."""
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**63:
        raise InputError("write a whole number from 0 on, below 2^63", "seed", seed)


def check_same(path: Path, stored: RunConfig, asked: RunConfig) -> None:
    """Check that a resumed run keeps its configuration; only `epochs` may change.

    With the schedule cosine not even that: an epoch would have another learning rate.

    Args:
        path: the run directory, for error messages.
        stored: the configuration in the run directory.
        asked: the configuration that was asked for.

    Raises:
        InputError: they differ; the message names the first difference.
    """
    if not stored.recipe.schedule == asked.recipe.schedule == "cosine":
        asked = replace(asked, recipe=replace(asked.recipe, epochs=stored.recipe.epochs))
    before, now = asdict(stored), asdict(asked)
    if before == now:
        return
    for part in ("model", "recipe"):
        before |= before.pop(part)
        now |= now.pop(part)
    name = next(name for name in before if before[name] != now[name])
    if name == "task":
        raise InputError(_other_task(path, before[name], now[name]))
    why = ", and its schedule cosine ends with them" if name == "epochs" else ""
    raise InputError(
        f"{path}: was trained with {name}={before[name]!r}, not {now[name]!r}{why}: "
        "use the same value, or choose another --out"
    )


def _other_task(path: Path, before: dict[str, Any], now: dict[str, Any]) -> str:
    if before.get("data") and before.get("data") == now.get("data"):
        return f"{before['data']}: has changed since training: restore the file, or train again"
    was, asked = (each.get("data", each["name"]) for each in (before, now))
    return f"{path}: was trained on {was}, not on {asked}: use the same data, or choose another --out"
