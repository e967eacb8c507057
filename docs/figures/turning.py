"""Draws docs/turning.svg: a locked rotor and the printed model read the same sequence, token by token.

    .venv/bin/python docs/figures/turning.py

The task is the number of ones modulo 3. Both models are trained on sequences of 16 tokens with seed 0:
the rotor on the answer after every token, as its preset says, and the printed model on the answer after
the last one, as in the paper. Its answers are therefore judged from token 16 on. The sequence is the
first of a generator with seed 0 on which the printed model is right after 16 tokens, whatever it says
later.

The hands of the left circle are the channels that the locked rotor keeps. The circle is drawn turned,
so that the first hand is at the top before the first 1. The hands of the right circle are phases of the
printed model's last layer: of as many channels, those with the largest weights in its decoder. The
first hand leaves a dot wherever it stops.
"""

from pathlib import Path
from typing import Any

import torch
from torch import Generator, Tensor
from turning_drawing import Reading, drawn

import csprop
from csprop.proof.statements import ALL_LENGTHS
from csprop.tasks.base import Task
from csprop.training.metrics import exhaustive

TASK, SEED, TRAINED_ON, TOKENS = "mod3-residue", 0, 16, 24
SEQUENCES = 65_536  # random ones, for what the printed model does beyond the trained length
PICTURE = Path(__file__).parents[1] / "turning.svg"


def main() -> None:
    torch.set_num_threads(1)
    PICTURE.write_text(drawn(read()))


@torch.no_grad()
def read() -> Reading:
    with torch.enable_grad():
        rotor = csprop.train(TASK, seed=SEED)
        certificate = csprop.certify(rotor.model, rotor.task, seed=SEED)
        printed = csprop.train(TASK, preset="paper", seed=SEED, split="disjoint", hold=10)
    assert certificate.verdict == ALL_LENGTHS
    machine, locked, task = certificate.automaton, certificate.locked, rotor.task
    assert isinstance(machine, csprop.Automaton)
    tokens = chosen(task, printed.model)
    hands = kept(locked, tokens)
    return Reading(
        task=TASK,
        seed=SEED,
        trained_on=TRAINED_ON,
        tokens=tokens.tolist(),
        truth=task.labels(tokens[None])[0].tolist(),
        locked=answers(locked, tokens),
        printed=answers(printed.model, tokens),
        machine=[list(row) for row in machine.transitions],
        hands=hands,
        phases=phases(printed.model, tokens, len(hands)),
        verdict=certificate.verdict,
        at_trained=exhaustive(printed.model, task, TRAINED_ON).accuracy,
        beyond=beyond(printed.model, task),
    )


def chosen(task: Task, printed: Any) -> Tensor:
    """The first random sequence on which the printed model is right at the trained length."""
    generator = Generator().manual_seed(SEED)
    while True:
        tokens = task.sample(1, TOKENS, generator)
        if answers(printed, tokens[0])[TRAINED_ON - 1] == task.labels(tokens)[0, TRAINED_ON - 1]:
            return tokens[0]


def beyond(printed: Any, task: Task) -> float:
    """The share of right answers to random sequences, over all lengths after the trained one."""
    tokens = task.sample(SEQUENCES, TOKENS, Generator().manual_seed(SEED))
    found = printed(tokens).argmax(dim=2) == task.labels(tokens)
    return found[:, TRAINED_ON:].double().mean().item()


def answers(model: Any, tokens: Tensor) -> list[int]:
    return model(tokens[None])[0].argmax(dim=1).tolist()


def kept(locked: Any, tokens: Tensor) -> list[list[float]]:
    """The angle of every channel that the locked rotor keeps, before the first token and after each."""
    state, numbers = 0, [int(locked.places[0, 0])]
    for token in tokens.tolist():
        state = int(locked.following[state, token])
        numbers.append(int(locked.places[state, 0]))
    return degrees(locked.codes[0][numbers][:, :, locked.kept[0]])


def phases(printed: Any, tokens: Tensor, count: int) -> list[list[float]]:
    """The phase of the channels with the largest weights in the decoder, after every token."""
    read: list[Tensor] = []
    hook = printed.decoder.register_forward_pre_hook(lambda _, given: read.append(given[0][0]))
    printed(tokens[None])
    hook.remove()
    weight = printed.decoder.linear.weight.unflatten(1, (2, -1))  # (V, 2, D)
    largest = (weight - weight.mean(dim=0)).square().sum(dim=(0, 1)).topk(count).indices
    return degrees(read[0][:, :, largest])


def degrees(points: Tensor) -> list[list[float]]:
    """Of (T, 2, D): a list for every channel."""
    return torch.atan2(points[:, 1], points[:, 0]).rad2deg().T.tolist()


if __name__ == "__main__":
    main()
