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
    """A run on the page. It has a name of its own, and a group of runs of the same kind.

    `models` are its models by name: "locked" and "as trained", or "exact" for the model of a machine.
    Each has a colour, which models of the same group share, and accuracies by length.
    """

    run: Run
    path: Path
    name: str = ""
    group: str = ""
    colours: dict[str, int] = field(default_factory=dict)
    accuracies: dict[str, dict[int, float]] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        """Its preset, or "learned" or "compiled"."""
        return self.run.config.preset if self.run.made == "trained" else self.run.made

    @property
    def models(self) -> list[str]:
        if self.run.made != "trained":
            return ["exact"]  # the locked model and its origin are the same machine
        return ["as trained"] if self.run.locked is None else ["locked", "as trained"]

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

    A path is a run directory, which must be readable, or holds run directories, as `csprop train
    --seeds` leaves them. Of these, `say` is told which cannot be read and are left out.

    Raises:
        InputError: a run cannot be read, or its certificate does not hold.
    """
    runs: dict[Path, PageRun] = {}
    for folder in paths:
        inside = [path.parent for path in folder.glob(f"*/{checkpoint.CONFIG}")]
        inside.sort(key=lambda path: (len(path.name), path.name))
        alone = (folder / checkpoint.CONFIG).exists() or not inside
        for path in [folder] if alone else inside:
            try:
                run = load(path)
                _ = run.certificate  # checked here: a run with a wrong one can still be left out
                runs.setdefault(path.resolve(), PageRun(run, path))
            except InputError as error:
                if alone:
                    raise
                say(f"{error}; left out")
    if not runs:
        raise InputError(f"{paths[0]}: none of the runs in it can be read")
    _name(list(runs.values()))
    return list(runs.values())


def _name(runs: Sequence[PageRun]) -> None:
    """Give each run a name of its own, and each kind of model a colour of its own."""
    for each in runs:
        each.group = f"{each.run.task.source}, {each.kind}"
        seed = "" if each.run.made == "compiled" else f", seed {each.run.config.seed}"
        each.name = f"{each.group}{seed}"
    groups, names = [each.group for each in runs], [each.name for each in runs]
    order = list(dict.fromkeys((each.group, model) for each in runs for model in each.models))
    for each in runs:
        each.colours = {name: order.index((each.group, name)) % COLOURS for name in each.models}
        if names.count(each.name) > 1:
            each.name = f"{each.name} ({each.path})"
        if (count := groups.count(each.group)) > 1:
            each.group = f"{each.group}, {count} runs"


def measure(each: PageRun, say: Say) -> None:
    """Measure a run's accuracy by length, as `csprop eval` does; a file has no other lengths."""
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
