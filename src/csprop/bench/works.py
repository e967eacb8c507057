"""What is compared: a number for each model in each work, and in some works an aim for csprop."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Generator

from csprop.bench.measure import interleaved, peak_bytes
from csprop.bench.peers import (
    BACKENDS,
    DEPTH,
    MODELS,
    WIDTH,
    csp,
    parameters,
    peer,
    scans,
    training_step,
    with_backend,
)
from csprop.nn.model import CSP
from csprop.tasks import get
from csprop.training.config import configure
from csprop.training.loop import Trainer, generator, run_epochs
from csprop.training.session import training_data

Result = dict[str, Any]
Aim = tuple[str, str, float]
"""Another model, "faster" (than it, at least) or "slower" (at most), and by which factor."""


def all_works(quick: bool) -> Iterator[Result]:
    """Measure one work after the other.

    Yields:
        the work, a number for each model, and the aims with whether they were met.
    """
    seconds = 3.0 if quick else 20.0
    yield _steps(64, 16, seconds, [("reference loop", "faster", 15), ("nn.LSTM", "faster", 6)])
    yield _steps(8, 1024, seconds, [("reference loop", "faster", 100), ("nn.LSTM", "faster", 5)])
    yield _result(
        "complex scan, forward and backward, B = 8, T = 4,096, D = 64",
        interleaved(scans(8, 4096, 64), seconds),
        [("torch associative_scan, eager", "faster", 15), ("mambapy pscan", "faster", 4)],
    )
    for batch, steps in ((64, 16), (8, 1024)):
        yield _block(batch, steps, seconds / 4)
    yield _streaming(seconds / 4)
    yield _seeds(quick)
    yield _growth(quick)
    if not quick:
        yield _memory()


def _result(work: str, medians: dict[str, float], aims: list[Aim]) -> Result:
    own = medians["csprop"]
    kept = []
    for beside, direction, factor in aims:
        aim: Result = {
            "peer": beside,
            "is": direction,
            "aim": factor,
            "times": None,
            "met": None,
        }
        if beside in medians:
            ratio = medians[beside] / own if direction == "faster" else own / medians[beside]
            aim["times"] = ratio
            aim["met"] = ratio >= factor if direction == "faster" else ratio <= factor
        kept.append(aim)
    return {"work": work, "seconds": medians, "aims": kept}


def _steps(batch: int, steps: int, seconds: float, aims: list[Aim]) -> Result:
    works = {name: training_step(name, batch, steps) for name in MODELS}
    name = f"training step, d = {WIDTH}, {DEPTH} layers, T = {steps:,}, batch {batch}"
    result = _result(name, interleaved(works, seconds), aims)
    return result | {"parameters": {name: parameters(name) for name in MODELS}}


def _block(batch: int, steps: int, seconds: float) -> Result:
    block, z = (
        csp().blocks[0],
        torch.randn(batch, steps, 2, WIDTH, generator=Generator().manual_seed(0)),
    )
    state, copy = torch.zeros(batch, 2, WIDTH), torch.empty_like(z)

    def without_gradients() -> None:
        with torch.no_grad():
            block(z, state)

    works: dict[str, Callable[[], object]] = {
        "csprop": without_gradients,
        "csprop, states kept": lambda: block(z, state),
        "torch backend": with_backend("torch", without_gradients),
        "F.silu": lambda: F.silu(z),
        "memory copy": lambda: copy.copy_(z),
    }
    name = f"block forward, T = {steps:,}, batch {batch}, beside one pass over the same numbers"
    return _result(name, interleaved(works, seconds), [("F.silu", "slower", 3)])


def _streaming(seconds: float) -> Result:
    tracker, lstm = csp().stream(), peer("LSTM")
    cells: Any = lstm.layers.cells
    token, state = torch.ones(1, 1, dtype=torch.int64), (torch.zeros(DEPTH, 1, WIDTH),) * 2

    def lstm_step() -> None:
        nonlocal state
        with torch.no_grad():
            h, state = cells(lstm.embedding(token), state)
            lstm.decoder(h)

    works = {"csprop": lambda: tracker.step(1), "nn.LSTM": lstm_step}
    medians = interleaved(works, seconds, most=2000)
    return _result("streaming, one token", medians, [("nn.LSTM", "faster", 10)])


def _seeds(quick: bool) -> Result:
    """An epoch per seed: of ten seeds trained together, and of one alone."""
    count = 10

    def trainers(seeds: range) -> list[Trainer]:
        made = []
        for seed in seeds:
            task = get("parity")
            config = configure(task, "rotor", seed, samples=1000 if quick else 5000)
            model = CSP(config.model, generator(seed, "weights"))
            made.append(Trainer(model, *training_data(task, config), config.recipe, seed))
        return made

    together, alone = trainers(range(count)), trainers(range(1))
    works = {"csprop": lambda: run_epochs(together), "one alone": lambda: run_epochs(alone)}
    medians = interleaved(works, 3 if quick else 30)
    medians["csprop"] /= count
    name = "ten seeds together, an epoch per seed (rotor, parity)"
    return _result(name, medians, [("one alone", "faster", 1.5)])


def _growth(quick: bool) -> Result:
    """Microseconds per token of a training step at batch 1, up to where a model is too slow."""
    lengths = [1 << power for power in range(4, 17 if quick else 21, 2)]
    patience = 0.5 if quick else 5.0
    table: dict[str, dict[int, float]] = {}
    for name in MODELS:
        if name in BACKENDS:
            continue
        table[name] = {}
        for length in lengths:
            step = training_step(name, 1, length)
            started = time.perf_counter()
            step()
            if time.perf_counter() - started > patience and name != "csprop":
                break
            medians = interleaved({name: step}, min(1.0, patience))
            table[name][length] = medians[name] / length * 1e6
    far = lengths[-1]
    ends = interleaved({str(n): training_step("csprop", 1, n) for n in (1024, far)}, 4 * patience)
    ratio = (ends[str(far)] / far) / (ends["1024"] / 1024)
    return {
        "work": "microseconds a token of a training step, batch 1, by length",
        "microseconds": {name: {str(k): v for k, v in row.items()} for name, row in table.items()},
        "aims": [
            {"peer": f"T = {far:,} / T = 1,024", "is": "slower", "aim": 1.3, "times": ratio,
             "met": ratio <= 1.3}
        ],
    }  # fmt: skip


def _memory() -> Result:
    """Peak memory of a training step, in activations (T, 2, D) per layer."""
    length = 1 << 16
    activation = length * 2 * WIDTH * 4 * DEPTH
    peaks = {}
    for name in ("csprop", "nn.LSTM", "nn.GRU"):
        peak = peak_bytes(name, 1, length)
        if peak is not None:
            peaks[name] = peak / activation
    aims = []
    if "csprop" in peaks:
        aims = [
            {"peer": "activations (T, 2, D) a layer", "is": "slower", "aim": 12,
             "times": peaks["csprop"], "met": peaks["csprop"] <= 12}
        ]  # fmt: skip
    return {"work": "peak memory of a training step, T = 65,536, batch 1", "activations": peaks,
            "aims": aims}  # fmt: skip
