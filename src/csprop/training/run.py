"""Training from start to end, and reading a run back."""

import hashlib
import json
import platform
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy
import safetensors.torch
import torch

import csprop
from csprop.errors import InputError
from csprop.nn.config import CSPConfig, ModelOptions, check_fields
from csprop.nn.model import CSP
from csprop.ops import backend, use_backend
from csprop.tasks import get
from csprop.tasks.base import Examples, Task
from csprop.tasks.file import SUFFIXES, FileTask, from_file
from csprop.tasks.split import split
from csprop.training import checkpoint
from csprop.training.checkpoint import RunFolder
from csprop.training.loop import Diverged, Row, Trainer, generator
from csprop.training.metrics import MOST_INPUTS, exhaustive
from csprop.training.presets import Recipe, preset


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """Everything that determines a run, as config.json has it."""

    task: dict[str, Any]
    preset: str
    seed: int
    model: CSPConfig
    recipe: Recipe


@dataclass
class Run:
    """A trained model and where it came from."""

    model: CSP
    task: Task | FileTask
    config: RunConfig
    metrics: list[Row]
    result: dict[str, Any] | None
    path: Path | None = None


def configure(
    task: str | Path | Task | FileTask, preset_name: str = "rotor", seed: int = 0, **changes: Any
) -> RunConfig:
    """A preset for a task, with some options changed."""
    task = _found(task)
    chosen = preset(preset_name, task.name if isinstance(task, Task) else None)
    of_model = {field.name for field in fields(ModelOptions)}
    of_recipe = {field.name for field in fields(Recipe)}
    for name in changes:
        if name not in of_model | of_recipe:
            raise InputError(f"{name!r} is no option: write {', '.join(sorted(of_model | of_recipe))}")
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**63:
        raise InputError(f"seed={seed}: write a whole number from 0 on")
    model = asdict(chosen.model) | {k: v for k, v in changes.items() if k in of_model}
    return RunConfig(
        task=_described(task),
        preset=preset_name,
        seed=seed,
        model=CSPConfig(vocab_size=len(task.vocab), num_classes=len(task.classes), **model),
        recipe=replace(chosen.recipe, **{k: v for k, v in changes.items() if k in of_recipe}),
    )


def train(
    task: str | Path | Task | FileTask,
    preset: str = "rotor",
    seed: int = 0,
    out: str | Path | None = None,
    resume: bool = False,
    on_epoch: Callable[[Row], None] = lambda row: None,
    **changes: Any,
) -> Run:
    """Train a model on a task, its name, or a data file; with `out`, into a run directory.

    Any option of `CSPConfig` or `Recipe` can be changed by its name: `train("parity", rotate="input")`.
    """
    task = _found(task)
    return execute(task, configure(task, preset, seed, **changes), out, resume, on_epoch)


def _found(task: str | Path | Task | FileTask) -> Task | FileTask:
    if isinstance(task, Path) or (isinstance(task, str) and Path(task).suffix in SUFFIXES):
        return from_file(task)
    if isinstance(task, str):
        return get(task)
    if isinstance(task, Task | FileTask):
        return task
    raise InputError(f"{task!r} is no task: give a name such as 'parity', a data file, or a Task")


def execute(
    task: Task | FileTask,
    config: RunConfig,
    out: str | Path | None = None,
    resume: bool = False,
    on_epoch: Callable[[Row], None] = lambda row: None,
) -> Run:
    """Train as a whole configuration says."""
    training, held_out = examples(task, config)
    # A small file still gets twenty steps an epoch; resolved here, so that config.json says it.
    batch_size = min(config.recipe.batch_size, max(1, len(training) // 20))
    config = replace(config, recipe=replace(config.recipe, batch_size=batch_size))
    model = CSP(config.model, generator(config.seed, "weights"))
    trainer = Trainer(model, training, held_out, config.recipe, config.seed)
    if out is None:
        if resume:
            raise InputError("there is nothing to resume without a folder: give out")
        metrics: list[Row] = []
        while not trainer.finished:
            metrics.append(trainer.run_epoch())
            on_epoch(metrics[-1])
        return _ended(trainer, task, config, metrics)
    folder = RunFolder(out)
    with folder.locked():
        return _train_into(folder, trainer, task, config, resume, on_epoch)


def _train_into(
    folder: RunFolder,
    trainer: Trainer,
    task: Task | FileTask,
    config: RunConfig,
    resume: bool,
    on_epoch: Callable[[Row], None],
) -> Run:
    described = _to_json(config)
    if not folder.exists():
        folder.create(described)
    elif not resume:
        raise InputError(
            f"{folder.path}: holds a run already: add --resume to go on with it, or choose another "
            "--out"
        )
    else:
        stored = folder.read_config(verify=False)
        _check_same(folder.path, _from_json(folder.path, stored), config)
        described["environment"] = stored["environment"]
        folder.resume(trainer, _identity(config))
        if trainer.epoch > config.recipe.epochs:
            raise InputError(
                f"{folder.path}: has {trainer.epoch} epochs already: "
                f"write --epochs {trainer.epoch} or more"
            )
        folder.write_json(checkpoint.CONFIG, described)  # with a new limit of epochs, if there is one
    with _as_before(described["environment"]):
        if not trainer.finished:
            folder.remove(checkpoint.RESULT)
            folder.remove(checkpoint.DIAGNOSIS)
        while not trainer.finished:
            try:
                row = trainer.run_epoch()
            except Diverged as error:
                folder.write_json(checkpoint.DIAGNOSIS, error.diagnosis)
                raise
            folder.commit(row, trainer, _identity(config))
            on_epoch(row)
        run = _ended(trainer, task, config, folder.read_metrics())
    folder.write_json(checkpoint.RESULT, run.result)
    run.path = folder.path
    return run


@contextmanager
def _as_before(where: dict[str, Any]) -> Iterator[None]:
    """With the threads and the backend that a run began with: sums depend on both in the last bit."""
    threads = torch.get_num_threads()
    torch.set_num_threads(where["threads"])
    try:
        with use_backend(where["backend"]):
            yield
    finally:
        torch.set_num_threads(threads)


def _identity(config: RunConfig) -> str:
    """The digest of everything but the limit of epochs, which alone may change on resume."""
    values = asdict(config)
    del values["recipe"]["epochs"]
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def load(path: str | Path, task: Task | FileTask | None = None) -> Run:
    """A run from its directory. A task of your own that csprop has no name for must be given."""
    folder = RunFolder(path)
    config = _from_json(folder.path, folder.read_config())
    try:
        task = task or stored_task(config)
    except InputError as error:
        own = "; a task of your own must be given, as in load(path, task=…)"
        raise InputError(f"{folder.path / checkpoint.CONFIG}: {error}{own}") from None
    if (len(task.vocab), len(task.classes)) != (config.model.vocab_size, config.model.num_classes):
        raise InputError(
            f"{folder.path / checkpoint.CONFIG}: the model does not fit the task {task.name!r}"
        )
    model = CSP(config.model)
    if not folder.has(checkpoint.WEIGHTS):
        lacks = checkpoint.WEIGHTS if folder.has(checkpoint.LAST) else "a finished epoch"
        raise InputError(
            f"{folder.path}: lacks {lacks}; `csprop train --resume --out {folder.path}` goes on with it"
        )
    try:
        weights = safetensors.torch.load(folder.read(checkpoint.WEIGHTS))
        model.load_state_dict(weights)
    except (safetensors.SafetensorError, RuntimeError):
        raise InputError(
            f"{folder.path / checkpoint.WEIGHTS}: does not fit config.json; the run is damaged"
        ) from None
    if not all(bool(value.isfinite().all()) for value in weights.values()):
        raise InputError(f"{folder.path / checkpoint.WEIGHTS}: has weights that are not finite")
    return Run(
        model=model.eval(),
        task=task,
        config=config,
        metrics=folder.read_metrics(),
        result=folder.read_json(checkpoint.RESULT) if folder.has(checkpoint.RESULT) else None,
        path=folder.path,
    )


def stored_config(path: str | Path) -> RunConfig:
    """What a run directory says of itself."""
    folder = RunFolder(path)
    return _from_json(folder.path, folder.read_config(verify=False))


def stored_task(config: RunConfig) -> Task | FileTask:
    """The task that a configuration names."""
    described = config.task
    if "data" not in described:
        return get(described["name"])
    return FileTask(
        Path(described["data"]),
        described["sha256"],
        described["vocab"],
        described["classes"],
        described["words"],
    )


def examples(task: Task | FileTask, config: RunConfig) -> tuple[Examples, Examples]:
    """The training and the held-out part of a run."""
    recipe, seed = config.recipe, config.seed
    if isinstance(task, FileTask):
        whole = task.data
    else:
        count = recipe.samples or task.samples
        whole = task.examples(task.sample(count, recipe.length, generator(seed, "data")))
    try:
        return split(whole, recipe.split, generator(seed, "split"))
    except InputError as error:
        raise InputError(f"{_described(task).get('data', task.name)}: {error}") from None


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


def _ended(trainer: Trainer, task: Task | FileTask, config: RunConfig, metrics: list[Row]) -> Run:
    trainer.model.load_state_dict(trainer.best_weights)
    recipe, best = config.recipe, trainer.best
    early = trainer.epoch < recipe.epochs
    at_target = [row["epoch"] for row in metrics if row["accuracy"] >= trainer.target]
    result: dict[str, Any] = {
        "epochs": trainer.epoch,
        "ended": f"the target held for {recipe.hold} epochs" if early else "the last epoch",
        "first_epoch_at_target": min(at_target, default=None),
        "best_epoch": best["epoch"],
        "accuracy": best["accuracy"],
        "f1": best["f1"],
        "parameters": sum(p.numel() for p in trainer.model.parameters()),
        "exhaustive": None,
    }
    if isinstance(task, Task) and len(task.vocab) ** recipe.length <= MOST_INPUTS:
        every = exhaustive(trainer.model, task, recipe.length)
        result["exhaustive"] = asdict(every) | {"length": recipe.length}
    return Run(trainer.model.eval(), task, config, metrics, result)


def _described(task: Task | FileTask) -> dict[str, Any]:
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


def _to_json(config: RunConfig) -> dict[str, Any]:
    return {"format": checkpoint.FORMAT, **asdict(config), "environment": environment()}


def _from_json(path: Path, values: dict[str, Any]) -> RunConfig:
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


def _check_same(path: Path, stored: RunConfig, asked: RunConfig) -> None:
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
