"""The configuration of a run: making it, writing it to config.json, reading and comparing it."""

import json
import platform
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import csprop
from csprop.cells.options import BUILT_IN
from csprop.errors import InputError, did_you_mean
from csprop.fields import check_names, find_changes
from csprop.files import digest
from csprop.nn.config import Architecture, CSPConfig
from csprop.nn.hub import Names
from csprop.ops.backends import as_before, backend, use_backend
from csprop.tasks import resolve
from csprop.tasks.base import Task
from csprop.training import checkpoint
from csprop.training.presets import Recipe, preset


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """Everything that determines a run, as config.json stores it."""

    task: dict[str, Any]
    preset: str
    seed: int
    model: CSPConfig
    recipe: Recipe

    def to_json(self) -> dict[str, Any]:
        """Return everything as JSON has it."""
        values = {"task": self.task, "preset": self.preset, "seed": self.seed}
        return values | {"model": self.model.to_json(), "recipe": asdict(self.recipe)}


def configure(
    task: str | Path | Task, preset_name: str | None = None, seed: int = 0, **changes: Any
) -> RunConfig:
    """Return the configuration of a preset for a task, or of the preset that suits the task.

    `changes` are options of `CSPConfig`, of its cell or of `Recipe` that differ from the preset.
    """
    task = resolve(task)
    preset_name = task.preset if preset_name is None else preset_name
    chosen = preset(preset_name, task)
    check_seed(seed)
    known = {field.name for field in fields(Recipe)}
    recipe = {name: changes.pop(name) for name in known & changes.keys()}
    architecture = _change_model(chosen.model, preset_name, changes)
    sizes = {"vocab_size": len(task.vocab), "num_classes": len(task.classes)}
    return RunConfig(
        task=task.describe(),
        preset=preset_name,
        seed=seed,
        model=CSPConfig(**sizes, **vars(architecture)),
        recipe=replace(chosen.recipe, **recipe),
    )


def _change_model(base: Architecture, name: str, changes: dict[str, Any]) -> Architecture:
    """Return a preset's architecture with some options changed: its own, or those of its cell."""
    own = {field.name for field in fields(Architecture)}
    changed = {option: value for option, value in changes.items() if option in own}
    if isinstance(changed.get("cells"), tuple | list) and changed["cells"]:
        depth = len(changed["cells"])
        if "cell" in changed or changed.pop("depth", depth) != depth:
            raise InputError(f"it has {depth} layers: leave out cell and depth", "cells")
    elif "cell" in changed:
        base = replace(base, cells=(), depth=changed.get("depth", base.depth))
    elif "depth" in changed:
        check_options(name, base, ["depth"])
    base = replace(base, **changed)
    rest = {option: value for option, value in changes.items() if option not in own}
    check_options(name, base, rest)
    return replace(base, cell=replace(base.cell, **rest)) if rest else base


def check_options(name: str, model: Architecture, options: Iterable[str]) -> None:
    """Refuse options of other cells than a preset has, and options that do not exist."""
    others = {f.name for each in (Recipe, Architecture) for f in fields(each)}
    own = set() if model.cells else {f.name for f in fields(model.cell)}
    for option in options:
        if option == "depth" and model.cells:
            raise InputError(f"the preset {name} has {model.depth} layers: leave out depth", option)
        if option in own | others:
            continue
        options = {kind: {f.name for f in fields(each)} for kind, each in BUILT_IN.items()}
        if kinds := " or ".join(kind for kind in options if option in options[kind]):
            has = " and ".join(cell.kind for cell in model.cells) or model.cell.kind
            why = f"{option} is an option of the cell {kinds}; the preset {name} has {has}"
            raise InputError(why, option)
        every = others.union(*options.values())
        hint = did_you_mean(option, every) or ", ".join(sorted(every))
        raise InputError(f"{option!r} is not an option: {hint}", option)


def identity(config: RunConfig) -> str:
    """Return a digest of the configuration without `epochs`, which may change when a run is resumed.

    With the schedule cosine it may not, because the learning rate of each epoch depends on it.
    """
    values = {"task": config.task, "preset": config.preset, "seed": config.seed}
    values |= {"model": config.model.to_digest(), "recipe": find_changes(config.recipe)}
    if config.recipe.schedule != "cosine":
        values["recipe"].pop("epochs", None)
    return digest(json.dumps(values, sort_keys=True).encode())


def environment() -> dict[str, Any]:
    """Return the versions, the machine and the backend in use."""
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


@contextmanager
def use_environment(where: dict[str, Any]) -> Iterator[None]:
    """Use the threads and the backend that a run began with: both affect the rounding of sums.

    Another backend is used on request, or if there is no kernel here: it continues up to rounding.
    """
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(where["threads"])
    try:
        with use_backend(as_before(where["backend"])):
            yield
    finally:
        torch.set_num_threads(threads)


def _cpu() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def to_json(config: RunConfig, task: Task, where: dict[str, Any]) -> dict[str, Any]:
    """Return the content of config.json: configuration, names of tokens and classes, environment."""
    described = {"names": asdict(names_of(task)), "environment": where}
    return {"format": checkpoint.FORMAT, **config.to_json(), **described}


def names_of(task: Task) -> Names:
    """Return the names of a task's tokens and classes."""
    return Names(tuple(task.vocab), tuple(task.classes), task.words)


def from_json(path: Path, values: dict[str, Any]) -> RunConfig:
    """Return the configuration of a run directory, from the content of config.json."""
    known = {field.name for field in fields(RunConfig)}
    where = path / checkpoint.CONFIG
    for name in values.keys() - known - {"format", "environment", "names"}:
        raise InputError(f"{where}: {name!r} is not a field: expected {', '.join(sorted(known))}")
    try:
        _check_types(values)
        check_names(Recipe, values["recipe"])
        model, recipe = CSPConfig.from_json(values["model"]), Recipe(**values["recipe"])
        same = {name: values[name] for name in ("task", "preset", "seed")}
        return RunConfig(**same, model=model, recipe=recipe)
    except InputError as error:
        raise InputError(f"{where}: {error}") from None
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{where}: {error} is missing or malformed; the run is damaged") from None


def _check_types(values: dict[str, Any]) -> None:
    """Reject values of the wrong type: the file is damaged."""
    task, where = values["task"], values["environment"]
    wanted = [(task["name"], str), (values["preset"], str), (where["backend"], str)]
    names = [task["vocab"], task["classes"]] if "data" in task else []
    if "data" in task:
        wanted += [(task["data"], str), (task["sha256"], str), (task["words"], bool)]
        wanted += [(each, list) for each in names] + [(name, str) for each in names for name in each]
    wrong = [value for value, kind in wanted if type(value) is not kind]
    if type(where["threads"]) is not int or not 1 <= where["threads"] <= 1024:
        wrong.append(where["threads"])
    for each in [] if wrong else names:
        if len(set(each)) < len(each) or not all(name and name.isprintable() for name in each):
            wrong.append(each)
    if wrong:
        raise InputError(f"{wrong[0]!r} is malformed; the run is damaged")
    check_seed(values["seed"])


def check_seed(seed: Any) -> None:
    """Refuse a seed that a generator cannot take."""
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**63:
        raise InputError("write a whole number from 0 on, below 2^63", "seed", seed)


def check_same(path: Path, stored: RunConfig, asked: RunConfig) -> None:
    """Refuse to resume a run with another configuration; the message names the first difference.

    Only `epochs` may change, and with the schedule cosine not even that: the learning rate of an epoch
    depends on it.
    """
    if not stored.recipe.schedule == asked.recipe.schedule == "cosine":
        asked = replace(asked, recipe=replace(asked.recipe, epochs=stored.recipe.epochs))
    before, now = stored.to_json(), asked.to_json()
    if before == now:
        return
    for each in (before, now):
        each |= each.pop("model") | each.pop("recipe")
    for one, other in zip(before.pop("cells"), now.pop("cells"), strict=False):
        if one != other:  # options of the first layer that differs
            before, now = before | one, now | other
            break
    name = next(name for name in before if before[name] != now.get(name))
    if name == "task":
        was, asks = (each[name].get("data", each[name]["name"]) for each in (before, now))
        if was == asks and "data" in before[name]:
            raise InputError(f"{was}: has changed since training: restore the file, or train again")
        remedy = "use the same data, or choose another --out"
        raise InputError(f"{path}: was trained on {was}, not on {asks}: {remedy}")
    why = ", and its schedule cosine ends with them" if name == "epochs" else ""
    raise InputError(
        f"{path} was trained with {before[name]}{why}: use the same value, or choose another --out",
        name,
        now.get(name),
    )
