"""The page of some runs: the explorer, their curves, accuracy by length, tables, certificates."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

from csprop.errors import InputError
from csprop.exact.locked import Locked
from csprop.exact.store import load_locked
from csprop.report import embed
from csprop.report.charts import COLOURS, EPOCH, LOG, PERCENT, Chart, Mark, Series, curve, jump
from csprop.report.page import Page, asset, facts, folded, table
from csprop.report.words import certified
from csprop.study.grokking import ALMOST, first, spike
from csprop.study.main import SAID
from csprop.study.measure import at_length
from csprop.tasks import Task
from csprop.training import checkpoint
from csprop.training.checkpoint import RunFolder
from csprop.training.run import Run, load

MOST_EMBEDDED = 5 * 2**20
"""Bytes of models as they are embedded; a page with more would be slow to open."""
TIMES = (1, 2, 4, 16, 64, 256)
"""Lengths to test, as multiples of the trained one."""
CURVES = {"accuracy": "Held-out accuracy", "loss": "Training loss", "grad_norm": "Gradient norm"}


@dataclass
class Shown:
    """A run with what is shown of it."""

    run: Run
    path: Path
    name: str = ""
    colour: int = 0
    group: str = ""
    locked: Locked | None = None
    certificate: dict[str, Any] | None = None
    lengths: dict[str, dict[int, float]] = field(default_factory=dict)

    @property
    def curves(self) -> dict[str, Any]:
        """As a row of the study has them."""
        return {"curve": {name: [row[name] for row in self.run.metrics] for name in CURVES}}


def page(
    paths: Sequence[Path], measured: bool = True, say: Callable[[str], None] = lambda line: None
) -> str:
    """The whole page; where it is asked for, with accuracies measured at lengths beyond the trained."""
    shown = [_read(path) for path in paths]
    _name(shown)
    made = Page(_title(shown), _lead(shown))
    _explorer(made, shown)
    made.add("Runs", _runs(shown))
    if begun := [each for each in shown if each.run.metrics]:
        made.add("Training", _note(begun), made.figures(*_training(begun)))
    if measured:
        for each in shown:
            _measure(each, say)
    if any(each.lengths for each in shown):
        made.add("Accuracy by length", made.figures(*_by_length(shown)), _length_note(shown))
    certificates = [_certificate(each) for each in shown if each.certificate]
    if certificates:
        made.add("Certificates", *certificates)
    made.add("Configuration and provenance", *(_provenance(each) for each in shown))
    return made.html()


def _read(path: Path) -> Shown:
    run = load(path)
    shown, folder = Shown(run, path), RunFolder(path)
    if folder.has(checkpoint.CERTIFICATE):
        shown.certificate = folder.read_json(checkpoint.CERTIFICATE)
    shown.locked = load_locked(run)
    return shown


def _name(shown: Sequence[Shown]) -> None:
    """Names that tell the runs apart, and a colour for each kind."""
    groups = [f"{each.run.task.name}, {each.run.config.preset}" for each in shown]
    names = [f"{group}, seed {each.run.config.seed}" for group, each in zip(groups, shown, strict=True)]
    order = list(dict.fromkeys(groups))
    for each, group, name in zip(shown, groups, names, strict=True):
        each.group, each.colour = group, order.index(group) % COLOURS
        each.name = name if names.count(name) == 1 else f"{name} ({each.path})"


def _title(shown: Sequence[Shown]) -> str:
    return shown[0].name if len(shown) == 1 else f"{len(shown)} runs of csprop"


def _lead(shown: Sequence[Shown]) -> str:
    if len(shown) > 1:
        return "; ".join(dict.fromkeys(each.group for each in shown))
    document = shown[0].certificate
    if document is None:
        return f"{shown[0].path}: not certified"
    return f"{shown[0].path}: {_verdict(document)}"


def _verdict(document: dict[str, Any]) -> str:
    return document["verdict"] if document["proven"] else f"not proven ({document['verdict']})"


def _explorer(page: Page, shown: Sequence[Shown]) -> None:
    """As many models as fit; one that does not is named instead."""
    room, sentences = MOST_EMBEDDED, []
    tasks: dict[str, int] = {}  # a task's JSON to its number
    for number, each in enumerate(shown):
        recipe, task = each.run.config.recipe, json.dumps(embed.task(each.run))
        only_last = recipe.supervise == "last" and recipe.lengths == "fixed"
        asked = recipe.length if only_last else 1  # the first token on whose answer it was trained
        entry = {"run": number, "task": tasks.get(task, len(tasks)), "asked": asked}
        models = [entry | model for model in _models(each)]
        size = len(json.dumps(models)) + (0 if task in tasks else len(task))
        if size > room:
            sentences.append(
                f"{each.name}: the explorer leaves this model out, as it would add {size / 2**20:.1f} "
                f"MB to the page, which takes {MOST_EMBEDDED / 2**20:.0f} MB of models in all."
            )
            continue
        room -= size
        if task not in tasks:
            tasks[task] = len(tasks)
            page.tasks.append(json.loads(task))
        page.models += models
    if page.models:
        page.sections.append(asset("explorer.html"))
    page.sections += [f"<p>{escape(sentence)}</p>" for sentence in sentences]


def _models(each: Shown) -> list[dict[str, Any]]:
    """A run's model, and where it is certified the locked one before it."""
    if each.locked is None:
        return [{"name": each.name, **embed.trained(each.run.model)}]
    task = each.run.task
    machine = each.locked.automaton(task.vocab, task.classes, task.words).minimal()
    return [
        {"name": f"{each.name}, locked", **embed.locked(each.locked, machine)},
        {"name": f"{each.name}, as trained", **embed.trained(each.run.model)},
    ]


def _runs(shown: Sequence[Shown]) -> str:
    headings = [
        "run",
        "task",
        "preset",
        "seed",
        "parameters",
        "epochs",
        "first epoch at 100%",
        "the paper: epochs (Table 2, text, Figure 3)",
        "held-out accuracy",
        "F1",
        "wrong, of every input",
        "certificate",
    ]
    return table("Runs", headings, [_line(each) for each in shown])


def _line(each: Shown) -> list[str]:
    run = each.run
    result: dict[str, Any] = run.result or {}
    every = result.get("exhaustive")
    first = result.get("first_epoch_at_target")
    best = result or max(run.metrics, key=lambda row: row["accuracy"], default={})
    return [
        str(each.path),
        run.task.name,
        run.config.preset,
        str(run.config.seed),
        f"{sum(value.numel() for value in run.model.parameters()):,}",
        str(len(run.metrics)) + ("" if result else ", unfinished"),
        "" if first is None else str(first),
        SAID.get(run.task.name, ""),
        f"{best['accuracy']:.2%}" if best else "",
        f"{best['f1']:.4f}" if best else "",
        f"{every['wrong']:,} of {every['count']:,}" if every else "",
        _verdict(each.certificate) if each.certificate else "",
    ]


def _training(shown: Sequence[Shown]) -> list[Chart]:
    """Held-out accuracy, loss and gradient norm by epoch, with the jump and the spike marked."""
    axes: dict[str, dict[str, Any]] = {"accuracy": PERCENT, "loss": LOG, "grad_norm": LOG}
    charts = []
    for measured, title in CURVES.items():
        series: list[Series] = []
        marks: list[Mark] = []
        for each in shown:
            curves = each.curves["curve"]
            here = jump(curves, "accuracy", each.colour)[measured]
            points = curve(curves[measured], [int(mark["x"]) for mark in here])
            marks += here
            series.append(Series(name=each.name, group=each.group, colour=each.colour, points=points))
        y = axes[measured]
        charts.append(Chart(title=title, link="training", x=EPOCH, y=y, series=series, marks=marks))
    return charts


def _note(shown: Sequence[Shown]) -> str:
    """The jump and the spike, in words."""
    sentences = []
    for each in shown[:12]:
        row = each.curves
        start, end = first(row, ALMOST), first(row, 1.0)
        if end is not None:
            jump = f"reaches 90% at epoch {start} and 100% at epoch {end}"
        elif start is not None:
            jump = f"reaches 90% at epoch {start}, and never 100%"
        else:
            jump = "does not reach 90%"
        sentences.append(f"{each.name}: {jump}; the gradient norm is largest at epoch {spike(row)}.")
    return "".join(f"<p>{escape(sentence)}</p>" for sentence in sentences)


def _measure(each: Shown, say: Callable[[str], None]) -> None:
    """Accuracy at lengths beyond the trained one, as trained and locked."""
    task = each.run.task
    if not isinstance(task, Task):
        return
    say(f"{each.path}: measuring accuracy by length")
    length = each.run.config.recipe.length
    for tested in sorted({length * times for times in TIMES} | {length + 1, length + 2}):
        try:
            task.check_length(tested)
        except InputError:
            continue
        models = {"locked": each.locked, "as trained": each.run.model}
        for kind, model in models.items():
            if model is not None:
                accuracy = at_length(model, task, tested, each.run.config.seed)
                each.lengths.setdefault(kind, {})[tested] = accuracy


def _by_length(shown: Sequence[Shown]) -> list[Chart]:
    """One chart a task."""
    charts = []
    for task in dict.fromkeys(each.run.task.name for each in shown if each.lengths):
        series: list[Series] = []
        groups: list[str] = []
        for each in shown:
            if each.run.task.name != task:
                continue
            for kind, accuracies in each.lengths.items():
                group = f"{each.run.config.preset}, {kind}"
                groups += [] if group in groups else [group]
                series.append(
                    Series(
                        name=f"{each.name}, {kind}",
                        group=group,
                        colour=groups.index(group) % COLOURS,
                        points=list(accuracies.items()),
                    )
                )
        charts.append(
            Chart(
                title=task, link=None, x={"label": "length"} | LOG, y=PERCENT, series=series, marks=[]
            )
        )
    return charts


def _length_note(shown: Sequence[Shown]) -> str:
    trained = sorted({each.run.config.recipe.length for each in shown if each.lengths})
    lengths = ", ".join(map(str, trained))
    return (
        f"<p>Trained on length {lengths}. Random sequences, 256 at a length or as many as have a "
        "million tokens; what is proven needs no sample.</p>"
    )


def _certificate(each: Shown) -> str:
    assert each.certificate is not None
    document = each.certificate
    heading = escape(f"{each.name}: {_verdict(document)}")
    return f"<h3>{heading}</h3><p>{escape(document['statement'])}</p>" + facts(certified(document))


def _provenance(each: Shown) -> str:
    folder = RunFolder(each.path)
    documents = {checkpoint.CONFIG: folder.read_json(checkpoint.CONFIG)}
    if folder.has(checkpoint.RESULT):
        documents[checkpoint.RESULT] = folder.read_json(checkpoint.RESULT)
    documents[checkpoint.MANIFEST] = json.loads((each.path / checkpoint.MANIFEST).read_text())
    text = ""
    for name, document in documents.items():
        content = json.dumps(document, indent=2, ensure_ascii=False)
        text += f"<h3>{escape(name)}</h3><pre>{escape(content)}</pre>"
    return folded(str(each.path), text)
