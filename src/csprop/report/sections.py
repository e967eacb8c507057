"""What a page says of its runs: the explorer, the table of runs, certificates, provenance."""

import json
from collections.abc import Sequence
from html import escape
from typing import Any

from csprop.exact.words import certified, verdict
from csprop.report import embed, machines
from csprop.report.page import Page, asset, facts, folded, table
from csprop.report.read import Shown
from csprop.study.grokking import ALMOST, first, spike
from csprop.training import checkpoint
from csprop.training.checkpoint import RunFolder
from csprop.training.scores import EVALUATION, percent

MOST_EMBEDDED = 5 * 2**20
"""Bytes of all models on a page; with more it would be slow to open."""


def title(shown: Sequence[Shown]) -> str:
    """What the page is called."""
    return shown[0].name if len(shown) == 1 else f"{len(shown)} runs of csprop"


def lead(shown: Sequence[Shown]) -> str:
    """The sentence below the title."""
    if len(shown) > 1:
        return "; ".join(dict.fromkeys(each.group for each in shown))
    certificate = shown[0].run.certificate
    return f"{shown[0].path}: {'not certified' if certificate is None else verdict(certificate)}"


def explorer(page: Page, shown: Sequence[Shown]) -> None:
    """Add the explorer with as many models as fit; a model that does not is named instead."""
    room, sentences = MOST_EMBEDDED, []
    tasks: dict[str, int] = {}  # a task's JSON to its number
    for number, each in enumerate(shown):
        recipe, task = each.run.config.recipe, json.dumps(embed.task(each.run))
        only_last = recipe.supervise == "last" and recipe.lengths == "fixed"
        # The first token on whose answer it was trained.
        asked = recipe.length if only_last and each.run.made == "trained" else 1
        entry = {"run": number, "task": tasks.get(task, len(tasks)), "asked": asked}
        models = [entry | model for model in _models(each)]
        size = len(json.dumps(models)) + (0 if task in tasks else len(task))
        if size > room:
            sentences.append(
                f"{each.name}: this model is not in the explorer, because it would add "
                f"{size / 2**20:.1f} MB to the page, which holds at most "
                f"{MOST_EMBEDDED / 2**20:.0f} MB of models."
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
    """A run's model, and before it the locked one, if there is one and it is another."""
    locked, automaton = each.run.locked, each.run.automaton
    if locked is None or automaton is None:
        routed = embed.of_router(each.run)
        drawn = {} if routed is None else {"automaton": embed.drawn(routed)}
        return [{"name": each.name, **embed.trained(each.run.model), **drawn}]
    if each.run.made != "trained":
        return [{"name": each.name, **embed.locked(locked, automaton)}]
    return [
        {"name": f"{each.name}, locked", **embed.locked(locked, automaton)},
        {"name": f"{each.name}, as trained", **embed.trained(each.run.model)},
    ]


def runs(shown: Sequence[Shown]) -> str:
    """A table with a line for each run; a column that is empty for all of them is left out."""
    lines = [_line(each) for each in shown]
    headings = [name for name in lines[0] if any(line[name] for line in lines)]
    return table("Runs", headings, [[line[name] for name in headings] for line in lines])


def _line(each: Shown) -> dict[str, str]:
    run, row = each.run, each.row
    result: dict[str, Any] = run.result or {}
    every = result.get("exhaustive")
    best = result or max(run.metrics, key=lambda epoch: epoch["accuracy"], default={})
    epochs = str(len(run.metrics)) + ("" if result else ", unfinished")
    if run.made != "trained":
        best, epochs = {}, f"none: {run.made}"  # the result's accuracy is not that of held-out rows
    return {
        "run": str(each.path),
        "task": run.task.source,
        "preset": run.config.preset,
        "seed": str(run.config.seed),
        "parameters": f"{sum(value.numel() for value in run.model.parameters()):,}",
        "epochs": epochs,
        "first at 90%": str(first(row, ALMOST) or ""),
        "first at 100%": str(first(row, 1.0) or ""),
        "the paper (Table 2, text, Figure 3)": run.task.paper_epochs,
        "largest gradient norm at": str(spike(row)) if run.metrics else "",
        "held-out accuracy": percent(best["accuracy"]) if best else _held_out(each),
        "F1": f"{best['f1']:.4f}" if best else "",
        "wrong, of every input": f"{every['wrong']:,} of {every['count']:,}" if every else "",
        "certificate": verdict(run.certificate) if run.certificate else "",
    }


def _held_out(each: Shown) -> str:
    return percent(machines.verdict(each).accuracy) if each.run.made == "learned" else ""


def length_note(shown: Sequence[Shown]) -> str:
    """How the accuracies by length were measured."""
    measured = [each for each in shown if each.accuracies and each.run.made == "trained"]
    trained = sorted({each.run.config.recipe.length for each in measured})
    lengths = f"Trained on length {', '.join(map(str, trained))}. " if trained else ""
    return (
        f"<p>{lengths}Tested on {EVALUATION.most:,} random "
        f"sequences of each length, fewer where they would have more than {EVALUATION.tokens:,} tokens "
        "in all. They are the sequences on which <code>csprop eval</code> tests, so that it gives the "
        "same accuracies. An accuracy near 0 means that the state has drifted until every answer is "
        "wrong. What is proven of a locked model does not depend on these samples.</p>"
    )


def certificate(each: Shown) -> str:
    """What is proven of a run, or why nothing is; empty if it has no certificate."""
    held = each.run.certificate
    if held is None:
        return ""
    heading, width = f"<h3>{escape(f'{each.name}: {verdict(held)}')}</h3>", each.run.config.model.width
    if held.unchecked:
        return (
            f"{heading}<p>The certificate is about rows that cannot be read now, so that nothing is "
            "claimed here. The explorer shows the locked model and its automaton as they are computed "
            "from the weights.</p>"
        )
    return f"{heading}<p>{escape(held.statement)}</p>{facts(certified(held.document, width))}"


def provenance(each: Shown) -> str:
    """The documents of a run directory as they are, folded away."""
    folder = RunFolder(each.path)
    documents = {checkpoint.CONFIG: folder.read_json(checkpoint.CONFIG)}
    if folder.has(checkpoint.RESULT):
        documents[checkpoint.RESULT] = folder.read_json(checkpoint.RESULT)
    documents[checkpoint.MANIFEST] = folder.digests()
    text = ""
    for name, document in documents.items():
        content = json.dumps(document, indent=2, ensure_ascii=False)
        text += f"<h3>{escape(name)}</h3><pre>{escape(content)}</pre>"
    return folded(str(each.path), text)
