"""Training a run, or one for each of several seeds.

`csprop train` and `csprop.train` both use this module. Wrong input is refused before torch is
imported.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from csprop.errors import Diverged, about
from csprop.progress import Epoch, epochs
from csprop.tasks import FileTask, RowsTask, resolve
from csprop.tasks.base import Task
from csprop.tasks.pairs import check_share
from csprop.training import checkpoint
from csprop.training.checkpoint import refuse_existing, refuse_zoo
from csprop.training.config import RunConfig, check_seed, configure
from csprop.training.seeds import label_seeds, worst_row
from csprop.training.workers import check_torchrun, pool

if TYPE_CHECKING:
    from csprop.runs.run import Run
    from csprop.training.distributed import Group

OnEpoch = Callable[[dict[int, Epoch]], None]
"""Is called after an epoch with the metrics of every seed."""


@dataclass(frozen=True)
class Job:
    """A task, and the configuration and the run directory of each seed to train."""

    task: Task
    configs: list[RunConfig]
    outs: list[Path | None]
    resume: bool

    def part(self, begin: int, end: int) -> "Job":
        """Return the same job for some of the seeds."""
        return replace(self, configs=self.configs[begin:end], outs=self.outs[begin:end])


def train(
    task: str | Path | Task,
    preset: str | None = None,
    seed: int = 0,
    out: str | Path | None = None,
    resume: bool = False,
    on_epoch: Callable[[Epoch], None] = lambda row: None,
    progress: bool = True,
    distributed: bool = False,
    **changes: Any,
) -> "Run":
    """Train a model.

    Args:
        task: a task, its name, or a data file. Rows from Python are written to rows.jsonl in `out`.
        preset: the name of one in `PRESETS`; without it, the one that suits the task.
        seed: the seed of the data, the split, the initial weights and the order of examples.
        out: a run directory to write; without it, the run is kept in memory.
        resume: continue the run in `out` from its last completed epoch.
        on_epoch: is called with the metrics of each epoch.
        progress: show a bar, in a notebook or on a terminal.
        distributed: share every batch with the other processes that torchrun has started. All of them
            return the same run. The first process alone writes it to `out`.
        changes: options of `CSPConfig` or `Recipe` that differ from the preset, such as
            `rotate="input"`.

    Raises:
        InputError: there is no such task or option, or the directory already holds a run.
        Diverged: a loss or a gradient was not finite.
        ConnectionError: another process has ended.
    """
    with _join() if distributed else nullcontext() as group:
        first = group is None or group.rank == 0
        with nullcontext() if group is None else group.agreed():
            outs = {seed: out if first else None}
            job = _prepare(task, outs, out if first else None, preset, resume and first, changes)
        (outcome,) = _execute(job, lambda rows: on_epoch(rows[seed]), progress and first, group)
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


def train_seeds(
    task: str | Path | Task,
    seeds: Iterable[int],
    preset: str | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    on_epoch: OnEpoch = lambda rows: None,
    progress: bool = True,
    workers: int = 1,
    **changes: Any,
) -> "list[Run | Diverged]":
    """Train one model for each seed, all in one computation.

    Each result equals the result of `train` with this seed, up to the rounding of sums.

    Args:
        task: as for `train`.
        seeds: the seeds.
        preset: as for `train`.
        out: a directory for the runs, which are named seed-0, seed-1, …
        resume: as for `train`.
        on_epoch: is called after each epoch with the metrics of every seed.
        progress: show a bar for the worst seed, in a notebook or on a terminal.
        workers: the number of processes that share the seeds, if there is an `out`. Each calls
            `on_epoch`, a function of a module, for its own seeds, and shows no bar.
        changes: as for `train`.

    Returns:
        For each seed its run, or the reason why it diverged.

    Raises:
        InputError: there is no such task or option, or a directory already holds a run.
    """
    outs = {seed: None if out is None else Path(out) / f"seed-{seed}" for seed in seeds}
    job, count = _prepare(task, outs, out, preset, resume, changes), len(outs)
    if min(workers, count) <= 1 or out is None:
        return _execute(job, on_epoch, progress)
    shares = [job.part(count * i // workers, count * (i + 1) // workers) for i in range(workers)]
    shares = [share for share in shares if share.configs]
    with pool(len(shares), "add --resume to the same command to continue") as executor:
        parts = [executor.submit(_execute_share, share, on_epoch) for share in shares]
        ends = [end for part in parts for end in part.result()]
    return [
        end if isinstance(end, Diverged) else _read(job.task, path, end)
        for path, end in zip(job.outs, ends, strict=True)
    ]


def _prepare(
    task: str | Path | Task,
    outs: Mapping[int, str | Path | None],
    folder: str | Path | None,
    preset: str | None,
    resume: bool,
    changes: dict[str, Any],
) -> Job:
    """Look up the task, make the configurations, and refuse what cannot be trained.

    Args:
        task: a task, its name, or a data file.
        outs: the run directory of each seed.
        folder: the directory that holds all of them; rows from Python are written into it.
        preset: the name of a preset.
        resume: continue the runs.
        changes: options that differ from the preset.
    """
    task = resolve(task)
    for seed in outs:
        check_seed(seed)
    config = configure(task, preset, next(iter(outs), 0), **changes)
    if task.oracle is not None:
        with about("length", config.recipe.length):
            task.check_length(config.recipe.length)
    if config.recipe.hold_pairs:
        check_share(task, config.recipe.hold_pairs)
    paths = [None if out is None else Path(out) for out in outs.values()]
    (refuse_zoo if resume else refuse_existing)(path for path in paths if path is not None)
    if folder is not None and isinstance(task, RowsTask) and not isinstance(task, FileTask):
        task = task.save(Path(folder) / checkpoint.ROWS)
        config = replace(config, task=task.describe())
    return Job(task, [replace(config, seed=seed) for seed in outs], paths, resume)


def _execute(
    job: Job, on_epoch: OnEpoch, progress: bool, group: "Group | None" = None
) -> "list[Run | Diverged]":
    """Train, with a bar for the worst seed."""
    from csprop.runs.run import Run
    from csprop.training.session import Trained, execute

    label = label_seeds(job.task.name, [config.seed for config in job.configs])
    with epochs(label, job.configs[0].recipe.epochs, progress) as show:

        def after(rows: dict[int, Epoch]) -> None:
            show(worst_row(rows))
            on_epoch(rows)

        outcomes = execute(job.task, job.configs, job.outs, job.resume, after, group=group)
    return [Run.of(each) if isinstance(each, Trained) else each for each in outcomes]


def _execute_share(job: Job, on_epoch: OnEpoch) -> "list[str | Diverged]":
    """Train in a worker process; the runs themselves are in their directories."""
    outcomes = _execute(job, on_epoch, progress=False)
    return [each if isinstance(each, Diverged) else each.torch_because for each in outcomes]


def _read(task: Task, path: Path | None, torch_because: str) -> "Run":
    """Return a run that a worker process has trained."""
    from csprop.runs.run import load
    from csprop.training.stored import within

    assert path is not None
    run = load(path, within(task, path))
    run.torch_because = torch_because
    return run


def _join() -> "AbstractContextManager[Group]":
    check_torchrun()
    from csprop.training.distributed import joined

    return joined()
