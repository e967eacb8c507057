"""Training several seeds of one configuration, together or in several processes."""

import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from csprop.errors import InputError
from csprop.tasks import Task, resolve
from csprop.training.checkpoint import refuse_existing
from csprop.training.config import configure
from csprop.training.workers import cores, pool

if TYPE_CHECKING:
    from csprop.training.distributed import Group

MOST_SEEDS = 10_000

Epoch = dict[str, float | int]
"""One row of metrics.jsonl."""
Progress = Callable[[str, int, bool], AbstractContextManager[Callable[[Epoch], None]]]
"""A function of a label, the number of epochs, and whether several processes share the terminal. It
returns a context manager whose value is a callback for every epoch."""


@dataclass(frozen=True)
class Seeds:
    """A configuration, and the run directory of each seed to train it with."""

    task: str | Path | Task
    preset: str
    options: dict[str, Any]
    outs: dict[int, Path]
    resume: bool = False

    def part(self, seeds: Sequence[int]) -> "Seeds":
        """The same job for some of the seeds."""
        return replace(self, outs={seed: self.outs[seed] for seed in seeds})


def parse_seeds(text: str) -> list[int]:
    """Read a list of seeds, such as "0-9" or "0,3,5-7".

    Raises:
        InputError: the text is not such a list, or there are more than 10,000 seeds.
    """
    seeds: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", part.strip())
        if not match or int(match[2] or match[1]) < int(match[1]):
            raise InputError(f"--seeds {text}: write a range such as 0-9, or a list such as 0,3,5")
        seeds.extend(islice(range(int(match[1]), int(match[2] or match[1]) + 1), MOST_SEEDS + 1))
    if len(seeds) > MOST_SEEDS:
        raise InputError(f"--seeds {text}: write at most {MOST_SEEDS:,} seeds")
    return list(dict.fromkeys(seeds))


def seed_ranges(seeds: Sequence[int]) -> str:
    """Write a list of seeds with ranges: the inverse of `parse_seeds`."""
    parts: list[list[int]] = []
    for seed in seeds:
        if parts and seed == parts[-1][-1] + 1:
            parts[-1].append(seed)
        else:
            parts.append([seed])
    return ",".join(f"{part[0]}-{part[-1]}" if len(part) > 1 else str(part[0]) for part in parts)


def train(
    seeds: Seeds, progress: Progress, shared: bool = False, group: "Group | None" = None
) -> list[dict[str, Any]]:
    """Train all seeds together in this process.

    Args:
        seeds: the job.
        progress: shows the progress of training.
        shared: whether other processes write to the same terminal.
        group: processes that train the models together; only the first shows the progress.

    Returns:
        For each seed a dictionary for `--json`: the result, or "diverged" with the reason.
    """
    from csprop.training.loop import Diverged
    from csprop.training.session import execute

    task = resolve(seeds.task)
    configs = [configure(task, seeds.preset, seed, **seeds.options) for seed in seeds.outs]
    label = label_of(task, list(seeds.outs))
    silent = nullcontext(lambda row: None)
    quiet = group is not None and group.rank > 0
    with silent if quiet else progress(label, configs[0].recipe.epochs, shared) as on_epoch:
        outs, each = list(seeds.outs.values()), lambda epochs: on_epoch(worst(epochs))
        outcomes = execute(task, configs, outs, seeds.resume, each, group=group)
    results = []
    for (seed, out), outcome in zip(seeds.outs.items(), outcomes, strict=True):
        result = {"task": task.name, "preset": seeds.preset, "seed": seed, "run": str(out)}
        if isinstance(outcome, Diverged):
            results.append(result | {"diverged": str(outcome)})
        else:
            result["torch_because"] = outcome.torch_because
            results.append(result | (outcome.result or {}))
    return results


def label_of(task: Task, seeds: Sequence[int]) -> str:
    """What a bar is called that shows one seed, or the worst of several."""
    return f"{task.name} {'worst of' if len(seeds) > 1 else 'seed'} {seed_ranges(seeds)}"


def worst(epochs: dict[int, Epoch]) -> Epoch:
    """One row for several seeds: that of the seed with the lowest accuracy."""
    return min(epochs.values(), key=lambda row: row["accuracy"])


def share_out(seeds: Seeds, progress: Progress, workers: int | None = None) -> list[dict[str, Any]]:
    """Train the seeds in several processes, as `train` does in one.

    Args:
        seeds: the job.
        progress: shows the progress of training.
        workers: the number of processes; by default one per core, each with at least two seeds.
    """
    # A process takes seconds to start: give it at least two seeds.
    workers = workers or min(cores(), max(1, len(seeds.outs) // 2))
    every = list(seeds.outs)
    shares = [
        every[len(every) * i // workers : len(every) * (i + 1) // workers] for i in range(workers)
    ]
    shares = [share for share in shares if share]
    if len(shares) == 1:
        return train(seeds, progress)
    if not seeds.resume:
        refuse_existing(seeds.outs.values())
    with pool(len(shares), "add --resume to the same command to continue") as executor:
        jobs = [executor.submit(train, seeds.part(share), progress, True) for share in shares]
        return [result for job in jobs for result in job.result()]
