"""A locked rotor states how far its rounded angles are from a tie, and is refused near one."""

import copy
import math

import pytest
import torch

import csprop
from csprop import CSP
from csprop.cells.rotor import RotorBlock
from csprop.proof.certify import certify
from csprop.proof.limits import NotFinite
from csprop.proof.lock import RADII, lock
from csprop.proof.prove import domain
from csprop.training.pruned import Pruned


@pytest.fixture(scope="module")
def run() -> csprop.Run:
    return csprop.train("parity", samples=1000, progress=False, as_trained=True)


def turned(model: CSP, turns: float) -> CSP:
    """Return the model with another angle of the token that turns, in halves of a turn."""
    block = model.requires_grad_(False).layers[0]
    assert isinstance(block, RotorBlock)
    inputs = model.rows.flatten(1)
    angles = block.angle(inputs)
    wanted = angles.clone()
    wanted[:, block.get_buffer("parts") > 0] = torch.tensor([[0.0], [turns * math.pi]])
    block.angle.weight += (wanted - angles).T @ torch.linalg.pinv(inputs).T
    return model


def locked(run: csprop.Run, turns: float) -> float | None:
    """Lock the model with another angle, and return how far its first layer is from a tie."""
    model = turned(copy.deepcopy(run.model), turns)
    _, (layers, _) = lock(model, Pruned.whole(model).kept, RADII[0], domain(run.task, None))
    return layers[0].gate


def test_the_distance_of_an_angle_from_a_tie_is_measured(run: csprop.Run) -> None:
    assert locked(run, 0.503) == pytest.approx(0.003, abs=1e-4)


def test_an_angle_near_a_tie_is_refused(run: csprop.Run) -> None:
    with pytest.raises(NotFinite, match="rounding could switch a gate, a route or an angle"):
        locked(run, 0.5005)


def test_the_verifier_measures_the_same_distance(run: csprop.Run) -> None:
    certificate = certify(turned(copy.deepcopy(run.model), 0.503), run.task, rounds=0, progress=False)
    assert certificate.proven
    assert certificate.document["layers"][0]["gate"] == pytest.approx(0.003, abs=1e-4)
