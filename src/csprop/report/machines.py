"""What a page says of models that were not trained, and have a machine written into their weights."""

from html import escape

from csprop.data.names import split_symbols
from csprop.errors import InputError
from csprop.learning import suspects
from csprop.learning.suspects import Suspect
from csprop.learning.verdict import Verdict, sized
from csprop.report.page import facts, folded, table
from csprop.report.read import Shown
from csprop.training.checkpoint import RESULT, SUSPECTS
from csprop.training.scores import percent

NUMBERS = (
    "rows", "agreed", "held_out", "held_out_right", "held_out_states", "same", "commonest",
)  # fmt: skip
"""What result.json has of a verdict, beside what follows from it."""
MOST_LISTED = 20
"""Suspects that a page lists."""
LONGEST = 80
"""Characters of a suspect's sequence that are shown."""


def source(each: Shown) -> str:
    """Where the machine of a run comes from, as HTML; empty for a model that was trained."""
    if each.run.made == "trained":
        return ""
    heading = f"<h3>{escape(each.name)}</h3>"
    return heading + (_learned(each) if each.run.made == "learned" else _compiled(each))


def untrained(each: Shown) -> str:
    """Why a run has no curves; empty if it has some."""
    if each.run.made == "trained":
        return ""
    machine = "a machine" if each.run.made == "compiled" else "the machine that was learned"
    return f"<p>{escape(each.name)}: not trained: compiled from {machine}.</p>"


def verdict(each: Shown) -> Verdict:
    """What `csprop learn` found, from result.json.

    Raises:
        InputError: result.json is malformed.
    """
    run = each.run
    assert run.result is not None
    try:
        numbers = {name: run.result["learned"][name] for name in NUMBERS}
        found = Verdict(
            source=run.task.source,
            clear=True,
            states=0 if run.automaton is None else len(run.automaton),
            is_task=run.task.oracle is not None,
            certificate=run.certificate,
            **numbers,
        )
        counts = (found.rows, found.agreed, found.held_out, found.held_out_right, found.held_out_states)
        sound = all(type(count) is int and count >= 0 for count in counts)
        sound = sound and found.rows >= found.agreed and found.held_out >= found.held_out_right
        if sound and 0 <= found.commonest <= 1 and found.held_out:
            return found
    except (LookupError, TypeError):
        pass
    raise InputError(f"{each.path / RESULT}: is malformed; the run is damaged")


def _learned(each: Shown) -> str:
    found = verdict(each)
    low, high = (percent(value) for value in found.interval)
    where = "sequences of the task" if found.is_task else f"rows of {found.source}"
    pairs = [
        ("machine", f"{_size(each)}, found by csprop learn in {found.rows:,} {where}"),
        (
            "held-out labels",
            f"{found.held_out_right:,} of {found.held_out:,} right, {percent(found.accuracy)}; "
            f"95% interval {low} to {high}",
        ),
        ("commonest class", f"alone is right on {percent(found.commonest)} of the labels"),
    ]
    listed = ""
    if not found.is_task:
        wrong = found.rows - found.agreed
        unread = found.certificate is not None and found.certificate.unchecked
        when = " when it was learned; they cannot be read now" if unread else ""
        pairs.insert(1, ("agrees with", f"{found.agreed:,} of {found.rows:,} rows{when}"))
        pairs.append(("suspects", f"{wrong:,} rows disagree with the machine" if wrong else "none"))
        listed = _suspects(suspects.read(each.path), each.run.task.words)
    return facts(pairs) + listed


def _suspects(found: list[Suspect], words: bool) -> str:
    """The first suspects, folded away; with the place of a label, unless all are of whole rows."""
    if not found:
        return ""
    whole = all(each.position == len(split_symbols(each.sequence, words)) for each in found)
    rows = [
        [str(each.line), each.short(LONGEST), each.label, each.answer]
        + ([] if whole else [str(each.position)])
        for each in found[:MOST_LISTED]
    ]
    few = len(found) <= MOST_LISTED
    title = "The suspects" if few else f"The first {MOST_LISTED} of {len(found):,} suspects"
    headings = ["line", "sequence", "label", "the machine says"]
    headings += [] if whole else ["after so many tokens"]
    note = (
        f"<p>If the machine is right, these labels are wrong. All suspects are in "
        f"<code>{SUSPECTS}</code>.</p>"
    )
    return folded(title, note + table("Suspects", headings, rows))


def _compiled(each: Shown) -> str:
    run = each.run
    pairs = [("machine", f"{run.task.name}, {run.task.description}, which is written into the weights")]
    if run.automaton is not None:
        model = run.config.model
        layers = "one router" if model.depth == 1 else "counters, and above them a router"
        used = f"{model.places or model.width} places, {len(run.automaton)} of them in use"
        pairs.append(("model", f"{layers} of {used}"))
    return facts(pairs)


def _size(each: Shown) -> str:
    """The states and counters of a run's machine."""
    return "0 states" if each.run.automaton is None else sized(each.run.automaton)
