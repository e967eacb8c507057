"""Draws docs/exact.png: why a trained model drifts, and a locked one cannot.

    .venv/bin/python docs/figures/drift.py

Three models of mod3-residue, trained on length 16 with seed 0: the printed one, the rotor as training
left it, and the same rotor locked. Left, how often each is right after t tokens of the same 200 random
sequences. Right, the phase of one channel after every token of one of them, from the centre outwards.
"""

from pathlib import Path
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Generator, Tensor

import csprop

TASK, SEED = "mod3-residue", 0
SEQUENCES, LONGEST, WINDOW, VISITS = 200, 65_536, 256, 2000
PICTURE = Path(__file__).parents[1] / "exact.png"
# Okabe and Ito's colours, which people see apart whatever their eyes.
PRINTED, TRAINED, LOCKED = "#E69F00", "#D55E00", "#0072B2"
RESIDUES = ("#0072B2", "#E69F00", "#CC79A7")


def main() -> None:
    torch.set_num_threads(1)
    printed = csprop.train(TASK, preset="paper", seed=SEED, epochs=40)
    rotor = csprop.train(TASK, seed=SEED)
    locked = csprop.certify(rotor.model, rotor.task, seed=SEED).locked
    assert locked is not None
    tokens = rotor.task.sample(SEQUENCES, LONGEST, Generator().manual_seed(1))
    labels = rotor.task.labels(tokens)
    figure = Figure(figsize=(9.2, 3.5), facecolor="white", layout="constrained")
    left, *others = figure.subplots(1, 3, width_ratios=(1.6, 1, 1))
    models = (printed.model, rotor.model, locked)
    draw_accuracy(left, [right(model, tokens, labels) for model in models])
    row, residues = tokens[0, :VISITS], labels[0, :VISITS].tolist()
    channel = most_places(locked)
    draw_phase(others[0], "As trained", visited(rotor.model, row, channel), residues)
    draw_phase(others[1], "Locked", snapped(locked, row, channel), residues)
    figure.savefig(PICTURE, dpi=110)


@torch.no_grad()
def right(model: Any, tokens: Tensor, labels: Tensor) -> Tensor:
    """Which answers are right, (B, T); the state is carried from window to window."""
    state, said = None, []
    for part in tokens.split(WINDOW, dim=1):
        scores, state = model(part, state, return_state=True)
        said.append(scores.argmax(dim=2))
    return torch.cat(said, dim=1) == labels


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


def draw_accuracy(axes: Any, found: list[Tensor]) -> None:
    lengths = sorted({round(2 ** (exponent / 3)) for exponent in range(12, 49)})
    kinds = (
        ("as printed (40 epochs)", PRINTED, "s--"),
        ("rotor, as trained", TRAINED, "o-"),
        ("rotor, locked", LOCKED, "-"),
    )
    for (name, colour, style), each in zip(kinds, found, strict=True):
        shares = each[:, torch.tensor(lengths) - 1].double().mean(dim=0)
        axes.plot(lengths, 100 * shares, style, color=colour, label=name, ms=3, lw=1.5)
        print(name, {at: round(float(share), 3) for at, share in zip(lengths, shares, strict=True)})
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
    different = len(points.round(decimals=4).unique(dim=0))
    axes.set_xlabel(f"{len(points):,} tokens, {different:,} states", fontsize=9)
    axes.spines[:].set_visible(False)
    print(title, different)


if __name__ == "__main__":
    main()
