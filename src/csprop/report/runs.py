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
from csprop.report.charts import COLOURS, EPOCH, LOG, PERCENT, Chart, Mark, Series, curve
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
"""Bytes of weights; a page with more would be slow to open."""
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
    if any(each.run.metrics for each in shown):
        made.add("Training", _note(shown), made.figures(*_training(shown)))
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
    return f"{shown[0].path}: {document['verdict']}"


def _explorer(page: Page, shown: Sequence[Shown]) -> None:
    """As many models as fit; a model too large to embed is named instead."""
    room, left_out = MOST_EMBEDDED, []
    for number, each in enumerate(shown):
        size = embed.size(each.run.model) * (2 if each.locked else 1)
        if size > room:
            left_out.append(each)
            continue
        room -= size
        page.tasks.append(embed.task(each.run))
        recipe = each.run.config.recipe
        only_last = recipe.supervise == "last" and recipe.lengths == "fixed"
        asked = recipe.length if only_last else 1  # the first token on whose answer it was trained
        entry = {"run": number, "task": len(page.tasks) - 1, "asked": asked}
        if each.locked is not None:
            task = each.run.task
            machine = each.locked.automaton(task.vocab, task.classes, task.words).minimal()
            name = f"{each.name}, locked"
            page.models.append({**entry, "name": name, **embed.locked(each.locked, machine)})
        name = each.name if each.locked is None else f"{each.name}, as trained"
        page.models.append({**entry, "name": name, **embed.trained(each.run.model)})
    if page.models:
        page.sections.append(asset("explorer.html"))
    for each in left_out:
        megabytes = embed.size(each.run.model) / 2**20
        sentence = (
            f"{each.name}: the explorer leaves this model out, as its weights have {megabytes:.1f} MB "
            f"and a page takes {MOST_EMBEDDED / 2**20:.0f} MB in all."
        )
        page.sections.append(f"<p>{escape(sentence)}</p>")


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
    return table(headings, [_line(each) for each in shown])


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
        each.certificate["verdict"] if each.certificate else "",
    ]


def _training(shown: Sequence[Shown]) -> list[Chart]:
    """Held-out accuracy, loss and gradient norm by epoch, with the jump and the spike marked."""
    axes: dict[str, dict[str, Any]] = {"accuracy": PERCENT, "loss": LOG, "grad_norm": LOG}
    charts = []
    for measured, title in CURVES.items():
        series: list[Series] = []
        marks: list[Mark] = []
        for each in shown:
            if each.run.metrics:
                values = each.curves["curve"][measured]
                here = _marks(each)[measured]
                marks += here
                points = curve(values, [int(mark["x"]) for mark in here])
                series.append(
                    {"name": each.name, "group": each.group, "colour": each.colour, "points": points}
                )
        charts.append(
            Chart(title=title, link="training", x=EPOCH, y=axes[measured], series=series, marks=marks)
        )
    return charts


def _marks(each: Shown) -> dict[str, list[Mark]]:
    """Where accuracy jumps from 90% to 100%, and where the gradient norm is largest."""
    row, marks = each.curves, {name: [] for name in CURVES}
    for level, label, shape in (
        (ALMOST, "first 90%", "ring"),
        (1.0, "first 100%", "dot"),
    ):
        if epoch := first(row, level):
            height = row["curve"]["accuracy"][epoch - 1]
            marks["accuracy"].append(
                Mark(label=label, shape=shape, colour=each.colour, x=epoch, y=height)
            )
    norms = row["curve"]["grad_norm"]
    if norms and max(norms) > 0:
        epoch = spike(row)
        marks["grad_norm"].append(
            Mark(
                label="largest gradient norm",
                shape="spike",
                colour=each.colour,
                x=epoch,
                y=norms[epoch - 1],
            )
        )
    return marks


def _note(shown: Sequence[Shown]) -> str:
    """The jump and the spike, in words."""
    sentences = []
    for each in shown[:12]:
        if not each.run.metrics:
            continue
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
    verdict = document["verdict"] if document["proven"] else "not proven"
    return (
        f"<h3>{escape(each.name)}: {escape(verdict)}</h3><p>{escape(document['statement'])}</p>"
        + facts(certified(document))
    )


def _provenance(each: Shown) -> str:
    folder = RunFolder(each.path)
    documents = {name: folder.read_json(name) for name in (checkpoint.CONFIG,)}
    if folder.has(checkpoint.RESULT):
        documents[checkpoint.RESULT] = folder.read_json(checkpoint.RESULT)
    documents[checkpoint.MANIFEST] = json.loads((each.path / checkpoint.MANIFEST).read_text())
    text = ""
    for name, document in documents.items():
        content = json.dumps(document, indent=2, ensure_ascii=False)
        text += f"<h4>{escape(name)}</h4><pre>{escape(content)}</pre>"
    return folded(str(each.path), text)
