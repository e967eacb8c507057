"""Training a run, or one for each of several seeds."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from csprop.progress import epochs
from csprop.runs.run import Run
from csprop.tasks import FileTask, RowsTask, resolve
from csprop.tasks.base import Task
from csprop.training import checkpoint
from csprop.training.checkpoint import refuse_existing, refuse_zoo
from csprop.training.config import RunConfig, configure
from csprop.training.loop import Diverged, Epoch
from csprop.training.seeds import label_of, worst
from csprop.training.session import Trained, execute

if TYPE_CHECKING:
    from csprop.training.distributed import Group


def _kept(task: Task, out: str | Path | None, runs: Sequence[str | Path | None], resume: bool) -> Task:
    """The task; rows from Python are written into the directory of the run, which needs them later."""
    if out is None or not isinstance(task, RowsTask) or isinstance(task, FileTask):
        return task
    refuse = refuse_zoo if resume else refuse_existing
    refuse(each for each in runs if each is not None)
    return task.save(Path(out) / checkpoint.ROWS)


def _shown(
    task: Task,
    configs: Sequence[RunConfig],
    outs: Sequence[str | Path | None],
    resume: bool,
    on_epoch: Callable[[dict[int, Epoch]], None],
    progress: bool,
    group: "Group | None" = None,
) -> list[Trained | Diverged]:
    """Train, and show how far it is."""
    label = label_of(task, [config.seed for config in configs])
    with epochs(label, configs[0].recipe.epochs, progress) as show:

        def after(rows: dict[int, Epoch]) -> None:
            show(worst(rows))
            on_epoch(rows)

        return execute(task, configs, outs, resume, after, group=group)


def _joined() -> "AbstractContextManager[Group]":
    from csprop.training.distributed import joined

    return joined()


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
) -> Run:
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
            return the same run; that of the first alone is in `out`, the others' are in memory.
        changes: options of `CSPConfig` or `Recipe` that differ from the preset, such as
            `rotate="input"`.

    Raises:
        InputError: there is no such task or option, or the directory already holds a run.
        Diverged: a loss or a gradient was not finite.
        ConnectionError: another process has ended.
    """
    with _joined() if distributed else nullcontext() as group:
        first = group is None or group.rank == 0
        with nullcontext() if group is None else group.agreed():
            task = _kept(resolve(task), out if first else None, [out], resume)
            configs = [configure(task, preset, seed, **changes)]
        each = lambda rows: on_epoch(rows[seed])  # noqa: E731
        (trained,) = _shown(task, configs, [out], resume, each, progress and first, group)
    if isinstance(trained, Diverged):
        raise trained
    return Run.of(trained)


def train_seeds(
    task: str | Path | Task,
    seeds: Iterable[int],
    preset: str | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    on_epoch: Callable[[dict[int, Epoch]], None] = lambda rows: None,
    progress: bool = True,
    **changes: Any,
) -> list[Run | Diverged]:
    """Train one model for each seed, all in one computation.

    Each result equals that of `train` with this seed, up to the rounding of sums.

    Args:
        task: as for `train`.
        seeds: the seeds.
        preset: as for `train`.
        out: a directory for the runs, which are named seed-0, seed-1, …
        resume: as for `train`.
        on_epoch: is called after each epoch with the metrics of every seed.
        progress: show a bar, in a notebook or on a terminal, of the seed that is worst.
        changes: as for `train`.

    Returns:
        For each seed its run, or the reason why it diverged.

    Raises:
        InputError: there is no such task or option, or a directory already holds a run.
    """
    seeds = list(seeds)
    outs = [None if out is None else Path(out) / f"seed-{seed}" for seed in seeds]
    task = _kept(resolve(task), out, outs, resume)
    configs = [configure(task, preset, seed, **changes) for seed in seeds]
    outcomes = _shown(task, configs, outs, resume, on_epoch, progress)
    return [each if isinstance(each, Diverged) else Run.of(each) for each in outcomes]
