"""Training from start to end, in memory or in run directories."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch

import csprop
from csprop.data.examples import Examples
from csprop.errors import Diverged, InputError
from csprop.files import one_writer
from csprop.nn.kernel import why_not
from csprop.nn.model import CSP
from csprop.tasks.base import Task
from csprop.training import checkpoint
from csprop.training.batches import training_data
from csprop.training.checkpoint import RunFolder, refuse_existing
from csprop.training.config import (
    RunConfig,
    check_same,
    environment,
    from_json,
    identity,
    names_of,
    to_json,
    use_environment,
)
from csprop.training.epochs import commit_epoch, resume
from csprop.training.loop import Epoch, Trainer, run_epochs
from csprop.training.metrics import exhaustive
from csprop.training.result import Exhaustive, Majority, Result
from csprop.training.scores import MOST_INPUTS, interval
from csprop.training.seeding import generator
from csprop.training.stored import within
from csprop.training.workers import keep_freed_memory

if TYPE_CHECKING:
    from csprop.training.distributed import Group

MOST_TOKENS = 1 << 16
"""Largest number of tokens in one step of models that are trained together; bounds the memory."""


@dataclass
class Trained:
    """A trained model, its task and its configuration."""

    model: CSP
    """The model as trained, with the best weights."""
    task: Task
    """The task that it was trained on."""
    config: RunConfig
    """The configuration, as in config.json."""
    metrics: list[Epoch]
    """One row per epoch, as in metrics.jsonl."""
    result: Result | None
    """The result, as in result.json; None if training is unfinished."""
    path: Path | None = None
    """The run directory, if there is one."""
    environment: dict[str, Any] = field(default_factory=environment)
    """The machine and software of the training: versions, CPU, threads, backend."""
    torch_because: str = ""
    """The reason why its last steps were torch operations; empty if the kernel took them."""
    training: Examples | None = field(default=None, repr=False)
    """The training set, if it is at hand; None for a run that was loaded."""

    @property
    def made(self) -> Literal["trained", "learned", "compiled"]:
        """The origin of the model; if it was not trained, a machine was written into its weights."""
        return "trained" if self.result is None else self.result.made


def execute(
    task: Task,
    configs: Sequence[RunConfig],
    outs: Sequence[str | Path | None],
    resume: bool = False,
    on_epoch: Callable[[dict[int, Epoch]], None] = lambda rows: None,
    every_input: bool = True,
    group: "Group | None" = None,
) -> list[Trained | Diverged]:
    """Train models whose configurations differ only in their seed.

    Args:
        task: the task.
        configs: the configurations.
        outs: the run directory of each, or None to keep it in memory.
        resume: continue the runs in the directories.
        on_epoch: is called after every epoch with the metrics of each seed.
        every_input: in the end, test every input of the trained length, if there are at most 2^20.
        group: processes that train the models together.

    Returns:
        For each configuration the trained model, or the reason why it diverged.

    Raises:
        InputError: a directory holds a run, or the run to resume does not fit.
        ConnectionError: another process of the group has ended.
    """
    keep_freed_memory()
    with ExitStack() as stack:
        with nullcontext() if group is None else group.agreed():
            sessions = []
            for config, out in zip(configs, outs, strict=True):
                sessions.append(session := _Session(task, config, out, group))
                stack.enter_context(session.writing(resume))
        if group is not None:
            for session in sessions:
                session.join(group)
        for alike in _groups(sessions):
            with use_environment(alike[0].environment):
                _train(alike, on_epoch)
                for session in alike:
                    session.end(every_input)
    return [session.outcome for session in sessions if session.outcome is not None]


class _Session:
    """A run in training, in memory or in its directory."""

    def __init__(
        self, task: Task, config: RunConfig, out: str | Path | None, group: "Group | None"
    ) -> None:
        self.folder = None if out is None else RunFolder(out)
        self.task = task if self.folder is None else within(task, self.folder.path)
        training, held_out = training_data(self.task, config)
        # At least twenty steps per epoch, even for a small file; config.json has the resolved value.
        batch_size = min(config.recipe.batch_size, max(1, len(training) // 20))
        recipe = replace(config.recipe, batch_size=batch_size)
        self.config = replace(config, task=self.task.describe(), recipe=recipe)
        model = CSP(self.config.model, generator(config.seed, "weights"))
        self.trainer = Trainer(model, training, held_out, recipe, config.seed)
        self.environment = environment() | ({} if group is None else {"processes": group.size})
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
        with one_writer(self.folder.path):
            document = to_json(self.config, self.task, self.environment)
            if not self.folder.exists():
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
        resume(folder, self.trainer, identity(self.config))
        if self.trainer.epoch > self.config.recipe.epochs:
            raise InputError(
                f"{folder.path}: already has {self.trainer.epoch} epochs: "
                f"write --epochs {self.trainer.epoch} or more"
            )
        folder.write_json(checkpoint.CONFIG, document)  # `epochs` may have changed
        if self.going:
            # They are about weights that will change.
            folder.remove(checkpoint.CERTIFICATE, checkpoint.LOCKED)
            folder.remove(checkpoint.RESULT, checkpoint.DIAGNOSIS)

    def join(self, group: "Group") -> None:
        """Begin where the first process of a group begins, and share every batch with all of them.

        Raises:
            InputError: another process has other options or other data.
        """
        task = self.config.task  # where a file lies is each machine's own affair
        shown = {"task": task.get("sha256", task), "csprop": csprop.__version__}
        same = asdict(self.config) | shown
        with group.agreed():
            if same != group.of_first(same):
                raise InputError(
                    "its options, its data file or its csprop are not those of process 0: "
                    "start the same command with the same file on every machine"
                )
        self.environment = group.of_first(self.environment)
        self.trainer.follow(group)

    def commit(self, row: Epoch | Diverged) -> None:
        """Save a completed epoch, or the reason why training diverged."""
        if isinstance(row, Diverged):
            self.outcome = row
            if self.folder:
                self.folder.write_json(checkpoint.DIAGNOSIS, row.diagnosis)
        elif self.folder:
            commit_epoch(self.folder, row, self.trainer, identity(self.config))
        else:
            self.metrics.append(row)

    def end(self, every_input: bool) -> None:
        if self.outcome is not None:
            return
        metrics = self.folder.read_metrics() if self.folder else self.metrics
        if self.trainer.group is not None:
            metrics = self.trainer.group.of_first(metrics)
        self.outcome = run = ended(self.trainer, self.task, self.config, metrics, every_input)
        run.environment, run.torch_because = self.environment, why_not(self.trainer.model)
        if self.folder and run.result is not None:
            self.folder.write_json(checkpoint.RESULT, run.result.to_json())
            run.path = self.folder.path


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


def ended(
    trainer: Trainer, task: Task, config: RunConfig, metrics: list[Epoch], every_input: bool
) -> Trained:
    """Return the result of a completed training: the model with its best weights, and its scores.

    Args:
        trainer: has finished; its model gets the best weights.
        task: the task.
        config: the configuration.
        metrics: one row per epoch.
        every_input: test every input of the trained length, if there are at most 2^20.
    """
    trainer.model.load_state_dict(trainer.best_weights)
    trainer.model.eval()
    trainer.model.zero_grad()  # the gradients of the last step are of no further use
    trainer.model.trained_as, trainer.model.names = config, names_of(task)
    recipe, best = config.recipe, trainer.best
    early = trainer.epoch < recipe.epochs
    at_target = [row["epoch"] for row in metrics if row["accuracy"] >= trainer.target]
    every, answers = None, task.total and task.oracle is not None
    if every_input and answers and len(task.vocab) ** recipe.length <= MOST_INPUTS:
        every = exhaustive(trainer.model, task, recipe.length)
    majority, learned = _judge(trainer, task)
    result = Result(
        epochs=trainer.epoch,
        ended=f"the target held for {recipe.hold} epochs" if early else "the last epoch",
        first_epoch_at_target=min(at_target, default=None),
        best_epoch=best["epoch"],
        accuracy=best["accuracy"],
        f1=best["f1"],
        learned=learned,
        majority=majority,
        parameters=sum(p.numel() for p in trainer.model.parameters()),
        exhaustive=None if every is None else Exhaustive(**asdict(every), length=recipe.length),
    )
    return Trained(trainer.model, task, config, metrics, result, training=trainer.training)


def _judge(trainer: Trainer, task: Task) -> tuple[Majority, bool]:
    """Return the majority class, and True if the accuracy is above its share by more than chance."""
    counts = torch.zeros(len(task.classes), dtype=torch.int64)
    for steps in trainer.held_out.windows():
        counts += steps.labels[steps.answers].bincount(minlength=len(counts))
    total, most = int(counts.sum()), int(counts.max())
    accuracy = trainer.best["accuracy"]
    # The best of many epochs is lucky: the probability of an error is shared among them.
    low, _ = interval(round(accuracy * total), total, 0.01 / trainer.epoch)
    majority = Majority(task.classes[int(counts.argmax())], most / total)
    return majority, accuracy == 1 or low > majority.share
