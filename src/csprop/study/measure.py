"""From jobs to rows: train, and measure what was asked for."""

import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from torch import nn

from csprop.errors import InputError
from csprop.exact.certify import certify
from csprop.exact.lock import Labelled
from csprop.nn.config import CSPConfig
from csprop.nn.peers import Peer, PeerConfig
from csprop.study.job import Job
from csprop.tasks import get
from csprop.tasks.base import Task
from csprop.training import loop
from csprop.training.config import RunConfig, environment
from csprop.training.loop import Diverged, Trainer, generator
from csprop.training.metrics import sampled, score
from csprop.training.run import Run, ended, examples, execute

Row = dict[str, Any]
"""key, job, environment, seconds, and either `diverged` or result, curve, lengths, locked, …"""

MOST_TOKENS, FEWEST, MOST = 1 << 20, 4, 256
"""Sequences to try at a length: as many as have so many tokens, within bounds."""
CURVES = ("accuracy", "f1", "loss", "grad_norm")


def measure(jobs: Sequence[Job], unfinished: Path | None = None) -> list[Row]:
    """The rows of jobs that differ in their seed alone, trained together.

    Given a folder, models of csprop train into it and go on from where they were stopped.
    """
    if len({job.group for job in jobs}) != 1:
        raise InputError("jobs that are measured together may differ in their seed alone")
    if jobs[0].family == "peer":
        return [_row(job, run, [run]) for job in jobs for run in [_peer(job)]]
    trained = _csp(jobs, unfinished)
    return [_row(job, run, trained) for job, run in zip(jobs, trained, strict=True)]


def _csp(jobs: Sequence[Job], unfinished: Path | None) -> list[Run | Diverged]:
    configs = [_config(job, CSPConfig(**job.model)) for job in jobs]
    outs = [None if unfinished is None else unfinished / job.key for job in jobs]
    return execute(
        get(jobs[0].task),
        configs,
        outs,
        resume=unfinished is not None,
        every_input=jobs[0].every_input,
    )


def _config(job: Job, model: Any) -> RunConfig:
    return RunConfig(
        task={"name": job.task}, preset="study", seed=job.seed, model=model, recipe=job.recipe
    )


def _peer(job: Job) -> Run | Diverged:
    task, config = get(job.task), _config(job, PeerConfig(**job.model))
    model: Any = Peer(PeerConfig(**job.model), generator(job.seed, "weights"))
    trainer = Trainer(model, *examples(task, config), job.recipe, job.seed)
    metrics: list[loop.Row] = []
    while not trainer.finished:
        try:
            metrics.append(trainer.run_epoch())
        except Diverged as error:
            return error
    return ended(trainer, task, config, metrics, job.every_input)


def _row(job: Job, run: Run | Diverged, together: Sequence[Run | Diverged]) -> Row:
    row: Row = {"key": job.key, "job": asdict(job), "environment": environment()}
    started, seconds = time.perf_counter(), 0.0
    if isinstance(run, Diverged):
        row["diverged"] = str(run)
    else:
        assert isinstance(run.task, Task)
        # An epoch's seconds are those of all models that were still trained together.
        epochs = [len(other.metrics) for other in together if isinstance(other, Run)]
        for number, epoch in enumerate(run.metrics):
            seconds += epoch["seconds"] / sum(count > number for count in epochs)
        row["result"] = run.result
        row["curve"] = {name: [short(epoch[name]) for epoch in run.metrics] for name in CURVES}
        row["lengths"] = {
            str(length): at_length(run.model, run.task, length, job.seed) for length in job.test_lengths
        }
        if job.lock:
            row["locked"] = _locked(job, run)
    row["seconds"] = round(seconds + time.perf_counter() - started, 2)
    return row


def short(value: float) -> float:
    """Four digits, as rows and pages keep a curve."""
    return float(f"{value:.4g}")


def at_length(model: nn.Module, task: Task, length: int, seed: int) -> float:
    """The part of random sequences that a model gets right."""
    count = min(MOST, max(FEWEST, MOST_TOKENS // length))
    draws = generator(seed, "eval", length)
    if hasattr(model, "initial_state"):  # however long: the state is carried from window to window
        return sampled(model, task, length, count, draws).accuracy  # pyright: ignore[reportArgumentType]
    return score(model, task.examples(task.sample(count, length, draws))).accuracy  # pyright: ignore[reportArgumentType]


def _locked(job: Job, run: Run) -> dict[str, Any]:
    """What was proven, and the locked model's accuracy by length."""
    assert isinstance(run.task, Task)
    started = time.perf_counter()
    training, _ = examples(run.task, run.config)
    found = certify(run.model, run.task, Labelled(training.tokens, training.labels), seed=job.seed)
    seconds = round(time.perf_counter() - started, 2)
    return {
        "verdict": found.verdict,
        "proven": found.proven,
        "states": found.document.get("minimal_states"),
        "search": found.document.get("search"),
        "seconds": seconds,
        "lengths": {
            str(length): at_length(found.locked, run.task, length, job.seed)
            for length in job.test_lengths
            if found.locked is not None
        },
    }
