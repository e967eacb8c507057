"""Training from start to end, and reading a run back."""

import ctypes
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import safetensors.torch
import torch

from csprop.errors import InputError
from csprop.nn.model import CSP
from csprop.ops.backends import use_backend
from csprop.tasks import get
from csprop.tasks.base import Examples, Task
from csprop.tasks.file import FileTask
from csprop.tasks.split import split
from csprop.training import checkpoint
from csprop.training.checkpoint import RunFolder
from csprop.training.config import (
    RunConfig,
    check_same,
    configure,
    described,
    environment,
    found,
    from_json,
    identity,
    to_json,
)
from csprop.training.loop import Diverged, Row, Trainer, generator, run_epochs
from csprop.training.metrics import MOST_INPUTS, exhaustive

RESULTS = {"epochs", "first_epoch_at_target", "accuracy", "f1", "exhaustive"}
"""What a result has at least."""
MOST_TOKENS = 1 << 16
"""In one step of models trained together: bounds the memory."""


@dataclass
class Run:
    """A trained model and where it came from."""

    model: CSP
    task: Task | FileTask
    config: RunConfig
    metrics: list[Row]
    result: dict[str, Any] | None
    path: Path | None = None


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
    task = found(task)
    configs = [configure(task, preset, seed, **changes)]
    (run,) = execute(task, configs, [out], resume, lambda rows: on_epoch(rows[seed]))
    if isinstance(run, Diverged):
        raise run
    return run


def train_seeds(
    task: str | Path | Task | FileTask,
    seeds: Iterable[int],
    preset: str = "rotor",
    out: str | Path | None = None,
    resume: bool = False,
    on_epoch: Callable[[dict[int, Row]], None] = lambda rows: None,
    **changes: Any,
) -> list["Run | Diverged"]:
    """Train one model for each seed, all as one computation; with `out`, into folders seed-0, seed-1, …

    Each result is what `train` gives for that seed, up to the rounding of sums.
    """
    task, seeds = found(task), list(seeds)
    configs = [configure(task, preset, seed, **changes) for seed in seeds]
    outs = [None if out is None else Path(out) / f"seed-{seed}" for seed in seeds]
    return execute(task, configs, outs, resume, on_epoch)


def execute(
    task: Task | FileTask,
    configs: Sequence[RunConfig],
    outs: Sequence[str | Path | None],
    resume: bool = False,
    on_epoch: Callable[[dict[int, Row]], None] = lambda rows: None,
    every_input: bool = True,
) -> list["Run | Diverged"]:
    """Train as whole configurations say, which may differ in their seed; rows come by seed.

    In the end every input of the trained length is tried, where that can be done, if it is asked for.
    """
    if not resume:
        refuse_existing(out for out in outs if out is not None)
    _keep_freed_memory()
    with ExitStack() as stack:
        sessions = [
            stack.enter_context(_session(task, config, out, resume))
            for config, out in zip(configs, outs, strict=True)
        ]
        for group in _groups(sessions):
            with _as_before(group[0].environment):
                _train(group, on_epoch)
                for session in group:
                    session.end(every_input)
    return [session.outcome for session in sessions if session.outcome is not None]


def refuse_existing(outs: Iterable[str | Path]) -> None:
    """Before anything is trained or written."""
    for out in map(Path, outs):
        if out.exists() and not out.is_dir():
            raise InputError(f"{out}: is a file: choose another --out")
        if RunFolder(out).exists():
            raise InputError(
                f"{out}: holds a run already: add --resume to go on with it, or choose another --out"
            )


class _Session:
    """One run in the making, in memory or in its folder."""

    def __init__(self, task: Task | FileTask, config: RunConfig, folder: RunFolder | None) -> None:
        training, held_out = examples(task, config)
        # A small file still gets twenty steps an epoch; resolved here, so that config.json says it.
        batch_size = min(config.recipe.batch_size, max(1, len(training) // 20))
        self.config = replace(config, recipe=replace(config.recipe, batch_size=batch_size))
        self.task, self.folder = task, folder
        model = CSP(self.config.model, generator(config.seed, "weights"))
        self.trainer = Trainer(model, training, held_out, self.config.recipe, config.seed)
        self.environment = environment()
        self.metrics: list[Row] = []
        self.outcome: Run | Diverged | None = None

    @property
    def going(self) -> bool:
        return self.outcome is None and not self.trainer.finished

    def begin(self, resume: bool) -> None:
        """Make the folder, or go on from the last epoch in it."""
        folder, described = self.folder, to_json(self.config)
        if folder is None:
            if resume:
                raise InputError("there is nothing to resume without a folder: give out")
        elif folder.exists():
            self._resume(folder, described)
        else:
            folder.create(described)

    def _resume(self, folder: RunFolder, described: dict[str, Any]) -> None:
        stored = folder.read_config(verify=False)
        check_same(folder.path, from_json(folder.path, stored), self.config)
        described["environment"] = self.environment = stored["environment"]
        folder.resume(self.trainer, identity(self.config))
        if self.trainer.epoch > self.config.recipe.epochs:
            raise InputError(
                f"{folder.path}: has {self.trainer.epoch} epochs already: "
                f"write --epochs {self.trainer.epoch} or more"
            )
        folder.write_json(checkpoint.CONFIG, described)  # with a new limit of epochs, if there is one
        if self.going:
            # Of other weights than those to come.
            folder.remove(checkpoint.CERTIFICATE, checkpoint.LOCKED)
            folder.remove(checkpoint.RESULT, checkpoint.DIAGNOSIS)

    def commit(self, row: Row | Diverged) -> None:
        """Make a finished epoch last, or say why it could not be finished."""
        if isinstance(row, Diverged):
            self.outcome = row
            if self.folder:
                self.folder.write_json(checkpoint.DIAGNOSIS, row.diagnosis)
        elif self.folder:
            self.folder.commit(row, self.trainer, identity(self.config))
        else:
            self.metrics.append(row)

    def end(self, every_input: bool) -> None:
        if self.outcome is not None:
            return
        metrics = self.folder.read_metrics() if self.folder else self.metrics
        self.outcome = run = ended(self.trainer, self.task, self.config, metrics, every_input)
        if self.folder:
            self.folder.write_json(checkpoint.RESULT, run.result)
            run.path = self.folder.path


@contextmanager
def _session(
    task: Task | FileTask, config: RunConfig, out: str | Path | None, resume: bool
) -> Iterator[_Session]:
    folder = None if out is None else RunFolder(out)
    session = _Session(task, config, folder)
    with checkpoint.locked(folder.path) if folder else nullcontext():
        session.begin(resume)
        yield session


def _groups(sessions: Sequence[_Session]) -> Iterator[list[_Session]]:
    """Those that can be trained together: alike in shape, threads and backend, and not too many."""
    alike: dict[tuple[Any, ...], list[_Session]] = {}
    for session in sessions:
        training, where = session.trainer.training, session.environment
        key = (training.tokens.shape, where["threads"], where["backend"])
        alike.setdefault(key, []).append(session)
    for (shape, *_), group in alike.items():
        together = max(1, MOST_TOKENS // (group[0].config.recipe.batch_size * max(1, shape[1])))
        for start in range(0, len(group), together):
            yield group[start : start + together]


def _train(group: Sequence[_Session], on_epoch: Callable[[dict[int, Row]], None]) -> None:
    while going := [session for session in group if session.going]:
        rows = run_epochs([session.trainer for session in going])
        finished: dict[int, Row] = {}
        for session, row in zip(going, rows, strict=True):
            session.commit(row)
            if not isinstance(row, Diverged):
                finished[session.config.seed] = row
        if finished:
            on_epoch(finished)


def _keep_freed_memory() -> None:
    """Ask the C library to keep what a training step frees for the next one.

    Otherwise it gives large blocks back to the system after a step, and gets them page by page again.
    """
    with suppress(OSError, AttributeError):  # not glibc
        mallopt, trim_threshold, mmap_threshold = ctypes.CDLL(None).mallopt, -1, -3
        mallopt(trim_threshold, 1 << 29)
        mallopt(mmap_threshold, 1 << 25)


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


def load(path: str | Path, task: Task | FileTask | None = None) -> Run:
    """A run from its directory. A task of your own that csprop has no name for must be given."""
    folder = RunFolder(path)
    config = from_json(folder.path, folder.read_config())
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
    result = folder.read_json(checkpoint.RESULT) if folder.has(checkpoint.RESULT) else None
    if result is not None and not (isinstance(result, dict) and result.keys() >= RESULTS):
        raise InputError(f"{folder.path / checkpoint.RESULT}: is no result; the run is damaged")
    return Run(model.eval(), task, config, folder.read_metrics(), result, folder.path)


def stored_config(path: str | Path) -> RunConfig:
    """What a run directory says of itself."""
    folder = RunFolder(path)
    return from_json(folder.path, folder.read_config(verify=False))


def stored_task(config: RunConfig) -> Task | FileTask:
    """The task that a configuration names."""
    named = config.task
    if "data" not in named:
        return get(named["name"])
    path = Path(named["data"])
    return FileTask(path, named["sha256"], named["vocab"], named["classes"], named["words"])


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
        raise InputError(f"{described(task).get('data', task.name)}: {error}") from None


def ended(
    trainer: Trainer,
    task: Task | FileTask,
    config: RunConfig,
    metrics: list[Row],
    every_input: bool,
) -> Run:
    """A finished training as a run: the best weights, and how they do."""
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
    if every_input and isinstance(task, Task) and len(task.vocab) ** recipe.length <= MOST_INPUTS:
        every = exhaustive(trainer.model, task, recipe.length)
        result["exhaustive"] = asdict(every) | {"length": recipe.length}
    return Run(trainer.model.eval(), task, config, metrics, result)
