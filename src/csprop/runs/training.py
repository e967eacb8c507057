"""Training a run, or one for each of several seeds.

`csprop train` and `csprop.train` both use this module. Wrong input is refused before torch is
imported.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from csprop.errors import Diverged, InputError, about
from csprop.progress import Epoch, bar, summary
from csprop.tasks import FileTask, RowsTask, resolve
from csprop.tasks.base import Task
from csprop.tasks.pairs import check_share
from csprop.training import checkpoint
from csprop.training.checkpoint import refuse_existing, refuse_zoo
from csprop.training.config import RunConfig, check_seed, configure
from csprop.training.workers import check_torchrun, label_seeds, pool, worst_row

if TYPE_CHECKING:
    from csprop.runs.run import Run
    from csprop.training.distributed import Group

OnEpoch = Callable[[dict[int, Epoch]], None]
"""Is called after an epoch with the metrics of every seed."""


def ignore(rows: object) -> None:
    """Do nothing after an epoch; worker processes can import it, as they could not a lambda."""


def train(
    task: str | Path | Task,
    preset: str | None = None,
    seed: int = 0,
    out: str | Path | None = None,
    resume: bool = False,
    on_epoch: Callable[[Epoch], None] = ignore,
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
            own = out if first else None
            again = resume and first
            task, configs = _prepare(task, {seed: own}, own, preset, again, changes)
        tell = lambda rows: on_epoch(rows[seed])  # noqa: E731
        (outcome,) = _execute(task, configs, [own], again, tell, progress and first, group)
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


def train_seeds(
    task: str | Path | Task,
    seeds: Iterable[int],
    preset: str | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    on_epoch: OnEpoch = ignore,
    progress: bool = True,
    workers: int = 1,
    **changes: Any,
) -> "list[Run | Diverged]":
    """Train one model for each seed, all in one computation, with the arguments of `train`.

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
    """
    folders = {seed: None if out is None else Path(out) / f"seed-{seed}" for seed in seeds}
    task, configs = _prepare(task, folders, out, preset, resume, changes)
    outs, workers = list(folders.values()), min(workers, len(folders))
    if workers <= 1 or out is None:
        return _execute(task, configs, outs, resume, on_epoch, progress)
    ends = [len(outs) * (worker + 1) // workers for worker in range(workers)]
    with pool(workers, "add --resume to the same command to continue") as executor:
        parts = [
            executor.submit(_share, task, configs[begin:end], outs[begin:end], resume, on_epoch)
            for begin, end in zip([0, *ends], ends, strict=False)
        ]
        outcomes = [outcome for part in parts for outcome in part.result()]
    from csprop.runs.run import load
    from csprop.training.stored import within

    return [
        each if isinstance(each, Diverged)
        else replace(load(path, within(task, path)), torch_because=each)
        for path, each in zip(filter(None, outs), outcomes, strict=True)
    ]  # fmt: skip


def _prepare(
    task: str | Path | Task,
    outs: Mapping[int, str | Path | None],
    folder: str | Path | None,
    preset: str | None,
    resume: bool,
    changes: dict[str, Any],
) -> tuple[Task, list[RunConfig]]:
    """Look up the task, make the configurations, and refuse what cannot be trained.

    `outs` has the run directory of each seed. Rows from Python are written into `folder`.
    """
    task = resolve(task)
    if not outs:
        raise InputError("give at least one", "seeds", [])
    if "" in outs.values():
        raise InputError("write the name of a directory", "out", "")
    for seed in outs:
        check_seed(seed)
    config = configure(task, preset, next(iter(outs)), **changes)
    if task.oracle is not None:
        with about("length", config.recipe.length):
            task.check_length(config.recipe.length)
    if config.recipe.hold_pairs:
        check_share(task, config.recipe.hold_pairs)
    (refuse_zoo if resume else refuse_existing)(out for out in outs.values() if out is not None)
    if folder is not None and isinstance(task, RowsTask) and not isinstance(task, FileTask):
        task = task.save(Path(folder) / checkpoint.ROWS)
        config = replace(config, task=task.describe())
    return task, [replace(config, seed=seed) for seed in outs]


def _execute(
    task: Task,
    configs: Sequence[RunConfig],
    outs: Sequence[str | Path | None],
    resume: bool,
    on_epoch: OnEpoch,
    progress: bool = False,
    group: "Group | None" = None,
) -> "list[Run | Diverged]":
    """Train, with a bar for the worst seed."""
    from csprop.runs.run import Run
    from csprop.training.session import execute
    from csprop.training.stored import Trained

    label = label_seeds(task.name, [config.seed for config in configs])
    most = configs[0].recipe.epochs
    with bar(label, most, progress) as tell:

        def after(rows: dict[int, Epoch]) -> None:
            row = worst_row(rows)
            tell(f"{row['epoch']}/{most} {summary(row)}", row["epoch"])
            on_epoch(rows)

        outcomes = execute(task, configs, outs, resume, after, group=group)
    return [Run.of(each) if isinstance(each, Trained) else each for each in outcomes]


def _share(*arguments: Any) -> "list[str | Diverged]":
    """Train some of the seeds in a worker process; the runs themselves are in their directories."""
    outcomes = _execute(*arguments)
    return [each if isinstance(each, Diverged) else each.torch_because for each in outcomes]


def _join() -> "AbstractContextManager[Group]":
    check_torchrun()
    from csprop.training.distributed import joined

    return joined()
