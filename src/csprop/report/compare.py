"""`csprop.compare`, and the page of a comparison."""

import dataclasses
import statistics
from collections.abc import Callable, Iterator, Sequence
from html import escape
from io import BytesIO
from pathlib import Path

from markdown_it import MarkdownIt

from csprop.errors import InputError
from csprop.files import one_writer, replace
from csprop.nn.peers import PEERS, Make, layer
from csprop.report.charts import LENGTH, PERCENT, Chart, Series
from csprop.report.page import Page, folded, scrolling
from csprop.study import engine
from csprop.study.compare import FAR, cells, cost, fill, register, remaining
from csprop.study.compared import Comparison, any_proof, at_longest, by_length, proven, scaled
from csprop.study.measure import SAMPLING, Row, measure
from csprop.study.protocols import CSPROP, FULL, QUICK, Protocol, chosen
from csprop.study.publish import METADATA
from csprop.study.published import published
from csprop.study.results import Results
from csprop.training.scores import percent

PAGE, TEXT, HEAT_MAP, CURVES = "compare.html", "COMPARE.md", "heat-map.png", "lengths.png"
LINES = 8
"""Lines of a chart: more could not be told apart."""
Told = Callable[[str], None]


def compare(
    factory: Make | None = None,
    *,
    name: str | None = None,
    models: Sequence[str] = (CSPROP, "lstm", "mamba"),
    protocol: str | Sequence[str] = "paper",
    tasks: Sequence[str] | None = None,
    seeds: int | None = None,
    quick: bool = False,
    out: Path | str = "runs/compare",
    on: Callable[[Sequence[engine.Group]], Iterator[tuple[str, list[Row]]]] | None = None,
    say: Told = print,
) -> Comparison:
    """Train layers on state tracking under published protocols, and write what came of it.

    Rows that a folder has already are not run again, so that an interrupted call can be repeated.

    Args:
        factory: makes a layer of your own from its width: anything from (B, T, width) to
            (B, T, width) that sees the past alone.
        name: what to call it; by default as the factory is called.
        models: layers of `csprop.nn.peers.PEERS` to compare with, `csprop` for its own preset, which
            is locked and proven, or MODULE:CLASS for a layer that can be imported.
        protocol: one or more of `csprop.study.protocols.PROTOCOLS`.
        tasks: tasks of these protocols; by default all.
        seeds: how many; by default 5, or 1 if quick.
        quick: take few steps, on the first task of each protocol, with one learning rate.
        out: the folder for rows, tables, pictures and the page.
        on: runs groups of jobs; by default one after the other in this process.
        say: is told of the cost beforehand, and of each run.

    Raises:
        InputError: there is no such model, protocol or task, or a layer is not as it should be.
    """
    names = [protocol] if isinstance(protocol, str) else list(protocol)
    protocols = chosen(names, tasks)
    effort = QUICK if quick else FULL
    if seeds is not None:
        if not 1 <= seeds <= 1000:
            raise InputError(f"seeds={seeds}: write 1 to 1000")
        effort = dataclasses.replace(effort, seeds=seeds)
    versions, named = {}, list(dict.fromkeys(models))
    for model in named:
        if model != CSPROP and model not in PEERS:
            versions[model] = register(model, layer(model), effort)
    if factory is not None:
        called = str(name or getattr(factory, "__name__", "yours"))
        if called in PEERS or called == CSPROP:
            raise InputError(f"name={called!r} is that of another layer: choose another")
        versions[called] = register(called, factory, effort)
        named.append(called)
    asked = cells(protocols, named, effort, tasks, versions)
    folder = Path(out)
    with one_writer(folder):
        results = Results(folder)
        total, done = remaining(results, asked), 0
        if total:
            took = _hours(cost(results, asked) / 3600)
            say(f"{folder}: {total} runs remain; the layers take about {took} of one processor")

        def told(_: str, rows: list[Row]) -> None:
            nonlocal done
            for row in rows:
                done += 1
                say(f"{done:>5}/{total}  {_said(row)}")

        fill(results, asked, on or _here, told)
        comparison = Comparison(results, asked)
        write(comparison, folder)
    return comparison


def _hours(hours: float) -> str:
    return f"{60 * hours:.0f} minutes" if hours < 2 else f"{hours:.0f} hours"


def _said(row: Row) -> str:
    job = row["job"]
    own = job["family"] == "csp" or job.get("method") == CSPROP
    model = CSPROP if own else (job.get("model") or job["options"])["layer"]
    what = f"{model} on {job.get('task') or job['language']}, seed {job['seed']}"
    if "diverged" in row:
        return f"{what}: diverged"
    if any_proof([row]) and proven([row]):
        return f"{what}: proven"
    return f"{what}: {percent(at_longest(row))} at the longest length"


def _here(work: Sequence[engine.Group]) -> Iterator[tuple[str, list[Row]]]:
    """Run groups one after the other in this process, which knows layers that were only defined."""
    for table, jobs in work:
        yield table, measure(jobs)


def write(comparison: Comparison, folder: Path) -> None:
    """Write the text, the pictures and the page of a comparison beside its rows."""
    replace(folder / TEXT, text(comparison).encode())
    for name, figure in ((HEAT_MAP, comparison.heat_map()), (CURVES, comparison.curves())):
        picture = BytesIO()
        figure.savefig(picture, dpi=110, metadata=METADATA)
        replace(folder / name, picture.getvalue())
    replace(folder / PAGE, page(comparison).encode())


def text(comparison: Comparison) -> str:
    """All of it in Markdown, for a file beside the rows."""
    parts = ["# Layers side by side", _how(comparison), "## All together", comparison.summary()]
    parts += [f"![Models and tasks]({HEAT_MAP})"]
    for each in comparison.protocols:
        parts += [f"## {each.title}", _protocol(each), comparison.table(each.name)]
        if printed := published(each, comparison.models):
            parts += ["Published numbers of these layers, or close relatives, on these tasks:", printed]
    return "\n\n".join([*parts, "## By length", f"![Accuracy by length]({CURVES})"]) + "\n"


def _how(comparison: Comparison) -> str:
    effort = comparison.effort
    rates = " and ".join(f"{rate:g}" for rate in effort.rates)
    seeds = f"{comparison.seeds} of {effort.seeds} so far"
    if comparison.seeds == effort.seeds:
        seeds = f"{effort.seeds} seeds" if effort.seeds > 1 else "one seed"
    return (
        f"Every layer is the mixer of {effort.depth} blocks of width {effort.width}: a norm and the "
        "layer, then a norm and an MLP with one hidden layer of twice the width, each added to its "
        "input, between an embedding and a linear decoder. All layers are trained alike: Adam, "
        f"gradients clipped at norm 1, batches of {effort.batch_size}, {effort.samples:,} sequences of "
        f"which a fifth is held out, {effort.steps:,} steps, short sequences first, the learning rate "
        "falling along a cosine; a label after every token, where the task has one. The best epoch and "
        f"the best of the learning rates {rates} are chosen on the held-out sequences, the rate with "
        "the first seed (and by the training loss where two are as accurate); other seeds are trained "
        f"with it ({seeds}). Sizes, steps and rates were fixed before any longer sequence was looked "
        "at. This is a small budget: most layers would learn more with more steps, and published "
        "numbers come from larger ones.\n\n"
        f"`{CSPROP}` is another thing, and not trained on the same budget: csprop's own model, small, "
        "with the preset that suits the task. It is told whether a task is a group, and in which "
        "dimension it can be turned (rotor), whether it is finite (router) or counts (counter); it has "
        "its own recipe, which was developed on such tasks, with more sequences and more steps (see "
        "the columns). Then it is locked onto finitely many states and proven: what is kept is a "
        "machine that agrees with the task at every length, or nothing. The task decides that, so that "
        "where a locked model is wrong it is trained further towards its codes, up to eight times. "
        "`unlocked` is the same model as trained, at the longest length. The others have no proof: we "
        "did not try to lock them.\n\n"
        "A cell gives the accuracy of the median seed on held-out sequences of the trained length, "
        f"then on the longest that were tried: {SAMPLING.most} sequences, fewer beyond "
        f"{SAMPLING.tokens // SAMPLING.most:,} tokens. A task is solved if that is at least 99.9%, and "
        "proven if four in five seeds are. Seconds are those of training, locking and proof on one "
        "core of a busy machine."
    )


def _protocol(protocol: Protocol) -> str:
    if protocol.rows:
        wrong = f", {protocol.wrong:.0%} of the labels wrong" if protocol.wrong else ""
        return f"{protocol.source}. {protocol.rows:,} rows{wrong}; tested on fresh ones, longer, too."
    tested = ", ".join(f"{length:,}" for length in protocol.tested)
    more = ""
    if protocol.hold_pairs:
        more += (
            " The held-out sequences, by which rate and epoch are chosen, have such pairs; training "
            "has none."
        )
    if protocol.follow:
        more += (
            f" A layer is followed to the next length while it is right on {protocol.follow:.0%}, and "
            f"up to {max(each for each in protocol.tested if each <= FAR):,} tokens, because the whole "
            "sequence has to be in memory; the last length that it was followed to counts as the "
            "longest."
        )
    if protocol.others:
        more += (
            " Half of the rows to learn from are of the language, half of any tokens, for a proof is "
            "about all sequences; the tests are of the language alone. At the longest length the worst "
            f"of it, {' and '.join(protocol.others)} counts."
        )
    return f"{protocol.source}. Trained at up to {protocol.length} tokens, tested at {tested}.{more}"


def page(comparison: Comparison) -> str:
    """The page: what `text` says, heat maps as tables, and charts by length."""
    made = Page("Layers side by side", "The layers of the field on state tracking, trained alike.")
    show = MarkdownIt("commonmark", {"html": False}).enable("table").render
    made.add("How they are compared", show(_how(comparison)))
    made.add("All together", scrolling("All models", show(comparison.summary())))
    for each in comparison.protocols:
        content = [f"<p>{escape(_protocol(each))}</p>", _heat(comparison, each.name)]
        if each.tested:
            content.append(made.figures(*_charts(comparison, each.name)))
        if printed := published(each, comparison.models):
            content.append(folded("Published numbers", scrolling("Published numbers", show(printed))))
        made.add(each.title, *content)
    return made.html()


def _heat(comparison: Comparison, protocol: str) -> str:
    """A table with a coloured cell for each model and task."""
    tasks = comparison.tasks(protocol)
    head = "".join(f'<th scope="col">{escape(task)}</th>' for task in tasks)
    body = ""
    for model in comparison.models:
        body += f'<tr><th scope="row">{escape(model)}</th>'
        for task in tasks:
            rows = comparison[protocol, task, model]
            held = scaled(rows)
            if held is None:
                body += "<td>–</td>"
                continue
            certain = any_proof(rows) and proven(rows)
            shown = f"proven {certain}/{len(rows)}" if certain else percent(_median(rows))
            body += f'<td style="--held: {held:.2f}">{shown}</td>'
        body += "</tr>"
    table = f"<thead><tr><th scope=col>model</th>{head}</tr></thead><tbody>{body}</tbody>"
    return scrolling("Accuracy at the longest length", f'<table class="heat">{table}</table>')


def _median(rows: Sequence[Row]) -> float:
    return statistics.median(map(at_longest, rows))


def _charts(comparison: Comparison, protocol: str) -> list[Chart]:
    """The accuracy by length on each task, of those that did best at the longest."""
    charts = []
    for task in comparison.tasks(protocol):
        found = {model: comparison[protocol, task, model] for model in comparison.models}
        ranked = sorted((model for model in found if found[model]), key=lambda m: -_median(found[m]))
        best = [*(each for each in ranked if each == CSPROP), *(m for m in ranked if m != CSPROP)]
        series = [
            Series(name=model, group=model, colour=colour, points=list(by_length(found[model]).items()))
            for colour, model in enumerate(best[:LINES])
        ]
        charts.append(Chart(title=task, link=None, x=LENGTH, y=PERCENT, series=series, marks=[]))
    return charts
