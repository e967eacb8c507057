"""The runs of a page: read from disk, named and measured."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from csprop.errors import InputError
from csprop.report.charts import COLOURS
from csprop.runs.run import Run, load
from csprop.training import checkpoint
from csprop.training.metrics import at_length

TIMES = (1, 2, 4, 16, 64, 256)
"""Lengths to test, as multiples of the trained one."""

Say = Callable[[str], None]


@dataclass
class PageRun:
    """A run with its names and colours on the page."""

    run: Run
    path: Path
    name: str = ""
    """A name that no other run of the page has."""
    group: str = ""
    """The name that it shares with runs of the same kind; their models also share their colours."""
    colours: dict[str, int] = field(default_factory=dict)
    """The colour of each of its models: "locked" and "as trained", or "exact" for a machine's model."""
    accuracies: dict[str, dict[int, float]] = field(default_factory=dict)
    """The accuracy by length of each of its models."""

    @property
    def kind(self) -> str:
        """Its preset, or "learned" or "compiled"."""
        return self.run.config.preset if self.run.made == "trained" else self.run.made

    @property
    def models(self) -> list[str]:
        """The names of its models: a locked model and the model that it was made of are two."""
        if self.run.made != "trained":
            return ["exact"]  # both are the same machine
        return ["as trained"] if self.run.locked is None else ["locked", "as trained"]

    @property
    def colour(self) -> int:
        """The colour of the trained model."""
        return self.colours[self.models[-1]]

    def proof(self, model: str) -> tuple[str, str]:
        """Return the verdict about one of its models in a few words, and "yes", "no" or "none"."""
        certificate = self.run.certificate
        if certificate is None:
            return "not certified", "none"
        if self.models[0] == "locked" and model != "locked":
            return "not proven", "none"  # the proof is about the locked model
        proven = certificate.proven and not certificate.unchecked
        return certificate.summary, "yes" if proven else "no"

    @property
    def row(self) -> dict[str, Any]:
        """Its curves, as a row of the study has them."""
        names = ("accuracy", "loss", "grad_norm")
        return {"curve": {name: [epoch[name] for epoch in self.run.metrics] for name in names}}


def read(paths: Sequence[Path], say: Say) -> list[PageRun]:
    """Read the runs in some folders, each once, and check their certificates.

    Args:
        paths: run directories, or folders of them, as `csprop train --seeds` leaves them. A run
            directory must be readable; in a folder of runs, those that are not are left out.
        say: is called with a line about every run that is left out.

    Raises:
        InputError: a run cannot be read, or its certificate does not hold.
    """
    runs: dict[Path, PageRun] = {}
    for folder in paths:
        inside = _runs_in(folder)
        for path in inside:
            try:
                runs.setdefault(path.resolve(), _read(path))
            except InputError as error:
                if inside == [folder]:
                    raise
                say(f"{error}; left out")
    if not runs:
        raise InputError(f"{paths[0]}: none of the runs in it can be read")
    _name(list(runs.values()))
    return list(runs.values())


def _runs_in(folder: Path) -> list[Path]:
    if (folder / checkpoint.CONFIG).exists():
        return [folder]
    inside = [path.parent for path in folder.glob(f"*/{checkpoint.CONFIG}")]
    return sorted(inside, key=lambda path: (len(path.name), path.name)) or [folder]


def _read(path: Path) -> PageRun:
    run = load(path)
    _ = run.certificate  # checked here: a run with a wrong one can still be left out
    return PageRun(run, path)


def _name(runs: Sequence[PageRun]) -> None:
    """Give each run a name of its own, and each kind of model a colour of its own."""
    groups = [f"{each.run.task.source}, {each.kind}" for each in runs]
    names = [
        group if each.run.made == "compiled" else f"{group}, seed {each.run.config.seed}"
        for group, each in zip(groups, runs, strict=True)
    ]
    kinds = [(group, model) for group, each in zip(groups, runs, strict=True) for model in each.models]
    order = list(dict.fromkeys(kinds))
    for each, group, name in zip(runs, groups, names, strict=True):
        seeds = groups.count(group)
        each.group = group if seeds == 1 else f"{group}, {seeds} runs"
        each.colours = {model: order.index((group, model)) % COLOURS for model in each.models}
        each.name = name if names.count(name) == 1 else f"{name} ({each.path})"


def measure(each: PageRun, say: Say) -> None:
    """Measure a run's accuracy at the trained length and beyond, as `csprop eval` does.

    A run of a file is not measured, because a file has no sequences of other lengths.
    """
    run, task = each.run, each.run.task
    if task.oracle is None:
        return
    say(f"{each.path}: measuring accuracy by length")
    trained = run.config.recipe.length
    longer = {task.length_from(trained * times) for times in TIMES}
    lengths = [n for n in sorted(longer | {trained + 1, trained + 2}) if n in task.lengths]
    for kind in each.models:
        model = run.answering(as_trained=kind == "as trained")
        each.accuracies[kind] = {n: at_length(model, task, n).accuracy for n in lengths}
