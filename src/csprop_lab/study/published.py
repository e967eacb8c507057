"""Numbers that others printed for the same layers on the same tasks, each with its source."""

from collections.abc import Sequence
from dataclasses import dataclass

from csprop_lab.study.protocols import Protocol
from csprop_lab.study.table import markdown


@dataclass(frozen=True, kw_only=True)
class Source:
    """A printed table, or a part of it."""

    protocol: str
    cited: str
    setting: str
    """What is measured, and how."""
    tasks: tuple[str, ...]
    numbers: dict[str, tuple[str, ...]]
    """By layer, and in brackets what was changed in it; in the order of the tasks."""


SOURCES = (
    Source(
        protocol="chomsky",
        cited="Walker et al., Structured Linear CDEs, NeurIPS 2025, Table 2",
        setting="accuracy in percent, validated at 40 to 256 after training at 3 to 40; two layers of "
        "width 128 to 512, whichever is better; mean and standard deviation of five runs",
        tasks=("parity", "even-pairs", "cycle-nav", "modular-arithmetic"),
        numbers={
            "lstm": ("100.0 ± 0.0", "100.0 ± 0.0", "100.0 ± 0.0", "99.9 ± 0.1"),
            "transformer": ("52.2 ± 0.4", "90.4 ± 10.4", "24.4 ± 0.5", "23.6 ± 0.7"),
            "s4d": ("51.2 ± 1.0", "68.7 ± 4.7", "23.7 ± 1.1", "21.7 ± 0.4"),
            "mamba": ("54.2 ± 2.1", "100.0 ± 0.0", "48.4 ± 2.2", "33.1 ± 6.6"),
            "fast-weights (DeltaNet)": ("57.8 ± 0.8", "100.0 ± 0.0", "49.8 ± 4.7", "42.2 ± 4.8"),
            "fast-weights (DeltaNet, eigenvalues in [−1, 1])": (
                "97.7 ± 2.0", "100.0 ± 0.0", "46.7 ± 6.1", "66.4 ± 8.8",
            ),
            "gated-deltanet": ("56.5 ± 1.9", "100.0 ± 0.0", "53.8 ± 8.8", "42.8 ± 8.2"),
            "deltaproduct": ("98.0 ± 1.4", "100.0 ± 0.0", "46.3 ± 6.6", "78.4 ± 10.9"),
            "rwkv-7": ("51.1 ± 0.3", "88.1 ± 14.2", "37.8 ± 5.0", "39.5 ± 6.1"),
            "slstm": ("100.0 ± 0.0", "100.0 ± 0.0", "32.5 ± 0.4", "27.7 ± 0.6"),
            "mlstm": ("53.0 ± 2.1", "99.9 ± 0.1", "52.4 ± 10.5", "28.8 ± 3.1"),
        },
    ),
    Source(
        protocol="chomsky",
        cited="Terzić et al., Structured Sparse Transition Matrices to Enable State Tracking in "
        "State-Space Models, NeurIPS 2025, Table 2",
        setting="as Walker et al. measured",
        tasks=("parity", "even-pairs", "cycle-nav", "modular-arithmetic"),
        numbers={"pd-ssm": ("99.9 ± 0.1", "99.7 ± 0.3", "99.5 ± 0.7", "96.2 ± 3.4")},
    ),
    Source(
        protocol="chomsky",
        cited="Grazzi et al., Unlocking State-Tracking in Linear RNNs Through Negative Eigenvalues, "
        "ICLR 2025, Table 5",
        setting="accuracy scaled so that 0 is chance and 1 is right, at 40 to 256 after training at 3 "
        "to 40; median and median absolute deviation of three runs; two layers for parity, three for "
        "the others; DeltaNet is the delta rule with other keys than those of fast-weights",
        tasks=("parity", "modular-arithmetic", "modular-arithmetic-brackets"),
        numbers={
            "transformer": ("0.003 ± 0.013", "0.018 ± 0.009", "0.064 ± 0.003"),
            "mamba": ("0.000 ± 0.000", "0.066 ± 0.029", "0.116 ± 0.007"),
            "mamba (eigenvalues in [−1, 1])": ("1.000 ± 0.000", "0.214 ± 0.027", "0.098 ± 0.009"),
            "fast-weights (DeltaNet)": ("0.010 ± 0.005", "0.214 ± 0.056", "0.162 ± 0.018"),
            "fast-weights (DeltaNet, eigenvalues in [−1, 1])": (
                "0.999 ± 0.006", "0.826 ± 0.146", "0.227 ± 0.011",
            ),
            "slstm": ("1.000 ± 0.000", "0.124 ± 0.000", "0.163 ± 0.015"),
            "mlstm": ("0.018 ± 0.035", "0.027 ± 0.013", "0.114 ± 0.000"),
        },
    ),
    Source(
        protocol="chomsky",
        cited="Beck et al., xLSTM, NeurIPS 2024, as printed by Grazzi et al.",
        setting="accuracy scaled in the same way; two blocks",
        tasks=("parity", "modular-arithmetic", "modular-arithmetic-brackets"),
        numbers={"slstm": ("1.00", "1.00", "0.57"), "mlstm": ("0.04", "0.04", "0.03")},
    ),
    Source(
        protocol="chomsky",
        cited="Lahoti et al., Mamba-3, ICLR 2026, Table 5b",
        setting="accuracy scaled in the same way, in percent, at 256 after lengths that grow from 3 to "
        "160; one layer for parity, three for the others",
        tasks=("parity", "modular-arithmetic", "modular-arithmetic-brackets"),
        numbers={
            "mamba-2": ("0.90", "47.81", "0.88"),
            "gated-deltanet-negative": ("100.00", "99.25", "93.50"),
        },
    ),
    Source(
        protocol="chomsky",
        cited="Delétang et al., Neural Networks and the Chomsky Hierarchy, ICLR 2023, Table 2",
        setting="accuracy in percent at 41 to 500 after training at 1 to 40; the best of ten seeds",
        tasks=("parity", "modular-arithmetic"),
        numbers={
            "rnn": ("100.0", "100.0"),
            "lstm": ("100.0", "100.0"),
            "transformer": ("52.0", "24.2"),
        },
    ),
    Source(
        protocol="words",
        cited="Terzić et al., NeurIPS 2025, Table 3",
        setting="accuracy in percent at 40 to 256 after training at up to 40, the best of three seeds; "
        "one layer with 128 states, 32 matrices for PD-SSM and four steps a token for DeltaProduct; as "
        "many permutations are tokens, not the same ones as ours",
        tasks=("group-A5", "group-A5-8", "group-S5-32"),
        numbers={"pd-ssm": ("100.0", "100.0", "1.07"), "deltaproduct": ("97.9", "91.8", "1.23")},
    ),
    Source(
        protocol="flip-flops",
        cited="Liu et al., Exposing Attention Glitches with Flip-Flop Language Modeling, NeurIPS 2023",
        setting="runs of one layer that are right on all of both tails",
        tasks=("flip-flop-language",),
        numbers={"lstm": ("100 of 100",)},
    ),
)  # fmt: skip


def published(protocol: Protocol, models: Sequence[str]) -> str:
    """What is printed of these models on the tasks of a protocol, in Markdown; empty if nothing is."""
    parts = []
    for source in SOURCES:
        lines = [
            [name, *numbers]
            for name, numbers in source.numbers.items()
            if name.partition(" (")[0] in models
        ]
        if source.protocol == protocol.name and lines:
            parts.append(f"{source.cited}: {source.setting}.")
            parts.append(markdown(["model", *source.tasks], lines))
    return "\n\n".join(parts)
