"""Layers side by side: each in the same frame, trained alike, tested beyond the trained lengths.

Every layer is trained with the same few learning rates. The best on held-out sequences of the trained
lengths is chosen with the first seed, and the other seeds are trained with it; longer sequences have no
part in the choice. csprop's own row is its preset, trained by its own recipe, locked and proven.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
import torch.nn.functional as F

from csprop.training.presets import Recipe
from csprop.training.seeding import generator
from csprop_lab.layers import PEERS
from csprop_lab.layers.frame import Frame, FrameConfig
from csprop_lab.study import engine
from csprop_lab.study.job import AnyJob, FileJob, LearnConfig, csp, network, sizes_of
from csprop_lab.study.learners import LAYER, layer_recipe
from csprop_lab.study.measure import Row
from csprop_lab.study.protocols import CSPROP, MERGING, OURS, TRACKER, Effort, Protocol, find_task
from csprop_lab.study.results import Results

SHORT_FIRST = 50
"""Epochs over which a rotor's sequences grow, where they are longer than in its preset."""
FILE_TOKENS = 16
"""The longest rows of files."""
FAR = 1 << 16
"""The longest sequences on which a layer is tested that has no state to carry on."""


@dataclass(frozen=True)
class Cell:
    """A model on a task of a protocol."""

    protocol: Protocol
    task: str
    model: str
    effort: Effort
    version: str = ""
    """As in a `FrameConfig`."""

    @property
    def title(self) -> str:
        """The cell in words."""
        return f"{self.model} on {self.task}"

    @cached_property
    def first(self) -> list[AnyJob]:
        """The jobs of the first round: every learning rate with seed 0; of csprop, all seeds."""
        if self.model == CSPROP:
            return [self._csprop(seed) for seed in range(self.effort.seeds)]
        if self.model == MERGING:
            return [self._merging(0)]
        return [self._layer(rate, 0) for rate in self.effort.rates]

    def round(self, seed: int, rows: Mapping[str, Row]) -> list[AnyJob]:
        """Return the jobs of a seed; all earlier seeds have rows."""
        if seed == 0 or self.model == CSPROP:
            return self.first
        return [self._merging(seed) if self.model == MERGING else self._layer(self.rate(rows), seed)]

    def rate(self, rows: Mapping[str, Row]) -> float:
        """The learning rate with the best held-out accuracy of the first round, or the least loss."""
        first = zip(self.effort.rates, self.first, strict=True)
        return max(first, key=lambda pair: _rank(rows[pair[1].key]))[0]

    def rows(self, rows: Mapping[str, Row]) -> list[Row]:
        """The rows of all seeds that there are, with the learning rate that was chosen."""
        if any(job.key not in rows for job in self.first):
            return []
        if self.model == CSPROP:
            return [rows[job.key] for job in self.first]
        seeds, rate = range(self.effort.seeds), 0.0 if self.model == MERGING else self.rate(rows)
        made = (
            self._merging(seed) if self.model == MERGING else self._layer(rate, seed) for seed in seeds
        )
        keys = [job.key for job in made]
        return [rows[key] for key in keys if key in rows]

    def _csprop(self, seed: int) -> AnyJob:
        if self.protocol.rows:
            return self._file(CSPROP, {}, seed)
        task, protocol = find_task(self.task), self.protocol
        length, changes = protocol.longest(self.task), {}
        if task.preset == "rotor" and length > task.length:
            changes["short_first"] = SHORT_FIRST
        return csp(
            self.task, task.preset, seed, length=length, hold_pairs=protocol.hold_pairs,
            test_lengths=protocol.lengths(self.task, self.effort.longest), test_tasks=protocol.others,
            lock=task.finite or task.counting is not None, **changes,
        )  # fmt: skip

    def _layer(self, rate: float, seed: int) -> AnyJob:
        protocol, effort = self.protocol, self.effort
        size = {"width": effort.width, "depth": effort.depth, "version": self.version}
        trained = {"lr": rate, "batch_size": effort.batch_size, "epochs": effort.epochs}
        if protocol.rows:
            return self._file(LAYER, {"layer": self.model} | size | trained, seed)
        task = find_task(self.task)
        config = FrameConfig(layer=self.model, **sizes_of(task), **size)
        recipe = self._recipe(**trained)
        return network(
            self.task, config, recipe, seed,
            test_lengths=protocol.lengths(self.task, min(FAR, effort.longest)),
            test_tasks=protocol.others, follow=protocol.follow,
            lock=self.model == TRACKER and (task.finite or task.counting is not None),
        )  # fmt: skip

    def _merging(self, seed: int) -> AnyJob:
        if self.protocol.rows:
            return self._file(CSPROP, {}, seed)
        effort, protocol = self.effort, self.protocol
        recipe = self._recipe(lr=effort.rates[0], batch_size=effort.batch_size, epochs=effort.epochs)
        return network(
            self.task, LearnConfig(), recipe, seed,
            test_lengths=protocol.lengths(self.task, min(FAR, effort.longest)),
        )  # fmt: skip

    def _recipe(self, **trained: Any) -> Recipe:
        """Return the recipe of a layer, which also decides the sequences to learn from."""
        protocol = self.protocol
        return layer_recipe(
            **trained,
            length=protocol.longest(self.task),
            samples=self.effort.samples,
            hold_pairs=protocol.hold_pairs,
        )

    def _file(self, method: str, options: dict[str, Any], seed: int) -> FileJob:
        rows, wrong = self.protocol.rows, self.protocol.wrong
        return FileJob(
            language=self.task, rows=rows, wrong=wrong, method=method, options=options, seed=seed
        )


def _rank(row: Row) -> tuple[float, float]:
    """Return a key that sorts runs by their held-out score; one that diverged is the worst."""
    if "result" not in row:
        return -1.0, 0.0
    return row["result"]["accuracy"], -row.get("curve", {"loss": [0.0]})["loss"][-1]


def cells(
    protocols: Sequence[Protocol],
    models: Sequence[str],
    effort: Effort,
    tasks: Sequence[str] | None = None,
    versions: Mapping[str, str] | None = None,
) -> list[Cell]:
    """All models on all tasks."""
    known_versions = {name: peer.version for name, peer in PEERS.items()} | dict(versions or {})
    return [
        Cell(protocol, task, model, effort, known_versions.get(model, ""))
        for protocol in protocols
        for task in (protocol.tasks[: effort.tasks] if tasks is None else protocol.tasks)
        if tasks is None or task in tasks
        for model in models
    ]


def fill(
    results: Results,
    asked: Sequence[Cell],
    on: Callable[[Sequence[engine.Group]], Iterator[tuple[str, list[Row]]]],
    done: Callable[[str, list[Row]], None],
) -> None:
    """Run what is missing, one seed after the other: the cells are always about as full."""
    for seed in range(max(cell.effort.seeds for cell in asked)):
        missing = {
            job.key: (cell.protocol.name, job)
            for cell in asked
            for job in cell.round(seed, results.rows)
            if job.key not in results.rows
        }
        work = [
            group
            for name in dict.fromkeys(name for name, _ in missing.values())
            for group in engine.groups(name, [job for table, job in missing.values() if table == name])
        ]
        for table, rows in on(work):
            results.add(table, rows)
            done(table, rows)


def remaining(results: Results, asked: Sequence[Cell]) -> int:
    """Return the number of missing rows."""
    count = 0
    for cell in asked:
        count += sum(job.key not in results.rows for job in cell.first)
        if cell.model not in OURS:
            count += cell.effort.seeds - max(1, len(cell.rows(results.rows)))
    return count


def cost(results: Results, asked: Sequence[Cell]) -> float:
    """Estimate the seconds of one processor for the training of the missing layers.

    One step of each is timed. csprop's own models, and the tests, come in addition.
    """
    seconds = 0.0
    for model in dict.fromkeys(cell.model for cell in asked if cell.model not in OURS):
        own = [cell for cell in asked if cell.model == model]
        pace = _pace(own[0])
        for cell in own:
            tokens = cell.protocol.longest(cell.task) if cell.protocol.length else FILE_TOKENS
            seconds += pace * tokens * cell.effort.steps * remaining(results, [cell])
    return seconds


def _pace(cell: Cell, steps: int = 16) -> float:
    """Seconds for one token of every row of a training step."""
    effort = cell.effort
    config = FrameConfig(
        layer=cell.model, vocab_size=2, num_classes=2, width=effort.width, depth=effort.depth
    )
    network, draws = Frame(config, generator(0, "weights")), generator(0, "pace")
    tokens = torch.randint(2, (effort.batch_size, steps), generator=draws)
    times = []
    for _ in range(3):
        started = time.perf_counter()
        F.cross_entropy(network(tokens).flatten(0, 1), tokens.flatten()).backward()
        times.append(time.perf_counter() - started)
    return min(times) / steps
