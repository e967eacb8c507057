"""The differences between the paper and this code, in sentences whose numbers come from the rows."""

from collections.abc import Callable, Mapping, Sequence

from csprop.training.scores import percent
from csprop_lab.study.grokking import ALMOST, NEAR, first, gap_of, mean_and_std, spikes
from csprop_lab.study.length import accuracies
from csprop_lab.study.measure import Row
from csprop_lab.study.table import (
    PAPER_TASKS,
    TASKS,
    Rows,
    exact,
    median_and_worst,
    metric,
    reached,
    score,
    values,
)
from csprop_lab.study.texts import words

COUNTED = ("parenthesis",)
"""The tasks of the main table that preset `counter` is for."""


def text(rows_of: Mapping[str, Rows]) -> str:
    """Return a paragraph for each claim whose rows exist."""
    paragraphs = [claim(rows_of[table]) for table, claim in CLAIMS if table in rows_of]
    return "\n\n".join(paragraphs) or "There is nothing to compare before the rows have been run."


def _list(
    rows: Rows, tasks: Sequence[str], show: Callable[[Sequence[Row]], str], preset: str, split: str
) -> str:
    return ", ".join(f"{task} {show(rows[task, preset, split])}" for task in tasks)


def _of(some: Sequence[object], seeds: Sequence[Row]) -> str:
    return f"{len(some)} of {len(seeds)}"


def _right(seeds: Sequence[Row]) -> str:
    return _of([wrong for wrong in exact(seeds) if not wrong], seeds)


def _reached(main: Rows) -> str:
    return words(
        "reached",
        printed=_list(main, TASKS, lambda seeds: _of(reached(seeds), seeds), "paper", "disjoint"),
        every=_list(main, TASKS, _right, "paper", "disjoint"),
        flat=_flat(main),
        rotor=_list(main, TASKS, _right, "rotor", "disjoint"),
        counter=_list(main, COUNTED, _right, "counter", "disjoint"),
    )


def _flat(main: Rows) -> str:
    """Return a sentence on when the seeds that did not reach 100% were at their best."""
    rows = [row for task in TASKS for row in main[task, "paper", "disjoint"] if "result" in row]
    missed = [row for row in rows if row["result"]["first_epoch_at_target"] is None]
    if not missed:
        return "Every seed reached 100%."
    curves = [row["curve"]["accuracy"] for row in missed]
    latest = max(1 + curve.index(max(curve)) for curve in curves)
    return words("flat", latest=latest, epochs=max(map(len, curves)))


def _epochs(main: Rows) -> str:
    def epochs(seeds: Sequence[Row]) -> str:
        firsts = reached(seeds)
        if not firsts:
            return "never"
        least, most = min(firsts), max(firsts)
        return str(most) if least == most else f"{least} to {most}"

    return words(
        "epochs",
        paper=_list(main, PAPER_TASKS, epochs, "paper", "paper"),
        disjoint=_list(main, PAPER_TASKS, epochs, "paper", "disjoint"),
        rotor=_list(main, PAPER_TASKS, epochs, "rotor", "disjoint"),
        counter=_list(main, COUNTED, epochs, "counter", "disjoint"),
    )


def _length(rows: Rows) -> str:
    longest = max(rows["parity", "paper"][0]["job"]["test_lengths"])

    def lowest(model: str) -> str:
        found = (accuracies(seeds, model) for (_, each), seeds in rows.items() if each == model)
        return percent(min(value for by_length in found for value in by_length.values()))

    parity = {model: accuracies(rows["parity", model], model) for model in ("paper", "state", "rotor")}
    return words(
        "phase-transitions",
        **{
            f"{model}_{length}": percent(by_length[length])
            for model, by_length in parity.items()
            for length in (16, 17, 64)
        },
        rotor_longest=percent(parity["rotor"][longest]),
        longest=longest,
        locked_rotor=lowest("locked rotor"),
        counter=lowest("counter"),
        locked_counter=lowest("locked counter"),
    )


def _scores(rows: Rows, variant: str) -> str:
    names = {task: f"{task} F1" if metric(task) == "f1" else task for task in PAPER_TASKS}
    return ", ".join(f"{name} {score(rows[variant, task])}" for task, name in names.items())


def _epochs_of(rows: Rows) -> int:
    return next(iter(rows.values()))[0]["job"]["recipe"]["epochs"]


def _focal(rows: Rows) -> str:
    return words(
        "focal-loss", epochs=_epochs_of(rows), phase_entropy=_scores(rows, "phase, cross_entropy"),
        phase_focal=_scores(rows, "phase, focal"), cos_entropy=_scores(rows, "cos_sin, cross_entropy"),
        cos_focal=_scores(rows, "cos_sin, focal"),
    )  # fmt: skip


def _structure(rows: Rows) -> str:
    def f1(variant: str) -> str:
        return score(rows[variant, "parenthesis"])

    return words(
        "parts", epochs=_epochs_of(rows), without=_scores(rows, "without rotation, +Norm"),
        rotating=_scores(rows, "with rotation, +Norm"),
        parts=", ".join(f1(f"with rotation, {part}") for part in ("Base", "+SiLU", "+Skip", "+Norm")),
        layer_norm=f1("LayerNorm"), every_step=f1("SiLU at every step, no norm"),
        no_skip=f1("no skip"),
    )  # fmt: skip


def _grokking(rows: Rows) -> str:
    def gaps(task: str) -> str:
        known = [gap for row in rows[task,] if (gap := gap_of(row)) is not None]
        return f"{task} {mean_and_std(known)} ({_of(known, rows[task,])})"

    def beside(task: str) -> str:
        near, expected = spikes(rows[task,])
        started = [row for row in rows[task,] if first(row, ALMOST) is not None]
        return f"{task} {near} of {len(started)} ({expected:.1f})"

    return words(
        "jumps", gaps=", ".join(map(gaps, PAPER_TASKS)), near=NEAR,
        spikes=", ".join(map(beside, PAPER_TASKS)),
    )  # fmt: skip


def _decoders(rows: Rows) -> str:
    names = {"complex": "decoder complex", "printed": "decoder cos_sin (printed)"}
    sizes = {
        name: int(max(values(rows[variant, "parity"], "parameters"))) for name, variant in names.items()
    }
    return words("complex-decoder", **sizes)


def _baselines(rows: Rows) -> str:
    def parity(model: str) -> str:
        seeds = rows[model, "parity"]
        far = accuracies(seeds, model)[256]
        return f"{median_and_worst(values(seeds, 'accuracy'))} held out, {percent(far)} at length 256"

    return words(
        "mamba", positive=parity("SSM [0, 1]"), negative=parity("SSM [-1, 1]"), lstm=parity("LSTM"),
        paper=parity("csprop, paper"), rotor=parity("csprop, rotor"),
    )  # fmt: skip


CLAIMS: tuple[tuple[str, Callable[[Rows], str]], ...] = (
    ("main", _reached),
    ("main", _epochs),
    ("length", _length),
    ("focal", _focal),
    ("structure", _structure),
    ("grokking", _grokking),
    ("decoders", _decoders),
    ("baselines", _baselines),
)
"""The table that a claim is about, and its paragraph, in the order of the report."""
