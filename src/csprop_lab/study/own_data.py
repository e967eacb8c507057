"""A user's own data: which methods find the machine behind labelled rows, some labelled wrongly."""

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence

from csprop.training.scores import percent
from csprop_lab.study.job import FileJob
from csprop_lab.study.languages import (
    FRESH,
    FRESH_LENGTHS,
    LONGEST,
    cascades,
    protocols,
    random_machines,
    tomita,
)
from csprop_lab.study.learners import METHODS
from csprop_lab.study.measure import Row
from csprop_lab.study.table import QUICK, Budget, Label, Rows, Table
from csprop_lab.study.texts import markdown, words

LANGUAGES = (*tomita(), *protocols(), *random_machines(5), *cascades(3))
QUICKLY = ("tomita-4", "door", "mutex")
SIZES, SHARES = (300, 1000, 4000), (0.0, 0.01, 0.05)
MOST_SPOILED = 1000
"""Rows with wrong labels beyond which EDSM is not tried: one machine would take minutes."""
MACHINES = tuple(method for method in METHODS if method != "LSTM")
"""The methods whose result is a machine, which can be compared with the language's own."""
Kinds = Mapping[str, tuple[Iterable[str], Callable[[Iterable[Row]], object]]]
"""The columns of a table: their methods, and a function of the rows of a method."""


class OwnData(Table):
    name, title = "own_data", "Own data"

    def jobs(self, budget: Budget) -> dict[Label, list[FileJob]]:
        chosen, sizes = (QUICKLY, SIZES[:1]) if budget is QUICK else (LANGUAGES, SIZES)
        return {
            (method, f"{rows:,} rows", wrong_labels(wrong)): [
                FileJob(
                    language=language, rows=rows, wrong=wrong, method=method, options=options, seed=0
                )
                for language in chosen
            ]
            for rows in sizes
            for wrong in SHARES
            for method, options in METHODS.items()
            if not (method == "EDSM" and wrong and rows > MOST_SPOILED)
        }

    def text(self, rows: Rows, budget: Budget) -> str:
        lines = list(dict.fromkeys(label[1:] for label in rows))
        return words(
            "own_data", languages=len(next(iter(rows.values()))), longest=LONGEST,
            most=METHODS["EDSM"]["most_seconds"], spoiled=MOST_SPOILED,
            width=METHODS["LSTM"]["width"], least=METHODS["LSTM"]["least_seconds"], fresh=FRESH,
            short=FRESH_LENGTHS[0], long=FRESH_LENGTHS[1], exactness=_columns(rows, lines, EXACTNESS),
            accuracy=_columns(rows, lines, ACCURACY), findings=_findings(rows),
        )  # fmt: skip


def wrong_labels(share: float) -> str:
    """A share of wrong labels in words."""
    return f"{share:.0%} wrong" if share else "clean"


def right(rows: Iterable[Row]) -> int:
    """Return the number of machines that equal the language's."""
    return sum(bool(row["result"].get("right")) for row in rows)


def all_fresh(rows: Iterable[Row]) -> int:
    """Return the number that are right on all fresh rows."""
    return sum(row["result"].get("fresh_right") == FRESH for row in rows)


def given_up(rows: Iterable[Row]) -> int:
    """Return the number that did not end in time."""
    return sum("given_up" in row["result"] for row in rows)


def _mean(rows: Iterable[Row]) -> str:
    """The mean accuracy of those that ended."""
    ended = [row["result"]["fresh_right"] / FRESH for row in rows if "fresh_right" in row["result"]]
    return percent(statistics.fmean(ended)) if ended else "–"


def median_seconds(rows: Iterable[Row]) -> str:
    """Return the median time."""
    return f"{statistics.median(row['seconds'] for row in rows):.2g}"


EXACTNESS: Kinds = {
    "right machines": (MACHINES, right),
    "right on all fresh rows": (METHODS, all_fresh),
}
ACCURACY: Kinds = {
    "mean accuracy on fresh rows": (METHODS, _mean),
    "median seconds": (METHODS, median_seconds),
}


def _columns(rows: Rows, lines: Sequence[Label], kinds: Kinds) -> str:
    """A line for each number of rows and share of wrong labels, a column for each kind and method."""
    columns = [(kind, method) for kind, (methods, _) in kinds.items() for method in methods]
    return markdown(
        ["rows", "labels", *(f"{method}: {kind}" for kind, method in columns)],
        [
            [
                *line,
                *(
                    f"{kinds[kind][1](rows[method, *line])}" if (method, *line) in rows else "–"
                    for kind, method in columns
                ),
            ]
            for line in lines
        ],
    )


def of_method(rows: Rows, method: str, clean: bool) -> list[Row]:
    """All rows of a method, with clean labels or with wrong ones."""
    return [
        row
        for label, some in rows.items()
        for row in some
        if label[0] == method and (row["job"]["wrong"] == 0) == clean
    ]


def _findings(rows: Rows) -> str:
    """Return the findings, in sentences."""
    said = []
    for clean, labels in ((True, "With clean labels"), (False, "With wrong labels")):
        some = {method: of_method(rows, method, clean) for method in METHODS}
        found = ", ".join(_share(method, right(some[method]), some[method]) for method in MACHINES)
        fresh = ", ".join(_share(method, all_fresh(some[method]), some[method]) for method in METHODS)
        said.append(f"{labels}, right machines: {found}. Right on all fresh rows: {fresh}.")
        said += [
            f"Given up: {_share(method, given_up(some[method]), some[method])}."
            for method in MACHINES
            if given_up(some[method])
        ]
    ours = [*of_method(rows, "csprop", True), *of_method(rows, "csprop", False)]
    slowest = max(ours, key=lambda row: row["seconds"])
    said.append(
        f"csprop took {slowest['seconds']:.0f} s at most, on {slowest['job']['language']} with "
        f"{_named(slowest)}."
    )
    return " ".join([*said, _missed(ours), *_suspected(rows)])


def _share(method: str, count: int, rows: Sequence[Row]) -> str:
    return f"{method} {count} of {len(rows)}"


def _named(row: Row) -> str:
    return f"{row['job']['rows']:,} rows, {wrong_labels(row['job']['wrong'])}"


def _missed(ours: Sequence[Row]) -> str:
    """Return the machines that csprop did not find with the most rows."""
    most = max(row["job"]["rows"] for row in ours)
    missed = [
        f"{row['job']['language']} ({wrong_labels(row['job']['wrong'])})"
        for row in ours
        if row["job"]["rows"] == most and not row["result"]["right"]
    ]
    return f"With {most:,} rows it missed {', '.join(missed) if missed else 'none'}."


def _suspected(rows: Rows) -> list[str]:
    """Return the recall and the precision of csprop's suspects, for each share of wrong labels."""
    said = []
    for label, some in rows.items():
        method, count, wrong = label
        sums = {
            name: sum(row["result"].get(name, 0) for row in some)
            for name in ("wrong", "suspects", "hits")
        }
        if method == "csprop" and sums["wrong"] and sums["suspects"]:
            said.append(
                f"{count}, {wrong}: {percent(sums['hits'] / sums['suspects'])} of the suspects are "
                f"labelled wrongly, and {percent(sums['hits'] / sums['wrong'])} of the wrong labels "
                "are suspected"
            )
    return [f"Suspects of csprop, over all languages. {'; '.join(said)}."] if said else []
