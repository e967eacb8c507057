"""Draws docs/exact.png: why a trained model drifts, and a locked one cannot. results/drift.json has its
numbers, which blocks.py writes into the caption.

    .venv/bin/python docs/figures/drift.py

Three models of mod3-residue, trained on length 16 with seed 0: the printed one, a rotor with free
angles (`parts=0`) as training left it, and the same rotor locked. Left, how often each is right after t
tokens of the same 200 random sequences. Right, the phase of one channel after every token of one of
them, from the centre outwards.
"""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Generator, Tensor

import csprop
from csprop.training.config import environment
from csprop.training.metrics import exhaustive
from csprop_lab.study.publish import METADATA

TASK, SEED, EPOCHS, TRAINED_ON = "mod3-residue", 0, 40, 16
SEQUENCES, LONGEST, WINDOW, VISITS = 200, 65_536, 256, 2000
LENGTHS = sorted({round(2 ** (exponent / 3)) for exponent in range(12, 49)})
ROOT = Path(__file__).parents[2]
PICTURE, NUMBERS = ROOT / "docs" / "exact.png", ROOT / "results" / "drift.json"
# Okabe and Ito's colours, which people see apart whatever their eyes.
PRINTED, TRAINED, LOCKED = "#E69F00", "#D55E00", "#0072B2"
RESIDUES = ("#0072B2", "#E69F00", "#CC79A7")


def main() -> None:
    torch.set_num_threads(1)
    printed = csprop.train(TASK, preset="paper", seed=SEED, epochs=EPOCHS)
    rotor = csprop.train(TASK, seed=SEED, parts=0, as_trained=True)
    locked = csprop.certify(rotor.model, rotor.task, seed=SEED).locked
    assert locked is not None
    tokens = rotor.task.sample(SEQUENCES, LONGEST, Generator().manual_seed(1))
    labels = rotor.task.labels(tokens)
    models = {"as printed": printed.model, "rotor, free angles": rotor.model, "rotor, locked": locked}
    curves = {name: shares(right(model, tokens, labels)) for name, model in models.items()}
    row, residues = tokens[0, :VISITS], labels[0, :VISITS].tolist()
    channel = most_places(locked)
    phases = {
        "Free angles": visited(rotor.model, row, channel),
        "Locked": snapped(locked, row, channel),
    }
    figure = Figure(figsize=(9.2, 3.5), facecolor="white", layout="constrained")
    left, *others = figure.subplots(1, 3, width_ratios=(1.6, 1, 1))
    draw_accuracy(left, curves)
    for axes, (title, points) in zip(others, phases.items(), strict=True):
        draw_phase(axes, title, points, residues)
    figure.savefig(PICTURE, dpi=110, metadata=METADATA)
    numbers = {
        "environment": environment(),
        "task": TASK,
        "seed": SEED,
        "printed": {"epochs": EPOCHS, **asdict(exhaustive(printed.model, printed.task, TRAINED_ON))},
        "sequences": SEQUENCES,
        "right": curves,
        "tokens": VISITS,
        "states": {title: different(points) for title, points in phases.items()},
    }
    NUMBERS.write_text(json.dumps(numbers, indent=1) + "\n")


@torch.no_grad()
def right(model: Any, tokens: Tensor, labels: Tensor) -> Tensor:
    """Which answers are right, (B, T); the state is carried from window to window."""
    state, said = None, []
    for part in tokens.split(WINDOW, dim=1):
        scores, state = model(part, state, return_state=True)
        said.append(scores.argmax(dim=2))
    return torch.cat(said, dim=1) == labels


def shares(found: Tensor) -> dict[int, float]:
    """Of the sequences that are right, by length."""
    at = found[:, torch.tensor(LENGTHS) - 1].double().mean(dim=0)
    return dict(zip(LENGTHS, at.tolist(), strict=True))


@torch.no_grad()
def visited(model: Any, tokens: Tensor, channel: int) -> Tensor:
    """The state of one channel after every token, (T, 2)."""
    state, points = model.initial_state(), []
    for token in tokens[:, None]:
        state, _ = model.step(state, token)
        points.append(state[0, 0, :, channel])
    return torch.stack(points)


def snapped(locked: Any, tokens: Tensor, channel: int) -> Tensor:
    """The same of a locked model, whose state is the number of a code."""
    state, numbers = 0, []
    for token in tokens.tolist():
        state = int(locked.following[state, token])
        numbers.append(int(locked.places[state, 0]))
    return locked.codes[0][numbers, :, channel]


def most_places(locked: Any) -> int:
    """The first channel that is in a different place for every code."""
    codes = locked.codes[0].round(decimals=1)  # (S, 2, D)
    places = [len(codes[:, :, channel].unique(dim=0)) for channel in range(codes.shape[2])]
    return places.index(max(places))


def different(points: Tensor) -> int:
    """States, told apart to four decimals."""
    return len(points.round(decimals=4).unique(dim=0))


def draw_accuracy(axes: Any, curves: dict[str, dict[int, float]]) -> None:
    styles = ((PRINTED, "s--"), (TRAINED, "o-"), (LOCKED, "-"))
    for (name, curve), (colour, style) in zip(curves.items(), styles, strict=True):
        label = f"{name} ({EPOCHS} epochs)" if colour == PRINTED else name
        right = [100 * share for share in curve.values()]
        axes.plot(list(curve), right, style, color=colour, label=label, ms=3, lw=1.5)
    axes.axhline(100 / 3, color="#999999", lw=0.8, zorder=0)
    axes.annotate(
        "chance", (1.01, 100 / 3), xycoords=("axes fraction", "data"), fontsize=8, va="center"
    )
    axes.set_xscale("log", base=2)
    axes.set_xticks([16, 128, 1024, 8192, 65536], ["16", "128", "1,024", "8,192", "65,536"])
    axes.set(xlabel="tokens read (trained on 16)", ylabel="right answers, %", ylim=(-4, 104))
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(
        loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3, fontsize=8, frameon=False,
        columnspacing=1.0, handlelength=1.6,
    )  # fmt: skip


def draw_phase(axes: Any, title: str, points: Tensor, residues: list[int]) -> None:
    """States of modulus 1, drawn at a distance from the centre that grows with time."""
    outwards = torch.linspace(0.12, 1, len(points))[:, None]
    axes.scatter(*(points * outwards).T, c=[RESIDUES[each] for each in residues], s=5, linewidths=0)
    axes.set_title(title, fontsize=11)
    axes.set(xlim=(-1.1, 1.1), ylim=(-1.1, 1.1), aspect="equal", xticks=[], yticks=[])
    axes.set_xlabel(f"{len(points):,} tokens, {different(points):,} states", fontsize=9)
    axes.spines[:].set_visible(False)


if __name__ == "__main__":
    main()
