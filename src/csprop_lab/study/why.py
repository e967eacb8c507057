"""The numbers of docs/why.md: csprop beside what a reader might use instead."""

from collections.abc import Callable
from typing import Any

from csprop.training.scores import percent
from csprop_lab.bench.summary import duration, factor
from csprop_lab.study.own_data import MACHINES, all_fresh, median_seconds, of_method, right
from csprop_lab.study.table import Rows
from csprop_lab.study.texts import markdown

COMMANDS = ("csprop learn FILE, 300 rows", "csprop train parity", "csprop certify RUN")


def files(rows: Rows) -> str:
    """The right machines that each method finds in files, and its seconds."""
    headings = ["file", "labels", *(f"{method}: right machines" for method in MACHINES)]
    headings += ["LSTM: right on all longer rows"]
    headings += [f"{method}: median seconds" for method in MACHINES]
    lines = []
    for line in dict.fromkeys(label[1:] for label in rows):
        machines = [rows.get((method, *line)) for method in MACHINES]
        network = rows["LSTM", *line]
        cells = [f"{right(each)} of {len(each)}" if each else "–" for each in machines]
        cells += [f"{all_fresh(network)} of {len(network)}"]
        lines.append([*line, *cells, *(median_seconds(each) if each else "–" for each in machines)])
    return markdown(headings, lines)


def rpni(rows: Rows) -> str:
    """Return the numbers of machines that RPNI and csprop find, with clean and with wrong labels."""
    said = []
    for clean, words in ((True, "with clean labels"), (False, "with wrong labels")):
        ours, theirs = (of_method(rows, method, clean) for method in ("csprop", "RPNI"))
        said.append(
            f"{words} RPNI finds the right machine for {right(theirs)} of {len(theirs)} files, "
            f"and csprop for {right(ours)} of {len(ours)}"
        )
    return "; ".join(said)


def suspects(rows: Rows) -> str:
    """Return the recall and the precision of csprop's list of wrong labels."""
    some = [row["result"] for row in of_method(rows, "csprop", clean=False)]
    wrong, named, hits = (
        sum(each.get(name, 0) for each in some) for name in ("wrong", "suspects", "hits")
    )
    return (
        f"{percent(hits / wrong)} of the wrong labels are in the list, and {percent(hits / named)} "
        "of the rows in the list are labelled wrongly"
    )


def counting(rows: Rows) -> str:
    """From the fewest strings, how many machines with counters are right."""
    fewest = min((size for _, size in rows), key=int)
    found = [
        row["result"]["right"] for (_, size), some in rows.items() if size == fewest for row in some
    ]
    return (
        f"from {fewest} strings {sum(found)} of {len(found)} machines were right, which was proven for "
        "every length"
    )


def costs(document: dict[str, Any]) -> str:
    """Return the times of commands, from the shell to the shell."""
    (work,) = (work for work in document["results"] if work["name"] == "commands")
    took = work["seconds"]
    said = [f"`{name.partition(',')[0]}` {duration(took[name])}" for name in COMMANDS]
    return f"{', '.join(said)} (importing torch alone takes {duration(took[work['base']])})"


def steps(document: dict[str, Any]) -> str:
    """Return the ratios of a training step of an LSTM to one of csprop's layer."""
    (work,) = (work for work in document["results"] if work["name"] == "layer")
    ratios: dict[str, str] = {}
    for part in work["parts"]:
        took = part["seconds"]
        ratios.setdefault(part["work"].split(", T")[0], factor(took["nn.LSTM"] / took["csprop"]))
    return ", ".join(f"{ratio} times as long on {data}" for data, ratio in ratios.items())


BY_TABLE: dict[str, tuple[str, Callable[[Rows], str]]] = {
    "why-files": ("own_data", files),
    "why-rpni": ("own_data", rpni),
    "why-suspects": ("own_data", suspects),
    "why-counting": ("bliss", counting),
}
"""Blocks that are made from a table of the study: its name, and how."""
