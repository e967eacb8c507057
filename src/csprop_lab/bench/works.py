"""The works that are measured."""

import os
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Any

import torch

from csprop import CSP
from csprop.data.examples import Examples
from csprop.tasks import get
from csprop.tasks.base import every_sequence
from csprop.training.batches import training_data
from csprop.training.config import RunConfig, configure
from csprop.training.loop import Trainer, run_epochs
from csprop.training.metrics import exhaustive, score
from csprop.training.seeding import generator
from csprop_lab.bench import commands, steps
from csprop_lab.bench.measure import FULL, QUICK, Pace, figures, measure_in_turn, peak_bytes
from csprop_lab.bench.networks import parts
from csprop_lab.bench.scans import scans
from csprop_lab.bench.streams import streams

Result = dict[str, Any]
"""The `name` and the `work` in words, figures or `parts` with figures of their own, the `base` that
others are compared with and packages that are `missing`."""
EXTRA = {"layer": ("scikit-learn",), "scan": ("mambapy",), "stream": ("onnx", "onnxruntime")}
"""Packages of the extra `bench`, without which a work leaves something out."""
MODULES = {"scikit-learn": "sklearn"}
"""The module of a package, where it has another name."""
THREADED = ("csprop", "nn.LSTM")
"""The models that are also measured on two threads."""


def versions() -> dict[str, str | None]:
    """The versions of the packages in `EXTRA`; None if one is not installed."""
    return {package: _version(package) for each in EXTRA.values() for package in each}


def _version(package: str) -> str | None:
    try:
        return version(package) if _found(package) else None
    except PackageNotFoundError:  # it came with a package of another name
        return "unknown"


def _found(package: str) -> bool:
    return find_spec(MODULES.get(package, package)) is not None


def measure_work(name: str, quick: bool) -> Result:
    """Measure one of `WORKS`."""
    missing = [package for package in EXTRA.get(name, ()) if not _found(package)]
    result = WORKS[name](QUICK if quick else FULL)
    return {"name": name, "base": "csprop", **result, "missing": missing}


def _training(config: RunConfig, names: Sequence[str]) -> Callable[[Pace], Result]:
    model, recipe = config.model, config.recipe
    labels = "a label at every step" if recipe.supervise == "every" else "one label a sequence"
    work = (
        f"training step, preset {config.preset} ({model.width} × {model.depth}), "
        f"{config.task['name']}, T = {recipe.length:,}, batch {recipe.batch_size}, {labels}"
    )

    def measure(pace: Pace) -> Result:
        times = measure_in_turn({name: steps.training_step(name, config) for name in names}, pace)
        sizes = {name: steps.parameters(name, config) for name in names}
        return {"work": work, **figures(times), "parameters": sizes}

    return measure


def _layer(pace: Pace) -> Result:
    """Networks of the same size around one layer, on each of the data sets of the study's table."""
    found = []
    for work, networks in parts(digits=_found("scikit-learn")).items():
        times = measure_in_turn({name: each.step for name, each in networks.items()}, pace)
        sizes = {name: each.parameters for name, each in networks.items()}
        found.append({"work": work, **figures(times), "parameters": sizes})
    return {"work": "training step of a network around one layer of features", "parts": found}


def _scan(pace: Pace) -> Result:
    name = "complex scan, forward and backward, 8 × 4,096 × 64"
    return {"work": name, **figures(measure_in_turn(scans(8, 4096, 64), pace))}


def _seeds(pace: Pace) -> Result:
    task, count = get("parity"), 10
    trainers = []
    for seed in range(count + 1):
        config = configure(task, "rotor", seed)
        model = CSP(config.model, generator(seed, "weights"))
        trainers.append(Trainer(model, *training_data(task, config), config.recipe, seed))
    alone = trainers.pop()
    works = {"csprop": lambda: run_epochs(trainers), "one alone": lambda: run_epochs([alone])}
    times = measure_in_turn(works, pace)
    times["csprop"] = [seconds / count for seconds in times["csprop"]]
    return {"work": f"{count} seeds together, an epoch of one (preset rotor, parity)", **figures(times)}


def _inputs(pace: Pace) -> Result:
    task, length = get("parity"), 16
    model: Any = steps.network("csprop", steps.configure_printed(64, length)).eval()

    def examples() -> Examples:
        return task.labelled(every_sequence(len(task.vocab), length))

    @torch.no_grad()
    def in_batches() -> None:
        for batch in examples().windows():
            model(batch.tokens)[batch.answers].argmax(dim=1)

    works = {
        "csprop": lambda: exhaustive(model, task, length),
        "csprop, row by row": lambda: score(model, examples()),
        "csprop as a torch module": in_batches,
    }
    name = f"every input of length {length} (2^{length}) of the preset paper, scored"
    return {"work": name, **figures(measure_in_turn(works, pace))}


def _stream(pace: Pace) -> Result:
    works = {name: lambda step=step: step(1) for name, step in streams().items()}
    times = measure_in_turn(works, pace._replace(seconds=pace.seconds / 3), most=5000)
    return {"work": "streaming, one token more (preset paper, LSTM 64 × 3)", **figures(times)}


def _lengths(pace: Pace) -> Result:
    """The time that a token takes, by length; a model stops where its next step may take too long."""
    powers, longest = (range(4, 15, 2), 0.5) if pace is QUICK else (range(4, 21, 2), 5.0)
    names = ["csprop", *steps.PEERS]
    found: dict[str, dict[str, dict[str, Any]]] = {"microseconds": {}, "quartiles": {}}
    for length in (1 << power for power in powers):
        works = {name: steps.training_step(name, steps.configure_printed(1, length)) for name in names}
        for threads in range(1, 1 + min(2, os.cpu_count() or 1)):
            asked = {name: works[name] for name in names if threads == 1 or name in THREADED}
            torch.set_num_threads(threads)
            times = measure_in_turn(asked, Pace(pace.seconds / 8, min(3, pace.rounds)))
            torch.set_num_threads(1)
            numbers = figures(times, scale=1e6 / length)
            for name in asked:
                label = name if threads == 1 else f"{name}, {threads} threads"
                found["microseconds"].setdefault(label, {})[str(length)] = numbers["seconds"][name]
                found["quartiles"].setdefault(label, {})[str(length)] = numbers["quartiles"][name]
            if threads == 1:  # the next step is four times as long, or 16 times if time grows with T²
                names = [name for name in names if name == "csprop" or 16 * min(times[name]) < longest]
    return {"work": "microseconds a token of a training step, preset paper, batch 1", **found}


def _memory(pace: Pace) -> Result:
    """Peak memory of a training step, in activations (T, 2, D) per layer."""
    length = 1 << (14 if pace is QUICK else 16)
    model = steps.configure_printed(1, length).model
    activation = length * 2 * model.width * 4 * model.depth
    peaks = {name: peak_bytes(name, 1, length) for name in ("csprop", "nn.LSTM", "nn.GRU")}
    return {
        "work": f"peak memory of a training step, preset paper, T = {length:,}, batch 1, in "
        f"activations (T × 2 × {model.width}) a layer",
        "activations": {name: peak / activation for name, peak in peaks.items() if peak is not None},
    }


def _commands(pace: Pace) -> Result:
    times = commands.times(1 if pace is QUICK else 5)
    return {"work": "commands, from the shell to the shell", "base": commands.TORCH, **figures(times)}


_FEW = ("csprop", steps.CALL, steps.OPERATORS, "nn.LSTM")
WORKS: dict[str, Callable[[Pace], Result]] = {
    "paper": _training(steps.configure_printed(64, 16), steps.EVERYONE),
    "long": _training(steps.configure_printed(8, 1024), steps.EVERYONE),
    "wide": _training(steps.configure_printed(64, 16, width=256), _FEW),
    "rotor": _training(configure("parity", "rotor"), _FEW),
    "router": _training(configure("tomita-5", "router"), _FEW),
    "counter": _training(configure("parenthesis", "counter"), _FEW),
    "layer": _layer,
    "seeds": _seeds,
    "lengths": _lengths,
    "memory": _memory,
    "scan": _scan,
    "inputs": _inputs,
    "stream": _stream,
    "commands": _commands,
}
"""The function that measures each work. `csprop bench --only` takes these names."""
