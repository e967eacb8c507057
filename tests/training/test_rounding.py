"""Training ends with whole angles: rotors are exact as trained; the label of the whole is enough."""

from pathlib import Path

import pytest
import torch

import csprop
from csprop.tasks.base import Task
from csprop.training.metrics import at_length
from csprop.training.scores import Sampling

FEW = Sampling(tokens=1 << 17, fewest=4, most=200)


class Ones(Task):
    """The number of ones modulo 3, with the token that turns first."""

    name, description = "ones", "the number of 1s modulo 3"
    vocab, classes = ("1", "0"), ("0", "1", "2")

    def truth(self, sequence: list[int]) -> int:  # pyright: ignore[reportIncompatibleMethodOverride]
        return sequence.count(0) % 3

    def step(self, state: int, token: int) -> int:
        return (state + 1 - token) % 3


@pytest.mark.parametrize(("task", "k"), [("parity", 2), ("mod3-residue", 3), ("cycle-nav", 5)])
def test_a_rotor_does_not_drift_as_trained(task: str, k: int) -> None:
    run = csprop.train(task, preset="rotor", seed=8, progress=False)
    parts = run.model.layers[0].get_buffer("parts")
    assert set(parts.int().tolist()) == {0, k}  # 0: channels that were dropped
    for length in (1000, 65_535):
        assert at_length(run.model, run.task, length, sampling=FEW).accuracy == 1


def test_without_the_option_angles_stay_free() -> None:
    run = csprop.train("mod3", preset="rotor", parts=0, progress=False)
    assert at_length(run.model, run.task, 1000, sampling=FEW).accuracy < 1


def test_the_weights_of_a_run_are_the_rounded_ones(tmp_path: Path) -> None:
    run = csprop.train("mod3", preset="rotor", out=tmp_path / "run", progress=False)
    again = csprop.train("mod3", preset="rotor", out=tmp_path / "run", resume=True, progress=False)
    for loaded in (csprop.load(tmp_path / "run"), again):
        for name, value in run.model.state_dict().items():
            assert torch.equal(loaded.model.state_dict()[name], value), name


@pytest.mark.parametrize("task", ["mod3", "cycle-nav", Ones()])
def test_the_label_of_the_whole_is_enough_for_a_proof(task: str | Task) -> None:
    """Rows of one length leave open which token turns nothing; the labels of prefixes decide it."""
    run = csprop.train(task, preset="rotor", supervise="last", progress=False)
    assert run.certify(progress=False).proven
