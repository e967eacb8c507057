"""The sections of a page about runs: models, their machines, results, certificates, provenance."""

import json
from collections import Counter
from collections.abc import Sequence
from html import escape

from csprop.learning.suspects import read as read_suspects
from csprop.learning.verdict import Verdict
from csprop.proof.facts import list_facts
from csprop.report.charts import ALMOST, first
from csprop.report.page import badge, facts, folded, paragraph, swatch, table
from csprop.report.read import PageRun
from csprop.training import checkpoint
from csprop.training.checkpoint import RunFolder
from csprop.training.scores import EVALUATION, percent

FEW = 3
"""The most certificates that are not folded away."""
MOST_LISTED, LONGEST = 20, 80
"""The most suspects that a page lists, and the most characters of a sequence."""


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
    claim = paragraph(claims.pop(), "claim") if len(claims) == 1 else ""
    return f'<ul class="models">{items}</ul>{claim}'


def list_runs(runs: Sequence[PageRun]) -> str:
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


def length_note(runs: Sequence[PageRun]) -> str:
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


def list_certificates(runs: Sequence[PageRun]) -> list[str]:
    """Return the certificates of all runs; if they are many, they are folded away."""
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
        return heading + paragraph(
            "The certificate is about rows that cannot be read now, so nothing is claimed here. The "
            "explorer shows the locked model and its automaton as they are computed from the weights."
        )
    return heading + paragraph(certificate.statement) + facts(list_facts(certificate, width))


def provenance(each: PageRun) -> str:
    """Return the documents of a run directory, folded away."""
    folder = RunFolder(each.path)
    names = [name for name in (checkpoint.CONFIG, checkpoint.RESULT) if folder.has(name)]
    documents = {name: folder.read_json(name) for name in names}
    text = ""
    for name, document in (documents | {checkpoint.MANIFEST: folder.digests()}).items():
        content = json.dumps(document, indent=2, ensure_ascii=False)
        text += f"<h3>{escape(name)}</h3><pre>{escape(content)}</pre>"
    return folded(str(each.path), text)


def describe_source(each: PageRun) -> str:
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
