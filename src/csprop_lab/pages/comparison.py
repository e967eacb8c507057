"""The text of a comparison."""

from csprop_lab.study.compare import FAR
from csprop_lab.study.compared import Comparison
from csprop_lab.study.measure import SAMPLING
from csprop_lab.study.protocols import Protocol
from csprop_lab.study.published import show_published
from csprop_lab.study.texts import words

HEAT_MAP, CURVES = "heat-map.png", "lengths.png"


def text(comparison: Comparison) -> str:
    """All of it in Markdown, for a file beside the rows."""
    parts = ["# Layers side by side", _how(comparison), "## All together", comparison.summary()]
    parts += [f"![Models and tasks]({HEAT_MAP})"]
    for each in comparison.protocols:
        parts += [
            f"## {each.title}",
            _protocol(each, comparison.effort.longest),
            comparison.table(each.name),
        ]
        if printed := show_published(each, comparison.models):
            parts += ["Published numbers of these layers, or close relatives, on these tasks:", printed]
    return "\n\n".join([*parts, "## By length", f"![Accuracy by length]({CURVES})"]) + "\n"


def _how(comparison: Comparison) -> str:
    effort = comparison.effort
    rates, seeds = " and ".join(f"{rate:g}" for rate in effort.rates), "one seed"
    if effort.seeds > 1:
        seeds = f"{effort.seeds} seeds"
    if comparison.seeds < effort.seeds:
        seeds = f"{comparison.seeds} of {effort.seeds} seeds so far"
    chosen = f"the learning rate is {rates}"
    if len(effort.rates) > 1:
        chosen = (
            f"the learning rates {rates} are tried with the first seed, and the one with the best "
            "held-out accuracy (or the least training loss, where two are as accurate) is taken for all"
        )
    return words(
        "compare", mark="" if effort.tasks is None else words("compare-quick") + " ",
        steps=effort.steps, rates=chosen, seeds=seeds, most=SAMPLING.most,
        beyond=SAMPLING.tokens // SAMPLING.most,
        **{name: getattr(effort, name) for name in ("depth", "width", "samples", "batch_size")},
    )  # fmt: skip


def _protocol(protocol: Protocol, longest: int) -> str:
    if protocol.rows:
        wrong = f", {protocol.wrong:.0%} of the labels wrong" if protocol.wrong else ""
        return f"{protocol.source}. {protocol.rows:,} rows{wrong}; tested on fresh ones, longer, too."
    lengths = [length for length in protocol.tested if length <= longest]
    tested = ", ".join(f"{length:,}" for length in lengths)
    parts = [f"{protocol.source}. Trained at up to {protocol.length} tokens, tested at {tested}."]
    if protocol.hold_pairs:
        parts.append(words("compare-pairs"))
    if protocol.follow:
        far = max(each for each in lengths if each <= FAR)
        parts.append(words("compare-follow", follow=protocol.follow, far=far))
    if protocol.others:
        parts.append(words("compare-others", others=" and ".join(protocol.others)))
    return " ".join(parts)
