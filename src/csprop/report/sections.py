"""What a page says of its runs: the explorer, the table of runs, certificates, provenance."""

import json
import re
from collections import Counter
from collections.abc import Sequence
from html import escape
from typing import Any

from csprop.proof import facts as numbers
from csprop.report import embed, machines
from csprop.report.charts import ALMOST, first, spike
from csprop.report.opening import opening
from csprop.report.page import Page, asset, badge, facts, folded, swatch, table
from csprop.report.read import Shown
from csprop.training import checkpoint
from csprop.training.checkpoint import RunFolder
from csprop.training.scores import EVALUATION, percent

MOST_EMBEDDED = 5 * 2**20
"""Bytes of all models on a page; with more it would be slow to open."""
FEW = 3
"""Certificates that are not folded away."""


def title(shown: Sequence[Shown]) -> str:
    """What the page is called: the question of the task that the runs are about."""
    tasks = {each.run.task.source: each.run.task for each in shown}
    if len(tasks) > 1:
        return f"{len(shown)} runs of csprop"
    ((name, task),) = tasks.items()
    if task.oracle is None or not task.description:
        return name
    return task.description[0].upper() + task.description[1:]


def lead(shown: Sequence[Shown]) -> str:
    """The sentence below the title."""
    if len(shown) > 1:
        return "; ".join(dict.fromkeys(each.group for each in shown))
    return shown[0].name.removeprefix(f"{title(shown)}, ")


def models(shown: Sequence[Shown]) -> str:
    """The models of a page with their colours and what is proven of them, as HTML."""
    kinds: dict[tuple[str, str], list[Shown]] = {}
    for each in shown:
        for model in each.models:
            kinds.setdefault((each.group, model), []).append(each)
    items = ""
    for (group, model), alike in kinds.items():
        name = model if len({each.group for each in shown}) == 1 else f"{group}, {model}"
        proofs = Counter(each.proof(model) for each in alike)
        badges = " ".join(
            badge(words if len(alike) == 1 else f"{count} of {len(alike)} {words}", kind)
            for (words, kind), count in proofs.items()
        )
        items += f"<li>{swatch(alike[0].colours[model])} {escape(name)} {badges}</li>"
    held = [each.run.certificate for each in shown if each.proof(each.models[0])[1] == "yes"]
    claims = {each.statement for each in held if each is not None}
    claim = f'<p class="claim">{_text(claims.pop())}</p>' if len(claims) == 1 else ""
    return f'<ul class="models">{items}</ul>{claim}'


def _text(sentence: str) -> str:
    """A sentence as HTML, with what is in backticks as code."""
    return re.sub("`([^`]*)`", r"<code>\1</code>", escape(sentence))


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
        added = [entry | model for model in _models(each)]
        size = len(json.dumps(added)) + (0 if task in tasks else len(task))
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
        page.models += added
    page.opening = opening(shown, page.models)
    if page.models:
        page.sections.append(asset("explorer.html"))
    page.sections += [f"<p>{escape(sentence)}</p>" for sentence in sentences]


def _models(each: Shown) -> list[dict[str, Any]]:
    """A run's model, and before it the locked one, if there is one and it is another."""
    locked, automaton, made = each.run.locked, each.run.automaton, []
    for model in each.models:
        name = f"{each.name}, {model}" if len(each.models) > 1 else each.name
        entry = {"name": name, "colour": each.colours[model], "proof": each.proof(model)}
        if locked is not None and automaton is not None and model != "as trained":
            made.append(entry | {"sure": False} | embed.locked(locked, automaton))
            continue
        routed = embed.of_router(each.run) if locked is None else None
        drawn = {} if routed is None else {"automaton": embed.drawn(routed)}
        made.append(entry | {"sure": True} | embed.trained(each.run.model) | drawn)
    return made


def runs(shown: Sequence[Shown]) -> str:
    """A table with a row for each run, and one that is folded away of how it learned."""
    lines = [_line(each) for each in shown]
    learned = [_learned(each) for each in shown]
    text = _listed("Runs", lines, list(map(_named, shown)))
    if any(any(line.values()) for line in learned):
        names = [escape(each.name) for each in shown]
        text += folded("How they learned", _listed("How they learned", learned, names))
    return text


def _listed(name: str, lines: Sequence[dict[str, str]], heads: list[str]) -> str:
    """A table; a column that is empty for all rows is left out."""
    headings = [name for name in lines[0] if any(line[name] for line in lines)]
    rows = [["", *(line[name] for name in headings)] for line in lines]
    return table(name, ["run", *headings], rows, heads)


def _named(each: Shown) -> str:
    """A run's name, folder and models, with what is proven of each, as HTML."""
    listed = "".join(
        f"<li>{swatch(each.colours[model])} {escape(model)} {badge(*each.proof(model))}</li>"
        for model in each.models
    )
    return (
        f"{escape(each.name)}<br><small>{escape(str(each.path))}</small>"
        f'<ul class="models">{listed}</ul>'
    )


def _line(each: Shown) -> dict[str, str]:
    run = each.run
    result: dict[str, Any] = run.result or {}
    every = result.get("exhaustive")
    best = result or max(run.metrics, key=lambda epoch: epoch["accuracy"], default={})
    epochs = str(len(run.metrics)) + ("" if result else ", unfinished")
    if run.made != "trained":
        best, epochs = {}, f"none: {run.made}"  # the result's accuracy is not that of held-out rows
    return {
        "parameters": f"{sum(value.numel() for value in run.model.parameters()):,}",
        "epochs": epochs,
        "held-out accuracy": percent(best["accuracy"]) if best else _held_out(each),
        "F1": f"{best['f1']:.4f}" if best else "",
        "wrong, of every input": f"{every['wrong']:,} of {every['count']:,}" if every else "",
    }


def _learned(each: Shown) -> dict[str, str]:
    """At which epochs a run learned."""
    run, row = each.run, each.row
    return {
        "first at 90%": str(first(row, ALMOST) or ""),
        "first at 100%": str(first(row, 1.0) or ""),
        "the paper (Table 2, text, Figure 3)": run.task.paper_epochs if run.metrics else "",
        "largest gradient norm at": str(spike(row)) if run.metrics else "",
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
    model, width = each.models[0], each.run.config.model.width
    name = each.name if len(each.models) == 1 else f"{each.name}, {model}"
    heading = f"<h3>{swatch(each.colours[model])} {escape(name)} {badge(*each.proof(model))}</h3>"
    if held.unchecked:
        return (
            f"{heading}<p>The certificate is about rows that cannot be read now, so that nothing is "
            "claimed here. The explorer shows the locked model and its automaton as they are computed "
            "from the weights.</p>"
        )
    return f"{heading}<p>{_text(held.statement)}</p>{facts(numbers.facts(held, width))}"


def certificates(shown: Sequence[Shown]) -> list[str]:
    """What is proven of all runs; of many, folded away."""
    found = {each.name: text for each in shown if (text := certificate(each))}
    return list(found.values()) if len(found) <= FEW else [folded(*each) for each in found.items()]


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
