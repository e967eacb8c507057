import math

import pytest
import torch
from torch import Generator

from csprop.training.presets import Recipe
from csprop.training.steps import loss


def logits(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=Generator().manual_seed(0), dtype=torch.float64) * 3


@pytest.mark.parametrize("classes", [2, 3])
def test_focal_loss_is_its_formula(classes: int) -> None:
    scores, labels = logits(6, classes), torch.tensor([0, 1, classes - 1, 0, 1, 1])
    total = 0.0
    for row, label in zip(scores.tolist(), labels.tolist(), strict=True):
        p = math.exp(row[label]) / sum(map(math.exp, row))
        weight = {0: 0.7, 1: 0.3}[label] if classes == 2 else 1.0
        total += -weight * (1 - p) ** 1.5 * math.log(p)
    assert focal(scores, labels, gamma=1.5, alpha=0.3).item() == pytest.approx(total / 6)


def focal(scores: torch.Tensor, labels: torch.Tensor, gamma: float, alpha: float) -> torch.Tensor:
    recipe = Recipe(loss="focal", focal_gamma=gamma, focal_alpha=alpha)
    return loss(scores[:, None], labels[:, None], recipe)


@pytest.mark.parametrize("gamma", [0.0, 0.5, 2.0])
def test_focal_gradients_are_right_and_finite_at_certainty(gamma: float) -> None:
    labels = torch.tensor([0, 1, 1])
    scores = logits(3, 2).requires_grad_()
    assert torch.autograd.gradcheck(lambda s: focal(s, labels, gamma, 0.25), (scores,))
    certain = torch.tensor([[200.0, -200.0]], requires_grad=True)
    focal(certain, torch.tensor([0]), gamma, 0.25).backward()
    assert certain.grad is not None
    assert certain.grad.isfinite().all()


@pytest.mark.parametrize("name", ["cross_entropy", "focal"])
def test_only_labelled_steps_count(name: str) -> None:
    recipe = Recipe(loss=name)  # pyright: ignore
    scores = logits(2, 3, 2).requires_grad_()
    labels = torch.tensor([[1, -1, 0], [-1, -1, 1]])
    value = loss(scores, labels, recipe)
    value.backward()
    assert scores.grad is not None
    assert torch.equal(scores.grad.abs().sum(dim=2) > 0, labels >= 0)
    kept = torch.stack([scores[0, 0], scores[0, 2], scores[1, 2]])[None]
    assert value.item() == pytest.approx(loss(kept, torch.tensor([[1, 0, 1]]), recipe).item())


@pytest.mark.parametrize("name", ["cross_entropy", "focal"])
def test_the_losses_of_stacked_models_are_theirs_alone(name: str) -> None:
    recipe = Recipe(loss=name)  # pyright: ignore
    scores, labels = logits(4, 2, 3, 2), torch.tensor([[1, -1, 0], [-1, -1, 1]]).expand(4, -1, -1)
    alone = [loss(*each, recipe) for each in zip(scores, labels, strict=True)]
    torch.testing.assert_close(loss(scores, labels, recipe), torch.stack(alone))
