"""The page of some runs: the explorer, their curves, accuracy by length, tables, certificates."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

from csprop.errors import InputError
from csprop.exact.document import Certificate
from csprop.exact.locked import Locked
from csprop.report import embed
from csprop.report.charts import COLOURS, EPOCH, LOG, PERCENT, Chart, Mark, Series, curve, jump
from csprop.report.page import Page, asset, facts, folded, table
from csprop.report.words import certified
from csprop.runs import Run, load
from csprop.study.grokking import ALMOST, first, spike
from csprop.study.table import percent
from csprop.training import checkpoint
from csprop.training.checkpoint import RunFolder
from csprop.training.metrics import EVALUATION, at_length

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
    certificate: Certificate | None = None
    lengths: dict[str, dict[int, float]] = field(default_factory=dict)

    @property
    def curves(self) -> dict[str, Any]:
        """As a row of the study has them."""
        return {"curve": {name: [row[name] for row in self.run.metrics] for name in CURVES}}


def page(
    paths: Sequence[Path], measured: bool = True, say: Callable[[str], None] = lambda line: None
) -> str:
    """The whole page; where it is asked for, with accuracies measured at lengths beyond the trained."""
    shown = _read_all(paths, say)
    _name(shown)
    made = Page(_title(shown), _lead(shown))
    _explorer(made, shown)
    made.add("Runs", _runs(shown))
    if begun := [each for each in shown if each.run.metrics]:
        made.add("Training", made.figures(*_training(begun)))
    if measured:
        for each in shown:
            _measure(each, say)
    if any(each.lengths for each in shown):
        made.add("Accuracy by length", _length_note(shown), made.figures(*_by_length(shown)))
    certificates = [_certificate(each) for each in shown if each.certificate]
    if certificates:
        made.add("Certificates", *certificates)
    made.add("Configuration and provenance", *(_provenance(each) for each in shown))
    return made.html()


def _runs_in(folder: Path) -> list[Path]:
    """A run, or the runs in a folder of them, as `csprop train --seeds` leaves it."""
    if (folder / checkpoint.CONFIG).exists():
        return [folder]
    inside = [path.parent for path in folder.glob(f"*/{checkpoint.CONFIG}")]
    return sorted(inside, key=lambda path: (len(path.name), path.name)) or [folder]


def _read_all(paths: Sequence[Path], say: Callable[[str], None]) -> list[Shown]:
    """The runs, each once; of a folder of runs those that can be read, and the others are named."""
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
        raise InputError(f"{paths[0]}: no run in it can be read")
    return list(shown.values())


def _read(path: Path) -> Shown:
    run = load(path)
    return Shown(run, path, locked=run.locked, certificate=run.certificate)


def _name(shown: Sequence[Shown]) -> None:
    """Names that tell the runs apart, and a colour for each kind."""
    groups = [f"{each.run.task.name}, {each.run.config.preset}" for each in shown]
    names = [f"{group}, seed {each.run.config.seed}" for group, each in zip(groups, shown, strict=True)]
    order = list(dict.fromkeys(groups))
    for each, group, name in zip(shown, groups, names, strict=True):
        seeds = groups.count(group)
        each.group = group if seeds == 1 else f"{group}, {seeds} runs"
        each.colour = order.index(group) % COLOURS
        each.name = name if names.count(name) == 1 else f"{name} ({each.path})"


def _title(shown: Sequence[Shown]) -> str:
    return shown[0].name if len(shown) == 1 else f"{len(shown)} runs of csprop"


def _lead(shown: Sequence[Shown]) -> str:
    if len(shown) > 1:
        return "; ".join(dict.fromkeys(each.group for each in shown))
    certificate = shown[0].certificate
    if certificate is None:
        return f"{shown[0].path}: not certified"
    return f"{shown[0].path}: {_verdict(certificate)}"


def _verdict(certificate: Certificate) -> str:
    if certificate.unchecked:
        return f"the certificate cannot be checked ({certificate.unchecked})"
    return certificate.verdict if certificate.proven else f"not proven ({certificate.verdict})"


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
    machine = each.run.automaton
    assert machine is not None
    return [
        {"name": f"{each.name}, locked", **embed.locked(each.locked, machine)},
        {"name": f"{each.name}, as trained", **embed.trained(each.run.model)},
    ]


def _runs(shown: Sequence[Shown]) -> str:
    """A line a run; columns in which nobody has anything are left out."""
    lines = [_line(each) for each in shown]
    headings = [name for name in lines[0] if any(line[name] for line in lines)]
    return table("Runs", headings, [[line[name] for name in headings] for line in lines])


def _line(each: Shown) -> dict[str, str]:
    run, row = each.run, each.curves
    result: dict[str, Any] = run.result or {}
    every = result.get("exhaustive")
    best = result or max(run.metrics, key=lambda row: row["accuracy"], default={})
    return {
        "run": str(each.path),
        "task": run.task.name,
        "preset": run.config.preset,
        "seed": str(run.config.seed),
        "parameters": f"{sum(value.numel() for value in run.model.parameters()):,}",
        "epochs": str(len(run.metrics)) + ("" if result else ", unfinished"),
        "first at 90%": str(first(row, ALMOST) or ""),
        "first at 100%": str(first(row, 1.0) or ""),
        "the paper (Table 2, text, Figure 3)": run.task.paper_epochs,
        "largest gradient norm at": str(spike(row)) if run.metrics else "",
        "held-out accuracy": percent(best["accuracy"]) if best else "",
        "F1": f"{best['f1']:.4f}" if best else "",
        "wrong, of every input": f"{every['wrong']:,} of {every['count']:,}" if every else "",
        "certificate": _verdict(each.certificate) if each.certificate else "",
    }


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


def _measure(each: Shown, say: Callable[[str], None]) -> None:
    """Accuracy at lengths beyond the trained one, as trained and locked."""
    task = each.run.task
    if task.oracle is None:
        return
    say(f"{each.path}: measuring accuracy by length")
    length = each.run.config.recipe.length
    for tested in sorted({length * times for times in TIMES} | {length + 1, length + 2}):
        if not task.has_length(tested):
            continue
        models = {"locked": each.locked, "as trained": each.run.model}
        for kind, model in models.items():
            if model is not None:
                accuracy = at_length(model, task, tested).accuracy
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
        f"<p>Trained on length {lengths}. Random sequences, {EVALUATION.most:,} at a length or as "
        f"many as have {EVALUATION.tokens:,} tokens; what is proven needs no sample. An accuracy near 0 "
        "is a drift that turned all answers into wrong ones.</p>"
    )


def _certificate(each: Shown) -> str:
    assert each.certificate is not None
    heading = escape(f"{each.name}: {_verdict(each.certificate)}")
    statement = "" if each.certificate.unchecked else escape(each.certificate.statement)
    return f"<h3>{heading}</h3><p>{statement}</p>" + facts(certified(each.certificate.document))


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
