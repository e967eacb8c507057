"""The sections of a page about runs: the explorer, the table of runs, certificates, provenance."""

import json
import re
from collections import Counter
from collections.abc import Sequence
from html import escape
from typing import Any

from csprop.errors import InputError
from csprop.proof.facts import list_facts
from csprop.report import embed, machines
from csprop.report.charts import ALMOST, first, spike
from csprop.report.opening import choose_opening
from csprop.report.page import Page, asset, badge, facts, folded, swatch, table
from csprop.report.read import PageRun
from csprop.training import checkpoint
from csprop.training.checkpoint import RunFolder
from csprop.training.scores import EVALUATION, percent

MOST_EMBEDDED = 5 * 2**20
"""Bytes of all models on a page; a larger page would be slow to open."""
FEW = 3
"""The most certificates that are not folded away."""


def title(runs: Sequence[PageRun]) -> str:
    """Return the title: the question of the task that the runs are about."""
    tasks = {each.run.task.source: each.run.task for each in runs}
    if len(tasks) > 1:
        return f"{len(runs)} runs of csprop"
    ((name, task),) = tasks.items()
    if task.oracle is None or not task.description:
        return name
    return task.description[0].upper() + task.description[1:]


def lead(runs: Sequence[PageRun]) -> str:
    """Return the sentence below the title."""
    if len(runs) > 1:
        return "; ".join(dict.fromkeys(each.group for each in runs))
    return runs[0].name.removeprefix(f"{title(runs)}, ")


def list_models(runs: Sequence[PageRun]) -> str:
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
    claim = f'<p class="claim">{_text(claims.pop())}</p>' if len(claims) == 1 else ""
    return f'<ul class="models">{items}</ul>{claim}'


def _text(sentence: str) -> str:
    """Return a sentence as HTML, with words in backticks as code."""
    return re.sub("`([^`]*)`", r"<code>\1</code>", escape(sentence))


def add_explorer(page: Page, runs: Sequence[PageRun]) -> None:
    """Add the explorer with as many models as fit, and a sentence for each of the others."""
    room, sentences = MOST_EMBEDDED, []
    tasks: dict[str, int] = {}  # a task's JSON to its number
    for number, each in enumerate(runs):
        recipe, task = each.run.config.recipe, json.dumps(embed.embed_task(each.run))
        only_last = recipe.supervise == "last" and recipe.lengths == "fixed"
        # The first token on whose answer it was trained.
        asked = recipe.length if only_last and each.run.made == "trained" else 1
        entry = {"run": number, "task": tasks.get(task, len(tasks)), "asked": asked}
        try:
            entries = [entry | model for model in _embed_models(each)]
        except InputError as error:
            sentences.append(f"{each.name}: this model is not in the explorer, because {error}.")
            continue
        size = len(json.dumps(entries)) + (0 if task in tasks else len(task))
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
        page.models += entries
    page.opening = choose_opening(runs, page.models)
    if page.models:
        page.sections.append(asset("explorer.html"))
    page.sections += [f"<p>{escape(sentence)}</p>" for sentence in sentences]


def _embed_models(each: PageRun) -> list[dict[str, Any]]:
    """Embed a run's model, and before it the locked one, if there is one and it differs."""
    locked, automaton, entries = each.run.locked, each.run.automaton, []
    for model in each.models:
        name = f"{each.name}, {model}" if len(each.models) > 1 else each.name
        entry = {"name": name, "colour": each.colours[model], "proof": each.proof(model)}
        if locked is not None and automaton is not None and model != "as trained":
            entries.append(entry | {"sure": False} | embed.embed_locked(locked, automaton))
            continue
        routed = embed.router_automaton(each.run) if locked is None else None
        drawing = {} if routed is None else {"automaton": embed.draw_automaton(routed)}
        entries.append(entry | {"sure": True} | embed.embed_network(each.run.model) | drawing)
    return entries


def list_runs(runs: Sequence[PageRun]) -> str:
    """List the runs in a table, and in a second one, folded away, the epochs at which they learned."""
    learned = [_epochs(each) for each in runs]
    text = _table("Runs", list(map(_results, runs)), list(map(_heading, runs)))
    if any(any(line.values()) for line in learned):
        names = [escape(each.name) for each in runs]
        text += folded("How they learned", _table("How they learned", learned, names))
    return text


def _table(name: str, lines: Sequence[dict[str, str]], heads: list[str]) -> str:
    """Return a table; a column that is empty for all rows is left out."""
    headings = [name for name in lines[0] if any(line[name] for line in lines)]
    rows = [["", *(line[name] for name in headings)] for line in lines]
    return table(name, ["run", *headings], rows, heads)


def _heading(each: PageRun) -> str:
    """Return a run's name, folder and models with their proofs, as HTML."""
    models = "".join(
        f"<li>{swatch(each.colours[model])} {escape(model)} {badge(*each.proof(model))}</li>"
        for model in each.models
    )
    return (
        f"{escape(each.name)}<br><small>{escape(str(each.path))}</small>"
        f'<ul class="models">{models}</ul>'
    )


def _results(each: PageRun) -> dict[str, str]:
    run = each.run
    result, every = run.result, None if run.result is None else run.result.exhaustive
    best = max(run.metrics, key=lambda epoch: epoch["accuracy"], default={})
    best = best if result is None else {"accuracy": result.accuracy, "f1": result.f1}
    epochs = str(len(run.metrics)) + ("" if result else ", unfinished")
    if run.made != "trained":
        best, epochs = {}, f"none: {run.made}"  # the result has no accuracy on held-out rows
    held_out = percent(machines.read_verdict(each).accuracy) if run.made == "learned" else ""
    return {
        "parameters": f"{sum(value.numel() for value in run.model.parameters()):,}",
        "epochs": epochs,
        "held-out accuracy": percent(best["accuracy"]) if best else held_out,
        "F1": f"{best['f1']:.4f}" if best else "",
        "wrong, of every input": f"{every.wrong:,} of {every.count:,}" if every else "",
    }


def _epochs(each: PageRun) -> dict[str, str]:
    """Return the epochs at which a run learned."""
    run, row = each.run, each.row
    return {
        "first at 90%": str(first(row, ALMOST) or ""),
        "first at 100%": str(first(row, 1.0) or ""),
        "the paper (Table 2, text, Figure 3)": run.task.paper_epochs if run.metrics else "",
        "largest gradient norm at": str(spike(row)) if run.metrics else "",
    }


def length_note(runs: Sequence[PageRun]) -> str:
    """Explain how the accuracies by length were measured."""
    measured = [each for each in runs if each.accuracies and each.run.made == "trained"]
    trained = sorted({each.run.config.recipe.length for each in measured})
    lengths = f"Trained on length {', '.join(map(str, trained))}. " if trained else ""
    return (
        f"<p>{lengths}Tested on {EVALUATION.most:,} random "
        f"sequences of each length, fewer where they would have more than {EVALUATION.tokens:,} tokens "
        "in all. <code>csprop eval</code> tests on the same sequences and gives the same accuracies. "
        "An accuracy near 0 means that the state has drifted until every answer is wrong. The proof of "
        "a locked model does not depend on these samples.</p>"
    )


def list_certificates(runs: Sequence[PageRun]) -> list[str]:
    """Return the certificates of all runs as HTML; if they are many, they are folded away."""
    texts = {each.name: text for each in runs if (text := _certificate(each))}
    return list(texts.values()) if len(texts) <= FEW else [folded(*each) for each in texts.items()]


def _certificate(each: PageRun) -> str:
    """Return a run's certificate, or why nothing is proven; empty if it has none."""
    certificate = each.run.certificate
    if certificate is None:
        return ""
    model, width = each.models[0], each.run.config.model.width
    name = each.name if len(each.models) == 1 else f"{each.name}, {model}"
    heading = f"<h3>{swatch(each.colours[model])} {escape(name)} {badge(*each.proof(model))}</h3>"
    if certificate.unchecked:
        return (
            f"{heading}<p>The certificate is about rows that cannot be read now, so nothing is claimed "
            "here. The explorer shows the locked model and its automaton as they are computed from the "
            "weights.</p>"
        )
    numbers = facts(list_facts(certificate, width))
    return f"{heading}<p>{_text(certificate.statement)}</p>{numbers}"


def provenance(each: PageRun) -> str:
    """Return the documents of a run directory, folded away."""
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
