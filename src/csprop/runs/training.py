"""Training a run, or one for each of several seeds, and its proof if that takes only seconds.

`csprop train` and `csprop.train` both use this module. Wrong input is refused before torch is
imported.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from csprop.errors import Diverged, InputError, about
from csprop.progress import Epoch, OutOfTime, bar, summary, time_limit
from csprop.tasks import FileTask, RowsTask, resolve
from csprop.tasks.base import Task
from csprop.tasks.pairs import check_share
from csprop.training import checkpoint
from csprop.training.checkpoint import refuse_existing, refuse_zoo
from csprop.training.config import RunConfig, check_seed, configure, use_environment
from csprop.training.workers import label_seeds, pool, worst_row

if TYPE_CHECKING:
    from csprop.runs.run import Run

OnEpoch = Callable[[dict[int, Epoch]], None]
"""Is called after an epoch with the metrics of every seed."""
PROOF_SECONDS = 8.0
"""The processor time for the proof of a run; most built-in tasks take less than three seconds."""
LOCKABLE = {"rotor", "router", "counter", "switch", "tracker"}  # kinds of cells


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
    as_trained: bool = False,
    **changes: Any,
) -> "Run":
    """Train a model; if it has learned and can be locked, certify it, for a few seconds.

    Args:
        task: a task, its name, or a data file. Rows from Python are written to rows.jsonl in `out`.
        preset: the name of one in `PRESETS`; without it, the one that suits the task.
        seed: the seed of the data, the split, the initial weights and the order of examples.
        out: a run directory to write; without it, the run is kept in memory.
        resume: continue the run in `out` from its last completed epoch.
        on_epoch: is called with the metrics of each epoch.
        progress: show a bar, in a notebook or on a terminal.
        as_trained: do not certify the run; `Run.certify` does so at any time, without a limit.
        changes: options of `CSPConfig` or `Recipe` that differ from the preset, such as
            `rotate="input"`.

    Raises:
        InputError: there is no such task or option, or the directory already holds a run.
        Diverged: a loss or a gradient was not finite.
    """
    task, configs = _prepare(task, {seed: out}, out, preset, resume, changes)
    tell = lambda rows: on_epoch(rows[seed])  # noqa: E731
    (outcome,) = _execute(task, configs, [out], resume, tell, not as_trained, progress)
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
    as_trained: bool = False,
    **changes: Any,
) -> "list[Run | Diverged]":
    """Train one model for each seed, all in one computation. Other arguments are those of `train`.

    Each result equals the result of `train` with this seed, up to the rounding of sums.

    Args:
        seeds: the seeds.
        out: a directory for the runs, which are named seed-0, seed-1, …
        on_epoch: is called after each epoch with the metrics of every seed.
        progress: show a bar for the worst seed, in a notebook or on a terminal.
        workers: the number of processes that share the seeds, if there is an `out`. Each calls
            `on_epoch`, a function of a module, for its own seeds, and shows no bar.

    Returns:
        For each seed its run, or the reason why it diverged.
    """
    folders = {seed: None if out is None else Path(out) / f"seed-{seed}" for seed in seeds}
    task, configs = _prepare(task, folders, out, preset, resume, changes)
    outs, workers = list(folders.values()), min(workers, len(folders))
    how = (resume, on_epoch, not as_trained)
    if workers <= 1 or out is None:
        return _execute(task, configs, outs, *how, progress)
    ends = [len(outs) * (worker + 1) // workers for worker in range(workers)]
    with pool(workers, "add --resume to the same command to continue") as executor:
        parts = [
            executor.submit(_share, task, configs[begin:end], outs[begin:end], *how)
            for begin, end in zip([0, *ends], ends, strict=False)
        ]
        outcomes = [outcome for part in parts for outcome in part.result()]
    from csprop.runs.run import load
    from csprop.training.stored import within

    return [
        each if isinstance(each, Diverged)
        else replace(load(path, within(task, path)), **each)
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
    proves: bool,
    progress: bool = False,
) -> "list[Run | Diverged]":
    """Train, with a bar for the worst seed, and prove the runs."""
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

        outcomes = execute(task, configs, outs, resume, after)
    runs = [Run.of(each) if isinstance(each, Trained) else each for each in outcomes]
    if proves:
        _prove([each for each in runs if isinstance(each, Run)], progress)
    return runs


def _share(*arguments: Any) -> "list[dict[str, str] | Diverged]":
    """Train some of the seeds in a worker process; return what the run directories do not have."""
    return [
        each if isinstance(each, Diverged)
        else {"torch_because": each.torch_because, "no_proof": each.no_proof}
        for each in _execute(*arguments)
    ]  # fmt: skip


def _prove(runs: "Sequence[Run]", progress: bool) -> None:
    """Certify the runs that have learned, can be locked and have no certificate."""
    from csprop.proof.attempts import LEARNED

    runs = [
        run for run in runs
        if run.task.total and {each.kind for each in run.config.model.layers} <= LOCKABLE
        and run.result and run.result.learned and run.result.accuracy >= LEARNED
    ]  # fmt: skip
    with bar("proof", len(runs), progress and bool(runs)) as tell:
        for number, run in enumerate(runs, start=1):
            try:
                if run.certificate is None:
                    # On a busy machine several threads are far slower for tensors of this size.
                    with time_limit(PROOF_SECONDS), use_environment(run.environment | {"threads": 1}):
                        run.certify(progress=False)
            except OutOfTime:
                run.no_proof = f"no proof within {PROOF_SECONDS:.0f} seconds"
            except InputError as error:  # the task cannot be proven, or its certificate does not hold
                run.no_proof = str(error)
            tell(f"{run.task.name} seed {run.config.seed}: {run.verdict}", number)
