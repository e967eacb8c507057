"""Everything that determines a run: put together, written to config.json, read back and compared."""

import hashlib
import json
import platform
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy
import torch

import csprop
from csprop.errors import InputError
from csprop.nn.config import CSPConfig, ModelOptions, check_fields
from csprop.ops.backends import backend
from csprop.tasks import get
from csprop.tasks.base import Task
from csprop.tasks.file import SUFFIXES, FileTask, from_file
from csprop.training import checkpoint
from csprop.training.presets import Recipe, preset


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """Everything that determines a run, as config.json has it."""

    task: dict[str, Any]
    preset: str
    seed: int
    model: CSPConfig
    recipe: Recipe


def configure(
    task: str | Path | Task | FileTask, preset_name: str = "rotor", seed: int = 0, **changes: Any
) -> RunConfig:
    """A preset for a task, with some options changed."""
    task = found(task)
    chosen = preset(preset_name, task if isinstance(task, Task) else None)
    of_model = {field.name for field in fields(ModelOptions)}
    of_recipe = {field.name for field in fields(Recipe)}
    for name in changes:
        if name not in of_model | of_recipe:
            raise InputError(f"{name!r} is no option: write {', '.join(sorted(of_model | of_recipe))}")
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**63:
        raise InputError(f"seed={seed}: write a whole number from 0 on")
    model = asdict(chosen.model) | {k: v for k, v in changes.items() if k in of_model}
    return RunConfig(
        task=described(task),
        preset=preset_name,
        seed=seed,
        model=CSPConfig(vocab_size=len(task.vocab), num_classes=len(task.classes), **model),
        recipe=replace(chosen.recipe, **{k: v for k, v in changes.items() if k in of_recipe}),
    )


def found(task: str | Path | Task | FileTask) -> Task | FileTask:
    if isinstance(task, Path) or (isinstance(task, str) and Path(task).suffix in SUFFIXES):
        return from_file(task)
    if isinstance(task, str):
        return get(task)
    if isinstance(task, Task | FileTask):
        return task
    raise InputError(f"{task!r} is no task: give a name such as 'parity', a data file, or a Task")


def identity(config: RunConfig) -> str:
    """The digest of everything but the limit of epochs, which alone may change on resume."""
    values = asdict(config)
    del values["recipe"]["epochs"]
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def environment() -> dict[str, Any]:
    """Where this runs."""
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


def described(task: Task | FileTask) -> dict[str, Any]:
    if isinstance(task, Task):
        return {"name": task.name}
    return {
        "name": task.name,
        "data": str(task.path),
        "sha256": task.sha256,
        "vocab": list(task.vocab),
        "classes": list(task.classes),
        "words": task.words,
    }


def to_json(config: RunConfig) -> dict[str, Any]:
    return {"format": checkpoint.FORMAT, **asdict(config), "environment": environment()}


def from_json(path: Path, values: dict[str, Any]) -> RunConfig:
    known = {field.name for field in fields(RunConfig)}
    where = path / checkpoint.CONFIG
    for name in values.keys() - known - {"format", "environment"}:
        raise InputError(f"{where}: there is no field {name!r}: expected {', '.join(sorted(known))}")
    try:
        _check_types(values)
        check_fields(Recipe, values["recipe"])
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
    """Enough to tell a damaged configuration from one that this code wrote."""
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
        wanted += [(name, str) for name in (*task["vocab"], *task["classes"])]
    for value, kind in wanted:
        if type(value) is not kind:
            raise InputError(f"{value!r} is malformed; the run is damaged")
    if not 1 <= where["threads"] <= 1024:
        raise InputError(f"environment.threads={where['threads']} is malformed; the run is damaged")


def check_same(path: Path, stored: RunConfig, asked: RunConfig) -> None:
    """Refuse to go on with other settings than those of the run; only `epochs` may change."""
    asked = replace(asked, recipe=replace(asked.recipe, epochs=stored.recipe.epochs))
    before, now = asdict(stored), asdict(asked)
    if before == now:
        return
    for part in ("model", "recipe"):
        before |= before.pop(part)
        now |= now.pop(part)
    name = next(name for name in before if before[name] != now[name])
    if name == "task" and before[name]["name"] == now[name]["name"]:
        raise InputError(
            f"{before[name]['data']}: has changed since the run began: put it back as it was"
        )
    raise InputError(
        f"{path}: was trained with {name}={before[name]!r}, not {now[name]!r}: leave the option as it "
        "was, or choose another --out"
    )
