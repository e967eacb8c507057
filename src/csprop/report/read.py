"""The runs of a page: read from disk, told apart by names, and measured."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from csprop.errors import InputError
from csprop.report.charts import COLOURS
from csprop.runs import Run, load
from csprop.training import checkpoint
from csprop.training.metrics import at_length

TIMES = (1, 2, 4, 16, 64, 256)
"""Lengths to test, as multiples of the trained one."""
CURVES = ("accuracy", "loss", "grad_norm")
"""What is drawn of every epoch."""

Say = Callable[[str], None]


@dataclass
class Shown:
    """A run, and what the page calls it."""

    run: Run
    path: Path
    name: str = ""
    """Unlike that of any other run of the page."""
    group: str = ""
    """The name that it shares with runs that were made alike, as its models share their colours."""
    colours: dict[str, int] = field(default_factory=dict)
    """The colour of each of its models, "locked" and "as trained"; of a machine's model, "exact"."""
    accuracies: dict[str, dict[int, float]] = field(default_factory=dict)
    """Accuracy by length, of each of its models."""

    @property
    def kind(self) -> str:
        """Its preset, or how else it was made."""
        return self.run.config.preset if self.run.made == "trained" else self.run.made

    @property
    def models(self) -> list[str]:
        """What its models are called: a locked model and the one it was made of are two."""
        if self.run.made != "trained":
            return ["exact"]  # both are the same machine
        return ["as trained"] if self.run.locked is None else ["locked", "as trained"]

    @property
    def colour(self) -> int:
        """The colour of the model that was trained."""
        return self.colours[self.models[-1]]

    def proof(self, model: str) -> tuple[str, str]:
        """What is proven of one of its models, in a few words, and how well: yes, no or none."""
        held = self.run.certificate
        if held is None:
            return "not certified", "none"
        if self.models[0] == "locked" and model != "locked":
            return "not proven", "none"  # the proof is about the locked model
        return held.summary, "yes" if held.proven and not held.unchecked else "no"

    @property
    def row(self) -> dict[str, Any]:
        """Its curves, as a row of the study has them."""
        return {"curve": {name: [epoch[name] for epoch in self.run.metrics] for name in CURVES}}


def read(paths: Sequence[Path], say: Say) -> list[Shown]:
    """The runs in some folders, each once, with their certificates checked.

    Args:
        paths: run directories, or folders of them, as `csprop train --seeds` leaves them. A run that
            was named itself must be readable; of a folder, the others are shown.
        say: is told of every run that is left out.

    Raises:
        InputError: a run cannot be read, or its certificate does not hold.
    """
    shown: dict[Path, Shown] = {}
    for folder in paths:
        inside = _runs_in(folder)
        for path in inside:
            try:
                shown.setdefault(path.resolve(), _read(path))
            except InputError as error:
                if inside == [folder]:
                    raise
                say(f"{error}; left out")
    if not shown:
        raise InputError(f"{paths[0]}: none of the runs in it can be read")
    _name(list(shown.values()))
    return list(shown.values())


def _runs_in(folder: Path) -> list[Path]:
    if (folder / checkpoint.CONFIG).exists():
        return [folder]
    inside = [path.parent for path in folder.glob(f"*/{checkpoint.CONFIG}")]
    return sorted(inside, key=lambda path: (len(path.name), path.name)) or [folder]


def _read(path: Path) -> Shown:
    run = load(path)
    _ = run.certificate  # read and checked here, so that a run with a wrong one can be left out
    return Shown(run, path)


def _name(shown: Sequence[Shown]) -> None:
    """Names that tell the runs apart, and a colour for each model that no other kind of model has."""
    groups = [f"{each.run.task.source}, {each.kind}" for each in shown]
    names = [
        group if each.run.made == "compiled" else f"{group}, seed {each.run.config.seed}"
        for group, each in zip(groups, shown, strict=True)
    ]
    kinds = [(group, model) for group, each in zip(groups, shown, strict=True) for model in each.models]
    order = list(dict.fromkeys(kinds))
    for each, group, name in zip(shown, groups, names, strict=True):
        seeds = groups.count(group)
        each.group = group if seeds == 1 else f"{group}, {seeds} runs"
        each.colours = {model: order.index((group, model)) % COLOURS for model in each.models}
        each.name = name if names.count(name) == 1 else f"{name} ({each.path})"


def measure(each: Shown, say: Say) -> None:
    """Measure a run's accuracy at the trained length and beyond, as `csprop eval` does.

    A file has no sequences of other lengths, so that nothing is measured.
    """
    run, task = each.run, each.run.task
    if task.oracle is None:
        return
    say(f"{each.path}: measuring accuracy by length")
    trained = run.config.recipe.length
    longer = {task.length_from(trained * times) for times in TIMES}
    lengths = sorted(longer | {trained + 1, trained + 2})
    for kind in each.models:
        model = run.answering(as_trained=kind == "as trained")
        each.accuracies[kind] = {
            length: at_length(model, task, length).accuracy
            for length in lengths
            if task.has_length(length)
        }
