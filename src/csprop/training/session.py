"""Training from start to end, in memory or in run directories."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save
from torch import Tensor

from csprop import files
from csprop.errors import Diverged, InputError
from csprop.nn.kernel import why_not
from csprop.nn.model import CSP
from csprop.tasks.base import Task
from csprop.training.batches import training_data
from csprop.training.checkpoint import (
    CERTIFICATE,
    CONFIG,
    DIAGNOSIS,
    FILES,
    LAST,
    LOCKED,
    MANIFEST,
    METRICS,
    RESULT,
    WEIGHTS,
    RunFolder,
    metrics_line,
    refuse_existing,
)  # fmt: skip
from csprop.training.config import (
    RunConfig,
    check_same,
    environment,
    from_json,
    identity,
    to_json,
    use_environment,
)  # fmt: skip
from csprop.training.loop import Epoch, Trainer, run_epochs
from csprop.training.metrics import finish
from csprop.training.seeding import generator
from csprop.training.stored import Trained, within
from csprop.training.workers import keep_freed_memory

MOST_TOKENS = 1 << 16
"""Largest number of tokens in one step of models that are trained together; bounds the memory."""


def execute(
    task: Task,
    configs: Sequence[RunConfig],
    outs: Sequence[str | Path | None],
    resume: bool = False,
    on_epoch: Callable[[dict[int, Epoch]], None] = lambda rows: None,
    every_input: bool = True,
) -> list[Trained | Diverged]:
    """Train models whose configurations differ only in their seed, in directories or in memory.

    With `every_input`, every input of the trained length is tested in the end, if there are at most
    2^20.

    Returns:
        For each configuration the trained model, or the reason why it diverged.
    """
    keep_freed_memory()
    with ExitStack() as stack:
        sessions = []
        for config, out in zip(configs, outs, strict=True):
            sessions.append(session := _Session(task, config, out))
            stack.enter_context(session.writing(resume))
        for alike in _groups(sessions):
            with use_environment(alike[0].environment):
                _train(alike, on_epoch)
                for session in alike:
                    session.end(every_input)
    return [session.outcome for session in sessions if session.outcome is not None]


class _Session:
    """A run in training, in memory or in its directory."""

    def __init__(self, task: Task, config: RunConfig, out: str | Path | None) -> None:
        self.folder = None if out is None else RunFolder(out)
        self.task = task if self.folder is None else within(task, self.folder.path)
        training, held_out = training_data(self.task, config)
        # At least twenty steps per epoch, even for a small file; config.json has the resolved value.
        batch_size = min(config.recipe.batch_size, max(1, len(training) // 20))
        recipe = replace(config.recipe, batch_size=batch_size)
        self.config = replace(config, task=self.task.describe(), recipe=recipe)
        model = CSP(self.config.model, generator(config.seed, "weights"))
        self.trainer = Trainer(model, training, held_out, recipe, config.seed)
        self.environment = environment()
        self.metrics: list[Epoch] = []
        self.outcome: Trained | Diverged | None = None

    @property
    def going(self) -> bool:
        return self.outcome is None and not self.trainer.finished

    @contextmanager
    def writing(self, again: bool) -> Iterator[None]:
        """Create the run directory, or continue from its last epoch; no other process writes there."""
        if self.folder is None:
            if again:
                raise InputError("resume needs a run directory: give out")
            yield
            return
        with files.one_writer(self.folder.path):
            document = to_json(self.config, self.task, self.environment)
            if not self.folder.has(CONFIG):
                self.folder.create(document)
            elif again:
                self._resume(self.folder, document)
            else:  # it was not there a moment ago
                refuse_existing([self.folder.path])
            yield

    def _resume(self, folder: RunFolder, document: dict[str, Any]) -> None:
        stored = folder.read_config(verify=False)
        check_same(folder.path, from_json(folder.path, stored), self.config)
        document["environment"] = self.environment = stored["environment"]
        restore(folder, self.trainer, identity(self.config))
        if self.trainer.epoch > self.config.recipe.epochs:
            raise InputError(
                f"{folder.path}: already has {self.trainer.epoch} epochs: "
                f"write --epochs {self.trainer.epoch} or more"
            )
        folder.write_json(CONFIG, document)  # `epochs` may have changed
        if self.going:
            folder.remove(CERTIFICATE, LOCKED, RESULT, DIAGNOSIS)  # the weights will change

    def commit(self, row: Epoch | Diverged) -> None:
        """Save a completed epoch, or the reason why training diverged."""
        if isinstance(row, Diverged):
            self.outcome = row
            if self.folder:
                self.folder.write_json(DIAGNOSIS, row.diagnosis)
        elif self.folder:
            commit_epoch(self.folder, row, self.trainer, identity(self.config))
        else:
            self.metrics.append(row)

    def end(self, every_input: bool) -> None:
        if self.outcome is not None:
            return
        metrics = self.folder.read_metrics() if self.folder else self.metrics
        self.outcome = run = finish(self.trainer, self.task, self.config, metrics, every_input)
        run.environment, run.torch_because = self.environment, why_not(self.trainer.model)
        if self.folder and run.result is not None:
            self.folder.write(WEIGHTS, save(run.model.state_dict()))  # angles may be whole now
            self.folder.write_json(RESULT, run.result.to_json())
            run.path = self.folder.path


def commit_epoch(folder: RunFolder, row: Epoch, trainer: Trainer, identity: str) -> None:
    """Save a completed epoch, together with the identity of the run's configuration."""
    files.append(folder.path / METRICS, metrics_line(row))
    if trainer.best is row:
        files.replace(folder.path / WEIGHTS, save(trainer.best_weights))
    tensors, values = trainer.state()
    values["sha256"] = {
        "state": files.digest(save(tensors) + json.dumps(values).encode()),
        "metrics": files.digest((folder.path / METRICS).read_bytes()),
        "identity": identity,
    }
    files.replace(folder.path / LAST, save(tensors, {"csprop": json.dumps(values)}))
    folder.write_manifest()


def restore(folder: RunFolder, trainer: Trainer, identity: str) -> None:
    """Return the trainer and every file to the last committed epoch; refuse files that were changed."""
    for path in (folder.path, folder.path / "last"):
        files.sweep(path)
    lines: list[bytes] = []
    if folder.has(LAST):
        tensors, values = read_last(folder)
        content = folder.read_bytes(METRICS) if folder.has(METRICS) else b""
        lines = content.splitlines(keepends=True)[: values["epoch"]]
        digests = {"metrics": files.digest(b"".join(lines)), "identity": identity}
        for name, file in (("metrics", METRICS), ("identity", CONFIG)):
            if values["sha256"][name] != digests[name]:
                raise InputError(
                    f"{folder.path / file}: was changed since {LAST} was written: "
                    "train again with another --out"
                )
        trainer.restore(tensors, values)
        files.replace(folder.path / WEIGHTS, save(trainer.best_weights))
    else:
        written = folder.digests() if folder.has(MANIFEST) else filter(folder.has, FILES)
        if {LAST, WEIGHTS, RESULT}.intersection(written):
            raise InputError(f"{folder.path / LAST}: is missing: train again with another --out")
        (folder.path / WEIGHTS).unlink(missing_ok=True)  # of a first epoch that was cut off
    (folder.path / "last").mkdir(exist_ok=True)
    files.replace(folder.path / METRICS, b"".join(lines))
    folder.write_manifest()


def read_last(folder: RunFolder) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the state of the trainer after the last epoch, checked against its digest."""
    path = folder.path / LAST
    try:
        with safe_open(path, framework="pt") as file:
            values = json.loads(file.metadata()["csprop"])
        tensors, digests = load_file(path), values.pop("sha256")
        if files.digest(save(tensors) + json.dumps(values).encode()) == digests["state"]:
            return tensors, values | {"sha256": digests}
    except (SafetensorError, OSError, ValueError, RecursionError, LookupError, TypeError):
        pass
    raise InputError(f"{path}: is damaged: train again with another --out")


def _groups(sessions: Sequence[_Session]) -> Iterator[list[_Session]]:
    """Yield groups to train together: the same shapes, threads and backend, within memory."""
    alike: dict[tuple[Any, ...], list[_Session]] = {}
    for session in sessions:
        training, where = session.trainer.training, session.environment
        epoch = session.trainer.epoch  # which may decide temperature and lengths
        key = (len(training), where["threads"], where["backend"], epoch)
        alike.setdefault(key, []).append(session)
    for group in alike.values():
        trainer = group[0].trainer
        longest = max(trainer.training.longest, trainer.held_out.longest, 1)
        together = max(1, MOST_TOKENS // (trainer.recipe.batch_size * longest))
        for start in range(0, len(group), together):
            yield group[start : start + together]


def _train(group: Sequence[_Session], on_epoch: Callable[[dict[int, Epoch]], None]) -> None:
    while going := [session for session in group if session.going]:
        rows = run_epochs([session.trainer for session in going])
        finished: dict[int, Epoch] = {}
        for session, row in zip(going, rows, strict=True):
            session.commit(row)
            if not isinstance(row, Diverged):
                finished[session.config.seed] = row
        if finished:
            on_epoch(finished)
