"""Words about models that were not trained, but have a machine written into their weights."""

from html import escape

from csprop.data.names import split_symbols
from csprop.learning.verdict import Suspect, Verdict, describe_machine, read_suspects
from csprop.report.page import facts, folded, table
from csprop.report.read import PageRun
from csprop.training.checkpoint import SUSPECTS
from csprop.training.scores import percent

MOST_LISTED = 20
"""The most suspects that a page lists."""
LONGEST = 80
"""The most characters of a suspect's sequence."""


def describe_source(each: PageRun) -> str:
    """Return the source of a run's machine as HTML; empty for a trained model."""
    if each.run.made == "trained":
        return ""
    heading = f"<h3>{escape(each.name)}</h3>"
    return heading + (_learned(each) if each.run.made == "learned" else _compiled(each))


def explain_no_curves(each: PageRun) -> str:
    """Explain why a run has no curves; empty if it has some."""
    if each.run.made == "trained":
        return ""
    machine = "a machine" if each.run.made == "compiled" else "the machine that was learned"
    return f"<p>{escape(each.name)}: not trained: compiled from {machine}.</p>"


def read_verdict(each: PageRun) -> Verdict:
    """Return the verdict of `csprop learn`, with the numbers of result.json."""
    run = each.run
    assert run.result is not None
    assert run.result.verdict is not None
    return Verdict(
        **vars(run.result.verdict),
        source=run.task.source,
        clear=True,
        states=0 if run.automaton is None else len(run.automaton),
        is_task=run.task.oracle is not None,
        certificate=run.certificate,
    )


def _learned(each: PageRun) -> str:
    verdict = read_verdict(each)
    low, high = (percent(value) for value in verdict.interval)
    where = "sequences of the task" if verdict.is_task else f"rows of {verdict.source}"
    size = "0 states" if each.run.automaton is None else describe_machine(each.run.automaton)
    pairs = [
        ("machine", f"{size}, found by csprop learn in {verdict.rows:,} {where}"),
        (
            "held-out labels",
            f"{verdict.held_out_right:,} of {verdict.held_out:,} right, {percent(verdict.accuracy)}; "
            f"95% interval {low} to {high}",
        ),
        ("majority class", f"alone has an accuracy of {percent(verdict.majority)}"),
    ]
    listed = ""
    if not verdict.is_task:
        wrong = verdict.rows - verdict.agreed
        unread = verdict.certificate is not None and verdict.certificate.unchecked
        when = " when it was learned; they cannot be read now" if unread else ""
        pairs.insert(1, ("agrees with", f"{verdict.agreed:,} of {verdict.rows:,} rows{when}"))
        pairs.append(("suspects", f"{wrong:,} rows disagree with the machine" if wrong else "none"))
        listed = _list_suspects(read_suspects(each.path), each.run.task.words)
    return facts(pairs) + listed


def _list_suspects(rows: list[Suspect], words: bool) -> str:
    """List the first suspects, folded away, with their positions unless all are of whole rows."""
    if not rows:
        return ""
    whole = all(each.position == len(split_symbols(each.sequence, words)) for each in rows)
    lines = [
        [str(each.line), each.short(LONGEST), each.label, each.answer]
        + ([] if whole else [str(each.position)])
        for each in rows[:MOST_LISTED]
    ]
    few = len(rows) <= MOST_LISTED
    title = "The suspects" if few else f"The first {MOST_LISTED} of {len(rows):,} suspects"
    headings = ["line", "sequence", "label", "the machine says"]
    headings += [] if whole else ["after so many tokens"]
    note = f"If the machine is right, these labels are wrong. <code>{SUSPECTS}</code> has all suspects."
    return folded(title, f"<p>{note}</p>" + table("Suspects", headings, lines))


def _compiled(each: PageRun) -> str:
    run = each.run
    pairs = [("machine", f"{run.task.name}, {run.task.description}, which is written into the weights")]
    if run.automaton is not None:
        model = run.config.model
        layers = "one router" if model.depth == 1 else "counters, and above them a router"
        used = f"{model.width} places, {len(run.automaton)} of them in use"
        pairs.append(("model", f"{layers} of {used}"))
    return facts(pairs)
