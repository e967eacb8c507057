"""Draws docs/phases.png: why the released model counts and the printed one does not.

    .venv/bin/python docs/figures/phases.py

results/phases.json has its numbers, which blocks.py writes into the caption. Two models of mod3-residue
are trained alike on length 16 with seed 2: the printed one and the released one. Drawn is the phase by
which what enters is multiplied, after every token of a random sequence, from the centre outwards; the
colour is the true residue. The printed phase e^{iθ} is that of the last input alone. The released one,
e^{iΘ}, is summed over all inputs, and so is a state. The third panel rounds its angles, as
`csprop_lab.released.prove` does. (On seed 0 no single layer counts: docs/notes/released.md.)
"""

import json
import math
from pathlib import Path
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Generator, Tensor

from csprop.tasks import get
from csprop.training.config import environment
from csprop.training.presets import Recipe
from csprop_lab import released as lab
from csprop_lab.study.job import network, sizes_of
from csprop_lab.study.measure import train_network
from csprop_lab.study.publish import METADATA

TASK, SEED, TOKENS = "mod3-residue", 2, 400
ALIKE: dict[str, Any] = {
    "supervise": "every", "split": "disjoint", "samples": 5000, "lr": 1e-3, "schedule": "plateau",
    "weight_decay": 0.0, "epochs": 30, "hold": 10,
}  # fmt: skip
ROOT = Path(__file__).parents[2]
PICTURE, NUMBERS = ROOT / "docs" / "phases.png", ROOT / "results" / "phases.json"
RESIDUES = ("#0072B2", "#E69F00", "#CC79A7")  # Okabe and Ito's, which people see apart
NAMES = tuple(f"number of 1s modulo 3 is {residue}" for residue in range(3))


def main() -> None:
    torch.set_num_threads(1)
    model = lab.ReleasedConfig(**sizes_of(get(TASK)))  # without an option, the printed one
    printed: Any = train_network(network(TASK, model, Recipe(**ALIKE), SEED))
    released: Any = lab.train(TASK, seed=SEED, **ALIKE)
    tokens = released.task.sample(1, TOKENS, Generator().manual_seed(1))
    residues = released.task.labels(tokens)[0].tolist()
    _, (layer, parts, moves, _) = lab.prove(released)
    single, theta = (run.model.angles(tokens)[layer - 1][0] for run in (printed, released))
    rounded = torch.tensor(moves)[tokens[0]].cumsum(0) * (2 * math.pi / parts)
    panels = {
        f"Printed: $e^{{i\\theta}}$, layer {layer}": single,
        f"Released: $e^{{i\\Theta}}$, layer {layer}": theta.double().cumsum(0),
        f"Rounded to 1/{parts} of a turn": rounded,
    }
    figure = Figure(figsize=(9.2, 3.9), facecolor="white", layout="constrained")
    for axes, (title, phases) in zip(figure.subplots(1, len(panels)), panels.items(), strict=True):
        draw(axes, title, phases, residues)
    shown = [
        figure.axes[0].scatter([], [], c=colour, s=20, label=name)
        for colour, name in zip(RESIDUES, NAMES, strict=True)
    ]
    figure.legend(handles=shown, loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    figure.savefig(PICTURE, dpi=110, metadata=METADATA)
    per_token = [theta[tokens[0] == token].div(2 * math.pi) for token in range(2)]
    numbers = {
        "environment": environment(),
        "task": TASK,
        "seed": SEED,
        "layer": layer,
        "parts": parts,
        "moves": moves,
        "turns": [round(float(each.mean()), 4) for each in per_token],
        "held_out": {"printed": printed.result.accuracy, "released": released.result.accuracy},
    }
    NUMBERS.write_text(json.dumps(numbers, indent=1) + "\n")


def draw(axes: Any, title: str, phases: Tensor, residues: list[int]) -> None:
    """Phases, at a distance from the centre that grows with time."""
    outwards = torch.linspace(0.12, 1, len(phases))
    colours = [RESIDUES[each] for each in residues]
    axes.scatter(outwards * phases.cos(), outwards * phases.sin(), c=colours, s=7, linewidths=0)
    axes.set_title(title, fontsize=11, pad=10)
    axes.set(xlim=(-1.1, 1.1), ylim=(-1.1, 1.1), aspect="equal", xticks=[], yticks=[])
    axes.spines[:].set_visible(False)


if __name__ == "__main__":
    main()
