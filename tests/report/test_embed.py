"""The task and the locked model in a page."""

from pathlib import Path

import pytest
import torch
from torch import Generator

import csprop
from csprop import tasks
from csprop.report import embed
from csprop.training.checkpoint import CERTIFICATE, RunFolder


def read_truth(truth: dict[str, list], tokens: list[int]) -> list[int]:
    """As the page's script reads the table; −1 where the truth is not known."""
    state, answers = 0, []
    for token in tokens:
        state = -1 if state < 0 else truth["moves"][state][token]
        answers.append(-1 if state < 0 else truth["answers"][state])
    return answers


@pytest.mark.parametrize(
    ("name", "states"),
    [
        ("parity", 2),
        ("mod3-residue", 3),
        ("group-S4", 24),
        ("parenthesis", 4096),
        ("mod5000-residue", 4096),
    ],
)
def test_the_truth_in_a_page_is_the_task(name: str, states: int) -> None:
    task = tasks.get(name)
    assert task.oracle is not None
    truth = embed._truth(task.oracle)
    tokens = torch.randint(len(task.vocab), (20, 400), generator=Generator().manual_seed(0))
    for row, labels in zip(tokens.tolist(), task.labels(tokens).tolist(), strict=True):
        assert read_truth(truth, row) == labels
    assert len(truth["moves"]) == len(truth["answers"]) == states
    inside = {state for row in truth["moves"] for state in row}
    assert (-1 in inside) == (states == 4096), "−1 leads out of the known states"
    assert inside - {-1} <= set(range(states))


def test_the_automaton_of_a_page_is_that_of_the_certificate(parity: Path) -> None:
    run = csprop.load(parity)
    assert run.locked is not None
    assert run.automaton is not None
    document = RunFolder(parity).read_json(CERTIFICATE)["automaton"]
    held = embed.embed_locked(run.locked, run.automaton)["automaton"]
    assert [list(row) for row in held["transitions"]] == document["transitions"]
    assert (list(held["answers"]), held["start"]) == (document["answers"], document["start"])
    assert len(held["places"]) == len(run.automaton) == 2
