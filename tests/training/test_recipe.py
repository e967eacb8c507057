"""The options of training: the losses, and what changes from epoch to epoch."""

import math
from pathlib import Path

import pytest
import torch
from torch import Generator

import csprop
from csprop import Rotor, Router
from csprop.data.examples import Examples
from csprop.training.batches import shorten, training_data
from csprop.training.config import configure
from csprop.training.metrics import score
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


def test_the_temperature_falls_to_the_last_one_and_stays() -> None:
    recipe = Recipe(cool=0.25, cool_epochs=2)
    assert [recipe.temperature(epoch) for epoch in (1, 2, 3, 9)] == [1, 0.5, 0.25, 0.25]
    assert Recipe().temperature(7) == 1
    assert Recipe(cool=0.3).temperature(1) == 0.3


@pytest.mark.parametrize("epochs", [1, 2, 7, 300])
@pytest.mark.parametrize("last", [0.0, 1e-6, 0.05])
def test_the_cosine_schedule_is_that_of_torch(epochs: int, last: float) -> None:
    recipe = Recipe(schedule="cosine", lr=0.05, last_lr=last, epochs=epochs)
    optimizer = torch.optim.SGD([torch.zeros(1)], lr=recipe.lr)
    theirs = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=epochs, eta_min=last)
    for epoch in range(1, epochs + 2):
        assert recipe.cosine_lr(epoch) == pytest.approx(theirs.get_last_lr()[0], rel=1e-9)
        optimizer.step()
        theirs.step()
    assert recipe.cosine_lr(1) == 0.05
    assert recipe.cosine_lr(epochs + 1) == last


def test_the_longest_sequence_grows() -> None:
    recipe = Recipe(short_first=4)
    assert [recipe.longest(epoch, 16) for epoch in range(1, 7)] == [4, 7, 10, 13, 16, 16]
    assert [recipe.longest(epoch, 3) for epoch in (1, 4)] == [3, 3]
    assert Recipe().longest(1, 16) == 16


def test_long_sequences_are_cut_at_a_label_or_left_out() -> None:
    labels = torch.tensor([[0, 1, 0, 1], [-1, -1, -1, 1], [-1, 1, -1, -1], [1, -1, -1, 0]])
    answers = torch.zeros(4, 4, dtype=torch.bool)
    answers[[0, 1, 2, 3], [3, 3, 1, 3]] = True
    short = shorten(Examples.from_matrices(torch.arange(16).view(4, 4), labels, answers), 2)
    assert short.tokens.tolist() == [[0, 1], [8, 9]]
    assert short.labels.tolist() == [[0, 1], [-1, 1]]
    assert short.padded().answers.tolist() == [[False, True], [False, True]]


def test_if_none_is_short_all_stay() -> None:
    labels = torch.tensor([[-1, -1, 1]])
    whole = Examples.from_matrices(torch.zeros_like(labels), labels, labels >= 0)
    assert shorten(whole, 2) is whole


def test_the_held_out_score_is_that_of_the_hard_model() -> None:
    run = csprop.train("mod3", preset="router", samples=300, width=8, hold=0, epochs=2)
    assert run.result is not None
    _, held_out = training_data(run.task, run.config)
    told = run.metrics[run.result.best_epoch - 1]["held_out_loss"]
    assert score(run.model, held_out).loss == pytest.approx(told, rel=1e-6)
    assert score(run.model.train(), held_out).loss != pytest.approx(told, rel=1e-3)


def test_a_file_is_learned_by_a_router_unless_another_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("".join(f"{n:b},{n % 2}\n" for n in range(1, 60)))
    assert configure(tmp_path / "rows.csv").preset == "router"
    assert configure(tmp_path / "rows.csv", "rotor").model.cell == Rotor(parts=64)
    assert configure(tmp_path / "rows.csv", width=8).model.layers == (Router(),)
    assert configure("parity").preset == "rotor"
