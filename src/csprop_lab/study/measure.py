"""From jobs to rows: train each model, and measure what its job asks for."""

import math
import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from csprop import CSPConfig, certify
from csprop.errors import Diverged, InputError
from csprop.report.charts import short
from csprop.tasks import get
from csprop.tasks.base import Task
from csprop.training.batches import training_data
from csprop.training.config import RunConfig, environment
from csprop.training.metrics import at_length
from csprop.training.seeding import generator
from csprop.training.session import execute
from csprop.training.stored import Trained
from csprop_lab.layers.basic import Peer
from csprop_lab.layers.frame import Frame
from csprop_lab.layers.own import Stepwise
from csprop_lab.released import NotRounded, Released, prove
from csprop_lab.signals.sequences import Learner, sequences, size_of
from csprop_lab.study.job import MODELS, AnyJob, FileJob, Job, LayerJob
from csprop_lab.study.learners import SAMPLING, merge, run_methods
from csprop_lab.study.protocols import find_task
from csprop_lab.training import train_module

Row = dict[str, Any]
"""A row of results: key, job, environment, seconds, and either `diverged` or result, curve, lengths,
locked and training_seconds (rows of earlier versions lack it); the row of a `FileJob` has result alone,
the row of a `LayerJob` result, curve and training_seconds."""

CURVES = ("accuracy", "f1", "loss", "grad_norm")
"""The metrics of every epoch that a row has."""
NETWORKS: dict[str, Any] = {"peer": Peer, "frame": Frame, "released": Released}
"""By family, the models that are not csprop's."""
POINTS = 20
"""Points of the curve of a `LayerJob`, each the mean loss of as many steps."""


def measure(jobs: Sequence[AnyJob], unfinished: Path | None = None) -> list[Row]:
    """The rows of jobs of one group: models that are trained together, or methods on the same rows."""
    if len({job.group for job in jobs}) != 1:
        raise InputError(
            "jobs that are measured together differ only in their seed, or are methods on the same rows"
        )
    files = [job for job in jobs if isinstance(job, FileJob)]
    if files:
        return [_head(job) | found for job, found in zip(files, run_methods(files), strict=True)]
    layers = [job for job in jobs if isinstance(job, LayerJob)]
    if layers:
        return [_head(job) | _layer(job) for job in layers]
    models = [job for job in jobs if isinstance(job, Job)]
    if models[0].family == "learn":
        return [_head(job) | merge(job) for job in models]
    if models[0].family in NETWORKS:
        return [_network(job) for job in models]
    trained = _csp(models, unfinished)
    sizes = [len(training_data(find_task(job.task), _config(job, job.model))[0]) for job in models]
    # Models whose training sets differ in size are trained one after the other.
    return [
        _row(job, run, [other for other, each in zip(trained, sizes, strict=True) if each == size])
        for job, run, size in zip(models, trained, sizes, strict=True)
    ]


def _head(job: AnyJob) -> Row:
    return {"key": job.key, "job": asdict(job), "environment": environment()}


def _csp(jobs: Sequence[Job], unfinished: Path | None) -> list[Trained | Diverged]:
    configs = [_config(job, CSPConfig.from_json(job.model)) for job in jobs]
    outs = [None if unfinished is None else unfinished / job.key for job in jobs]
    task, every, resume = find_task(jobs[0].task), jobs[0].every_input, unfinished is not None
    return execute(task, configs, outs, resume=resume, every_input=every)


def _config(job: Job, model: Any) -> RunConfig:
    return RunConfig(
        task=find_task(job.task).describe(),
        preset="study",
        seed=job.seed,
        model=model,
        recipe=job.recipe,
    )


def _network(job: Job) -> Row:
    try:
        run = train_network(job)
        return _row(job, run, [run])
    except Exception as error:
        layer = job.model.get("layer", job.model.get("kind"))
        error.add_note(f"This happened to {layer} on {job.task}, seed {job.seed}.")
        raise


def train_network(job: Job) -> Trained | Diverged:
    """Train the model of a job that is not of csprop's."""
    task, config = find_task(job.task), _config(job, MODELS[job.family](**job.model))
    model = NETWORKS[job.family](config.model, generator(job.seed, "weights"))
    return train_module(model, task, config, job.every_input)


def _layer(job: LayerJob) -> Row:
    started, data = time.perf_counter(), sequences(job.data)
    network = data.network(job.kind, job.features, job.width, generator(job.seed, "weights"))
    learner, draws = Learner(network, job.lr), generator(job.seed, "batches")
    losses = [learner.step(data.batch(job.batch_size, draws)).item() for _ in range(job.steps)]
    trained = time.perf_counter() - started
    if not all(map(math.isfinite, losses)):
        found: Row = {"diverged": "a loss was not finite"}
    else:
        each = math.ceil(job.steps / POINTS)
        pieces = (losses[start : start + each] for start in range(0, job.steps, each))
        result = {
            "validation": data.score(network, data.validation),
            "test": data.score(network, data.test),
            "parameters": size_of(network),
        }
        curve = {"loss": [short(statistics.fmean(piece)) for piece in pieces]}
        found = {"result": result, "curve": curve, "training_seconds": round(trained, 2)}
    return found | {"seconds": round(time.perf_counter() - started, 2)}


def _row(job: Job, run: Trained | Diverged, together: Sequence[Trained | Diverged]) -> Row:
    row = _head(job)
    started, seconds = time.perf_counter(), 0.0
    if isinstance(run, Diverged):
        row["diverged"] = str(run)
    else:
        # The seconds of an epoch are shared by all models that were still in training.
        epochs = [len(other.metrics) for other in together if isinstance(other, Trained)]
        for number, epoch in enumerate(run.metrics):
            seconds += epoch["seconds"] / sum(count > number for count in epochs)
        assert run.result is not None
        row["result"], row["training_seconds"] = run.result.to_json(), round(seconds, 2)
        row["curve"] = {name: [short(epoch[name]) for epoch in run.metrics] for name in CURVES}
        row["lengths"] = _lengths(job, run)
        if job.test_tasks:
            row["tasks"] = {
                name: _accuracy(job, run.model, get(name), job.test_lengths[-1])
                for name in job.test_tasks
            }
        if job.lock:
            row["locked"] = _locked(job, run)
    row["seconds"] = round(seconds + time.perf_counter() - started, 2)
    return row


def _lengths(job: Job, run: Trained) -> dict[str, float]:
    """Return the accuracy by length, up to the first that is below `follow`."""
    found: dict[str, float] = {}
    for length in job.test_lengths:
        if any(accuracy < job.follow for accuracy in found.values()):
            break
        found[str(length)] = _accuracy(job, run.model, run.task, length)
    return found


def _accuracy(job: Job, model: Any, task: Task, length: int) -> float:
    return at_length(model, task, length, job.seed, SAMPLING, positions=job.positions).accuracy


def _locked(job: Job, run: Trained) -> dict[str, Any]:
    """Return what was proven, and the locked model's accuracy by length."""
    started, frame = time.perf_counter(), None
    try:
        if isinstance(run.model, Released):
            certificate, frame = prove(run)
        elif isinstance(run.model, Frame):
            certificate = certify(Stepwise(run.model, run.config), run.task, progress=False)
        else:
            certificate = certify(run.model, run.task, progress=False)
    except NotRounded as refused:
        seconds = round(time.perf_counter() - started, 2)
        return {"verdict": refused.verdict, "proven": False, "seconds": seconds, "lengths": {}}
    seconds = round(time.perf_counter() - started, 2)
    return {
        "verdict": certificate.verdict,
        "proven": certificate.proven,
        "states": certificate.document.get("minimal_states"),
        "counters": getattr(certificate.automaton, "counters", None) or None,
        "search": certificate.document.get("search"),
        **({"frame": frame._asdict()} if frame else {}),
        "seconds": seconds,
        "lengths": {
            str(length): at_length(certificate.locked, run.task, length, job.seed, SAMPLING).accuracy
            for length in job.test_lengths
            if certificate.locked is not None
        },
    }
