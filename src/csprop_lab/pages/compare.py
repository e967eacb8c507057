"""`csprop_lab.compare`: train layers, and write tables and pictures."""

import dataclasses
import re
from collections.abc import Callable, Iterator, Sequence
from io import BytesIO
from pathlib import Path

from torch import nn

from csprop.errors import InputError, require
from csprop.files import one_writer, replace
from csprop.training.scores import percent
from csprop_lab.layers import PEERS, Make, layer
from csprop_lab.pages.comparison import CURVES, HEAT_MAP, text
from csprop_lab.study import engine
from csprop_lab.study.compare import cells, cost, fill, remaining
from csprop_lab.study.compared import Comparison, any_proof, at_longest, proven
from csprop_lab.study.measure import Row, measure
from csprop_lab.study.own_layer import register
from csprop_lab.study.protocols import CSPROP, FULL, MERGING, OURS, QUICK, choose_protocols
from csprop_lab.study.publish import METADATA
from csprop_lab.study.results import Results

TEXT = "COMPARE.md"


def compare(
    factory: Make | None = None,
    *,
    name: str | None = None,
    models: str | Sequence[str] = (CSPROP, "lstm", "mamba"),
    protocol: str | Sequence[str] = "paper",
    tasks: str | Sequence[str] | None = None,
    seeds: int | None = None,
    quick: bool = False,
    out: Path | str | None = None,
    on: Callable[[Sequence[engine.Group]], Iterator[tuple[str, list[Row]]]] | None = None,
    say: Callable[[str], None] = print,
) -> Comparison:
    """Train layers on state tracking under published protocols, and write tables and pictures.

    Rows that a folder has already are not run again: an interrupted call can be repeated.

    Args:
        factory: makes a layer of your own from its width: anything from (B, T, width) to
            (B, T, width) that sees the past alone.
        name: the name of that layer; by default the name of the factory.
        models: layers of `csprop_lab.layers.PEERS` to compare with, `csprop` for its own preset, which
            is locked and proven, or MODULE:CLASS for a layer that can be imported.
        protocol: one or more of `csprop_lab.study.protocols.PROTOCOLS`.
        tasks: tasks of these protocols; by default all.
        seeds: the number of seeds; by default 5, or 1 if quick.
        quick: take few steps, on the first task of each protocol, with one learning rate.
        out: the folder for rows, tables and pictures; by default runs/compare, or runs/compare-quick.
        on: runs groups of jobs; by default one after the other in this process.
        say: called with a line about the cost beforehand, and about each run.

    Raises:
        InputError: a model, protocol or task does not exist, or a layer is not causal.
    """
    require("matplotlib", "figures", "a comparison has pictures, and")
    names, models = _as_list(protocol), _as_list(models)
    tasks = None if tasks is None else _as_list(tasks)
    protocols = choose_protocols(names, tasks)
    effort = QUICK if quick else FULL
    if seeds is not None:
        if not isinstance(seeds, int) or not 1 <= seeds <= 1000:
            raise InputError("write 1 to 1000", "seeds", seeds)
        effort = dataclasses.replace(effort, seeds=seeds)
    versions, models = {}, list(dict.fromkeys(models))
    for model in models:
        if model not in OURS and model not in PEERS:
            versions[model] = register(model, layer(model), effort)
    if factory is not None:
        own = _name(factory, name, models)
        versions[own] = register(own, factory, effort)
        models.append(own)
    if not models or not protocols or tasks == []:
        raise InputError("there is nothing to compare: give a model, a protocol and a task at least")
    asked = cells(protocols, models, effort, tasks, versions)
    folder = Path(out or ("runs/compare-quick" if quick else "runs/compare"))
    with one_writer(folder):
        results = Results(folder)
        total, done = remaining(results, asked), 0
        if total:
            took = _hours(cost(results, asked) / 3600)
            say(f"{folder}: {total} to run; the layers take about {took} of one processor")

        def report(_: str, rows: list[Row]) -> None:
            nonlocal done
            for row in rows:
                done += 1
                say(f"{done:>5}/{total}  {_describe_row(row)}")

        comparison = Comparison(results, asked)
        try:
            fill(results, asked, on or _here, report)
        finally:
            write(comparison, folder)
    return comparison


def _name(factory: Make, name: str | None, others: Sequence[str]) -> str:
    """Return the name of a layer of one's own."""
    if isinstance(factory, nn.Module) or not callable(factory):
        raise InputError("the first argument makes a layer from its width: give a class, not a layer")
    called = str(name or getattr(factory, "__name__", "yours")).replace("<lambda>", "yours")
    if called in (*PEERS, *OURS, *others):
        raise InputError(f"name={called!r} is the name of another layer: choose another")
    if not re.fullmatch(r"[\w .,:+()\[\]-]{1,60}", called):
        raise InputError(f"name={called!r}: write up to 60 letters, digits, spaces and - . , : + ( )")
    return called


def _as_list(names: str | Sequence[str]) -> list[str]:
    return [names] if isinstance(names, str) else list(names)


def _hours(hours: float) -> str:
    if hours < 1 / 30:
        return f"{3600 * hours:.0f} seconds"
    return f"{60 * hours:.0f} minutes" if hours < 2 else f"{hours:.0f} hours"


def _describe_row(row: Row) -> str:
    job = row["job"]
    own = job["family"] in ("csp", "learn") or job.get("method") == CSPROP
    model = CSPROP if own else (job.get("model") or job["options"])["layer"]
    model = MERGING if job["family"] == "learn" else model
    rate = job["options"].get("lr") if "options" in job else job["recipe"]["lr"]
    what = f"{model} on {job.get('task') or job['language']}, seed {job['seed']}"
    what += "" if own else f", rate {rate:g}"
    if "diverged" in row:
        return f"{what}: diverged"
    if any_proof([row]) and proven([row]):
        return f"{what}: proven"
    return f"{what}: {percent(at_longest(row))} at the longest length"


def _here(work: Sequence[engine.Group]) -> Iterator[tuple[str, list[Row]]]:
    """Run groups one after the other in this process, which knows layers that were only defined."""
    failures: list[Exception] = []
    for table, jobs in work:
        try:
            rows = measure(jobs)
        except Exception as error:
            failures.append(error)
        else:
            yield table, rows
    if failures:
        raise failures[0]


def write(comparison: Comparison, folder: Path) -> None:
    """Write the text and the pictures of a comparison beside its rows."""
    replace(folder / TEXT, text(comparison).encode())
    for name, figure in ((HEAT_MAP, comparison.heat_map()), (CURVES, comparison.curves())):
        picture = BytesIO()
        figure.savefig(picture, dpi=110, metadata=METADATA, bbox_inches="tight")
        replace(folder / name, picture.getvalue())
