"""The page of some runs: models, machines, results, curves, certificates and provenance."""

import json
from collections import Counter
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from csprop.learning.suspects import read as read_suspects
from csprop.learning.verdict import Verdict
from csprop.proof.facts import list_facts
from csprop.report.charts import ALMOST, EPOCH, LENGTH, LOG, PERCENT, Chart, Series, curve, first, jump
from csprop.report.explorer import add_explorer
from csprop.report.page import Page, badge, facts, folded, paragraph, swatch, table
from csprop.report.read import PageRun, Say, measure, read
from csprop.training import checkpoint
from csprop.training.checkpoint import RunFolder
from csprop.training.scores import EVALUATION, percent

CURVES: dict[str, tuple[str, dict[str, Any]]] = {
    "accuracy": ("Held-out accuracy", PERCENT),
    "loss": ("Training loss", LOG),
    "grad_norm": ("Gradient norm", LOG),
}
"""Title and axis of each curve."""
FEW = 3
"""The most certificates that are not folded away."""
MOST_LISTED, LONGEST = 20, 80
"""The most suspects that a page lists, and the most characters of a sequence."""


def page(paths: Sequence[Path], measured: bool = True, say: Say = lambda line: None) -> str:
    """Return an HTML page with the explorer, curves, tables and certificates of some runs.

    If `measured`, it has accuracies at lengths beyond the trained one. `say` is called with lines
    about the progress.

    Raises:
        InputError: a run cannot be read, or its certificate does not hold.
    """
    runs = read(paths, say)
    html = Page(*_write_title(runs), _list_models(runs))
    add_explorer(html, runs)
    if sources := list(filter(None, map(_describe_source, runs))):
        html.add("Where the machine comes from", *sources)
    html.add("Runs", _list_runs(runs))
    if trained := [each for each in runs if each.run.metrics]:
        html.add("Training", html.figures(*_draw_training(trained)))
    if measured:
        for each in runs:
            measure(each, say)
    if any(each.accuracies for each in runs):
        html.add("Accuracy by length", _note_lengths(runs), html.figures(*_draw_lengths(runs)))
    if texts := {each.name: text for each in runs if (text := _describe_certificate(each))}:
        many = len(texts) > FEW
        html.add("Certificates", *(folded(*each) if many else each[1] for each in texts.items()))
    html.add("Configuration and provenance", *map(_list_documents, runs))
    return html.html()


def _draw_training(runs: Sequence[PageRun]) -> list[Chart]:
    """Draw accuracy, loss and gradient norm by epoch, with the jump and the spike marked."""
    charts = [
        Chart(title=title, link="training", x=EPOCH, y=y, series=[], marks=[])
        for title, y in CURVES.values()
    ]
    for each in runs:
        curves, colour = each.row["curve"], each.colours[each.models[-1]]
        marks = jump(curves, "accuracy", colour)
        for name, chart in zip(CURVES, charts, strict=True):
            points = curve(curves[name], [int(mark["x"]) for mark in marks[name]])
            line = Series(name=each.name, group=each.group, colour=colour, points=points)
            chart["series"].append(line)
            chart["marks"] += marks[name]
    return charts


def _draw_lengths(runs: Sequence[PageRun]) -> list[Chart]:
    """Draw accuracy by length, in one chart for each task."""
    charts: dict[str, Chart] = {}
    for each in runs:
        task = each.run.task.name
        empty = Chart(title=task, link=None, x=LENGTH, y=PERCENT, series=[], marks=[])
        for kind, accuracies in each.accuracies.items():
            name, group, colour = f"{each.name}, {kind}", f"{each.kind}, {kind}", each.colours[kind]
            line = Series(name=name, group=group, colour=colour, points=list(accuracies.items()))
            charts.setdefault(task, empty)["series"].append(line)
    return list(charts.values())


def _write_title(runs: Sequence[PageRun]) -> tuple[str, str]:
    """Return the question of the task that the runs are about, and the line below it."""
    tasks = {each.run.task.source: each.run.task for each in runs}
    ((name, task), *others) = tasks.items()
    question = "" if task.oracle is None else task.description
    title = f"{len(runs)} runs of csprop" if others else question[:1].upper() + question[1:] or name
    if len(runs) > 1:
        return title, "; ".join(dict.fromkeys(each.group for each in runs))
    return title, runs[0].name.removeprefix(f"{title}, ")


def _list_models(runs: Sequence[PageRun]) -> str:
    """List the models of a page with their colours and proofs, as HTML."""
    kinds: dict[tuple[str, str], list[PageRun]] = {}
    for each in runs:
        for model in each.models:
            kinds.setdefault((each.group, model), []).append(each)
    items = ""
    for (group, model), alike in kinds.items():
        name = model if len({each.group for each in runs}) == 1 else f"{group}, {model}"
        proofs = Counter(each.proof(model) for each in alike)
        badges = " ".join(
            badge(words if len(alike) == 1 else f"{count} of {len(alike)} {words}", kind)
            for (words, kind), count in proofs.items()
        )
        items += f"<li>{swatch(alike[0].colours[model])} {escape(name)} {badges}</li>"
    proven = [each.run.certificate for each in runs if each.proof(each.models[0])[1] == "yes"]
    claims = {each.statement for each in proven if each is not None}
    claim = paragraph(claims.pop(), "claim") if len(claims) == 1 else ""
    return f'<ul class="models">{items}</ul>{claim}'


def _list_runs(runs: Sequence[PageRun]) -> str:
    """List the runs in a table; a column that is empty for all is left out."""
    lines = list(map(_list_results, runs))
    headings = [name for name in lines[0] if any(line[name] for line in lines)]
    rows = [["", *(line[name] for name in headings)] for line in lines]
    return table("Runs", ["run", *headings], rows, list(map(_heading, runs)))


def _heading(each: PageRun) -> str:
    """Return a run's name, folder and models with their proofs."""
    models = "".join(
        f"<li>{swatch(each.colours[model])} {escape(model)} {badge(*each.proof(model))}</li>"
        for model in each.models
    )
    folder = f"<small>{escape(str(each.path))}</small>"
    return f'{escape(each.name)}<br>{folder}<ul class="models">{models}</ul>'


def _list_results(each: PageRun) -> dict[str, str]:
    """Return the numbers of a run, by heading."""
    run, result = each.run, each.run.result
    every = None if result is None else result.exhaustive
    epochs, held_out, f1 = f"none: {run.made}", "", ""
    if run.made == "learned":
        held_out = percent(_read_verdict(each).accuracy)
    elif run.made == "trained":
        epochs = str(len(run.metrics)) + ("" if result else ", unfinished")
        best = max(run.metrics, key=lambda epoch: epoch["accuracy"], default={})
        best = best if result is None else vars(result)
        held_out, f1 = (percent(best["accuracy"]), f"{best['f1']:.4f}") if best else ("", "")
    return {
        "parameters": f"{sum(value.numel() for value in run.model.parameters()):,}",
        "epochs": epochs,
        "held-out accuracy": held_out,
        "F1": f1,
        "first at 90%": str(first(each.row, ALMOST) or ""),
        "first at 100%": str(first(each.row, 1.0) or ""),
        "in the paper (Table 2, text, Figure 3)": run.task.paper_epochs if run.metrics else "",
        "wrong, of every input": f"{every.wrong:,} of {every.count:,}" if every else "",
    }


def _note_lengths(runs: Sequence[PageRun]) -> str:
    """Explain how the accuracies by length were measured."""
    measured = [each for each in runs if each.accuracies and each.run.made == "trained"]
    trained = sorted({each.run.config.recipe.length for each in measured})
    lengths = f"Trained on length {', '.join(map(str, trained))}. " if trained else ""
    return paragraph(
        f"{lengths}Tested on {EVALUATION.most:,} random sequences of each length, fewer where they "
        f"would have more than {EVALUATION.tokens:,} tokens in all. `csprop eval` tests on the same "
        "sequences and gives the same accuracies. An accuracy near 0 means that the state has drifted "
        "until every answer is wrong. The proof of a locked model does not depend on these samples."
    )


def _describe_certificate(each: PageRun) -> str:
    """Return a run's certificate, or why nothing is proven; empty if it has none."""
    certificate = each.run.certificate
    if certificate is None:
        return ""
    model, width = each.models[0], each.run.config.model.width
    name = each.name if len(each.models) == 1 else f"{each.name}, {model}"
    heading = f"<h3>{swatch(each.colours[model])} {escape(name)} {badge(*each.proof(model))}</h3>"
    if certificate.unchecked:
        return heading + paragraph(
            "The certificate is about rows that cannot be read now, so nothing is claimed here. The "
            "explorer shows the locked model and its automaton as they are computed from the weights."
        )
    return heading + paragraph(certificate.statement) + facts(list_facts(certificate, width))


def _list_documents(each: PageRun) -> str:
    """Return the documents of a run directory, folded away."""
    folder = RunFolder(each.path)
    names = [name for name in (checkpoint.CONFIG, checkpoint.RESULT) if folder.has(name)]
    documents = {name: folder.read_json(name) for name in names}
    text = ""
    for name, document in (documents | {checkpoint.MANIFEST: folder.digests()}).items():
        content = json.dumps(document, indent=2, ensure_ascii=False)
        text += f"<h3>{escape(name)}</h3><pre>{escape(content)}</pre>"
    return folded(str(each.path), text)


def _describe_source(each: PageRun) -> str:
    """Return the source of a machine that is written into the weights; empty for a trained model."""
    if each.run.made == "trained":
        return ""
    content = _describe_learned(each) if each.run.made == "learned" else _describe_compiled(each)
    return f"<h3>{escape(each.name)}</h3>{content}"


def _read_verdict(each: PageRun) -> Verdict:
    """Return the verdict of `csprop learn`, with the numbers of result.json."""
    run, result = each.run, each.run.result
    assert result is not None
    assert result.verdict is not None
    states, is_task = len(run.automaton or ()), run.task.oracle is not None
    known = {"source": run.task.source, "clear": True, "states": states, "is_task": is_task}
    return Verdict(**vars(result.verdict), **known, certificate=run.certificate)


def _describe_learned(each: PageRun) -> str:
    """Return the verdict of `csprop learn`, and the suspects, with the position of each label."""
    certificate, verdict = each.run.certificate, _read_verdict(each)
    checked = certificate is not None and not certificate.unchecked
    unchecked = f"Found by `csprop learn` in {verdict.rows:,} rows; what it found is not checked now."
    text = paragraph(verdict.text if checked else unchecked)
    suspects = read_suspects(each.path)
    if verdict.is_task or not suspects:
        return text
    lines = [
        [str(one.line), one.short(LONGEST), one.label, one.answer, str(one.position)]
        for one in suspects[:MOST_LISTED]
    ]
    few = len(suspects) <= MOST_LISTED
    title = "The suspects" if few else f"The first {MOST_LISTED} of {len(suspects):,} suspects"
    headings = ["line", "sequence", "label", "the machine says", "after so many tokens"]
    note = "If the machine is right, these labels are wrong. `suspects.jsonl` has all suspects."
    return text + folded(title, paragraph(note) + table("Suspects", headings, lines))


def _describe_compiled(each: PageRun) -> str:
    run, model = each.run, each.run.config.model
    text = f"Not trained: {run.task.name}, {run.task.description}, is written into the weights"
    if run.automaton is not None:
        layers = "one router" if model.depth == 1 else "counters, and above them a router"
        text += f": {layers} of {model.width} places, {len(run.automaton)} of them in use"
    return paragraph(f"{text}.")
