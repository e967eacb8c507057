"""The result of a comparison: tables, a heat map of models and tasks, and curves by length."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from csprop.errors import InputError, require
from csprop.training.scores import percent
from csprop_lab.layers import PEERS
from csprop_lab.study.compare import Cell, cells
from csprop_lab.study.measure import Row
from csprop_lab.study.protocols import (
    CSPROP,
    FULL,
    MERGING,
    OURS,
    PROTOCOLS,
    TABLED,
    Effort,
    Protocol,
    find_task,
)
from csprop_lab.study.results import Results
from csprop_lab.study.texts import markdown

FOLDER, UNSEEN = "compare", "unseen"
"""Folders of rows, within a folder of results: of the full comparison, and of unseen tasks."""
SOLVED = 0.999
"""The accuracy from which on a task counts as solved at a length."""


@dataclass(frozen=True)
class Comparison:
    """Cells and the rows that there are of each."""

    results: Results
    cells: Sequence[Cell]

    def __getitem__(self, where: tuple[str, str, str]) -> list[Row]:
        """The rows of a protocol, task and model, one a seed."""
        return self._rows[where]

    @cached_property
    def _rows(self) -> dict[tuple[str, str, str], list[Row]]:
        return {
            (cell.protocol.name, cell.task, cell.model): cell.rows(self.results.rows)
            for cell in self.cells
        }

    @property
    def effort(self) -> Effort:
        """The effort for each model."""
        return self.cells[0].effort

    @property
    def seeds(self) -> int:
        """The number of seeds that every layer has been trained with so far."""
        return min(
            (len(rows) for (*_, name), rows in self._rows.items() if name not in OURS),
            default=self.effort.seeds,
        )

    @property
    def protocols(self) -> list[Protocol]:
        """The protocols, each once."""
        return list({cell.protocol.name: cell.protocol for cell in self.cells}.values())

    @property
    def models(self) -> list[str]:
        """The models, each once."""
        return list(dict.fromkeys(cell.model for cell in self.cells))

    def tasks(self, protocol: str) -> list[str]:
        """The tasks of a protocol, each once."""
        if protocol not in (names := [each.name for each in self.protocols]):
            raise InputError(f"there is no protocol {protocol!r} here: choose from {', '.join(names)}")
        return list(dict.fromkeys(cell.task for cell in self.cells if cell.protocol.name == protocol))

    def table(self, protocol: str) -> str:
        """Models and tasks of a protocol, in Markdown: the median seed at the trained length and at
        the longest; of csprop, how many seeds are proven."""
        return markdown(*self.lines(protocol, self.tasks(protocol), cell_text))

    def lines(
        self, protocol: str, tasks: Sequence[str], cell: Callable[[Sequence[Row]], str]
    ) -> tuple[list[str], list[list[str]]]:
        """The headings and the lines of a table of some tasks, with what `cell` makes of rows."""
        lines = [[name, *(cell(self[protocol, task, name]) for task in tasks)] for name in self.models]
        return ["model", *tasks], lines

    def summary(self) -> str:
        """One line for each model, in Markdown: what it took, and how many tasks it solves."""
        headings = ["model", "parameters", "sequences", "steps", "seconds"]
        headings += ["solved at the trained length", "solved at the longest", "proven", "published by"]
        return markdown(headings, map(self._line, self.models))

    def _line(self, model: str) -> list[str]:
        found = [rows for (_, _, name), rows in self._rows.items() if name == model and rows]
        near = sum(statistics.median(map(at_trained, rows)) >= SOLVED for rows in found)
        far = sum(statistics.median(map(at_longest, rows)) >= SOLVED for rows in found)
        certain = sum(proven(rows) * 5 >= 4 * len(rows) for rows in found)
        trained = [row for rows in found for row in rows if "result" in row]
        spent = [spending(row) for row in trained if "recipe" in row["job"]]
        ranges = [from_to(min(each), max(each)) for each in zip(*spent, strict=True)]
        return [
            model, *(ranges or ["–"] * 4), f"{near} of {len(found)}", f"{far} of {len(found)}",
            f"{certain} of {len(found)}" if any(map(any_proof, found)) else "not tried",
            PEERS[model].paper if model in PEERS else "this package" if model in OURS else "–",
        ]  # fmt: skip

    def heat_map(self) -> Any:
        """A picture of all models and tasks, as a matplotlib Figure: 0 is chance, 1 is right."""
        require("matplotlib", "figures", "a picture of a comparison")
        from matplotlib.figure import Figure

        columns = [(each.name, task) for each in self.protocols for task in self.tasks(each.name)]
        values = [
            [scaled(self[protocol, task, model]) for protocol, task in columns] for model in self.models
        ]
        size = 3 + 0.42 * len(columns), 2.4 + 0.27 * len(self.models)
        figure = Figure(figsize=size, layout="constrained")
        axis = figure.subplots()
        shown: Any = [[float("nan") if each is None else each for each in line] for line in values]
        picture = axis.imshow(shown, cmap="viridis", vmin=0, vmax=1, aspect="auto")
        axis.set_yticks(range(len(self.models)), self.models, fontsize=8)
        names = [f"{task} ({protocol})" for protocol, task in columns]
        axis.set_xticks(range(len(columns)), names, rotation=60, ha="right", fontsize=7)
        for row, line in enumerate(values):
            for column, value in enumerate(line):
                if value is not None:
                    dark = "white" if value < 0.6 else "black"
                    text = f"{value:.2f}".lstrip("0") if value < 1 else "1"
                    axis.text(column, row, text, ha="center", va="center", fontsize=6, color=dark)
        figure.colorbar(
            picture, ax=axis, shrink=0.6, label="accuracy at the longest length, chance = 0"
        )
        return figure

    def curves(self) -> Any:
        """The accuracy of every model by length, as a matplotlib Figure with one panel a task."""
        require("matplotlib", "figures", "a picture of a comparison")
        from matplotlib.figure import Figure

        panels = [
            (each, task) for each in self.protocols if each.tested for task in self.tasks(each.name)
        ]
        wide = min(4, max(1, len(panels)))
        high = max(1, -(-len(panels) // wide))
        figure = Figure(figsize=(3.2 * wide, 2.4 * high + 0.8), layout="constrained")
        axes = figure.subplots(high, wide, squeeze=False, sharey=True).flatten()
        for axis in axes[len(panels) :]:
            axis.set_visible(False)
        for axis, (protocol, task) in zip(axes, panels, strict=False):
            for number, model in enumerate(self.models):
                points = by_length(self[protocol.name, task, model])
                style = {"lw": 1, "marker": ".", "markersize": 4}
                if model == CSPROP:  # below the others, which it must not hide
                    style = {"color": "0.8", "lw": 6, "marker": "s", "zorder": 0}
                line = ("-", "--", ":")[number // 10 % 3]
                axis.plot(list(points), list(points.values()), line, label=model, **style)
            axis.set_title(f"{task} ({protocol.name})", fontsize=8)
            axis.set_xscale("log", base=2)
            axis.axvline(protocol.length, color="0.8", lw=0.8)
            axis.tick_params(labelsize=7)
        handles, labels = axes[0].get_legend_handles_labels()
        across = min(8, 2 * wide)
        figure.legend(handles, labels, loc="outside lower center", ncols=across, fontsize=7)
        return figure


def full(results: Path) -> Comparison:
    """The comparison of all layers whose rows are in a folder of results."""
    protocols = [PROTOCOLS[name] for name in TABLED]
    return Comparison(Results(results / FOLDER), cells(protocols, [*PEERS, *OURS], FULL))


def unseen(results: Path) -> Comparison:
    """The same on unseen tasks, of the layers that have been tried there."""
    found, protocols = Results(results / UNSEEN), [PROTOCOLS[UNSEEN]]
    asked = cells(protocols, [*PEERS, MERGING], FULL)
    tried = [cell.model for cell in asked if cell.rows(found.rows)]
    return Comparison(found, [cell for cell in asked if cell.model in tried])


def from_to(least: float, most: float) -> str:
    """A range of whole numbers."""
    low, high = f"{least:,.0f}", f"{most:,.0f}"
    return low if low == high else f"{low} to {high}"


def spending(row: Row) -> tuple[float, float, float, float]:
    """Parameters, sequences to learn from, steps, and seconds including locking and proof."""
    recipe, result = row["job"]["recipe"], row["result"]
    samples = recipe["samples"] or find_task(row["job"]["task"]).samples
    sequences = samples * 4 // 5
    steps = result["epochs"] * -(-sequences // recipe["batch_size"])
    seconds = row.get("training_seconds", 0.0) + row.get("locked", {}).get("seconds", 0.0)
    return result["parameters"], sequences, steps, seconds


def at_trained(row: Row) -> float:
    """The accuracy on held-out sequences of the trained length; 0 if training diverged."""
    return row.get("result", {}).get("accuracy", at_longest(row))


def at_longest(row: Row) -> float:
    """The accuracy at the longest length, of the proven model if there is one.

    A length that a layer was not followed to counts as the last that it was.
    """
    result = row.get("result", {})
    if "fresh_right" in result:
        return result["fresh_right"] / result["fresh"]
    lengths = tested(row)
    others = row.get("tasks", {}).values()
    return min([list(lengths.values())[-1], *others]) if lengths else 0.0


def tested(row: Row) -> dict[str, float]:
    """The accuracy by length: of csprop's own row as proven, of a layer as trained."""
    proven = row.get("locked", {}).get("lengths") if row["job"].get("family") == "csp" else None
    return proven or row.get("lengths", {})


def by_length(rows: Sequence[Row]) -> dict[int, float]:
    """The median accuracy by length, of the proven models if there are any."""
    found: dict[int, list[float]] = {}
    for row in rows:
        lengths = tested(row)
        last = 0.0
        for length in row["job"].get("test_lengths", ()):  # where it was not followed, the last counts
            last = lengths.get(str(length), last)
            found.setdefault(length, []).append(last)
    return {length: statistics.median(each) for length, each in found.items()}


def proven(rows: Sequence[Row]) -> int:
    """Return the number of seeds that are proven at every length; of files, of right machines."""
    return sum(
        bool(row.get("locked", {}).get("proven") or row.get("result", {}).get("right")) for row in rows
    )


def chance(row: Row) -> float:
    """Return the share of the majority class at the trained length; at most 0.99."""
    return min(0.99, row.get("result", {}).get("commonest", {}).get("share", 0.5))


def scaled(rows: Sequence[Row]) -> float | None:
    """The median accuracy at the longest length, where 0 is chance; None if there are no rows."""
    if not rows:
        return None
    values = [max(0.0, (at_longest(row) - chance(row)) / (1 - chance(row))) for row in rows]
    return statistics.median(values)


def cell_text(rows: Sequence[Row]) -> str:
    """A cell of a table: at the trained length and at the longest, and what of it is proven."""
    if not rows:
        return "–"
    if all("diverged" in row for row in rows):
        return "diverged"
    near, far = (statistics.median(map(each, rows)) for each in (at_trained, at_longest))
    text = f"{percent(near)}, {percent(far)}"
    if any("right" in row.get("result", {}) for row in rows):
        return f"{text}, right machine {proven(rows)} of {len(rows)}"
    if not any_proof(rows):
        return text
    text += f", proven {proven(rows)} of {len(rows)}"
    if rows[0]["job"]["family"] != "csp":
        return text
    unlocked = statistics.median(list(row["lengths"].values())[-1] for row in rows if "lengths" in row)
    return f"{text}, unlocked {percent(unlocked)}"


def short_text(rows: Sequence[Row]) -> str:
    """The same for a narrow table."""
    if any_proof(rows) and proven(rows):
        return f"proven {proven(rows)}/{len(rows)}"
    return cell_text(rows).partition(", right")[0].partition(", proven")[0]


def any_proof(rows: Sequence[Row]) -> bool:
    """Return True if a proof was tried."""
    return any("locked" in row or "right" in row.get("result", {}) for row in rows)
