"""What changes from epoch to epoch, and that a resumed run does not notice."""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import csprop
from csprop import Rotor, Router, Run
from csprop.data.examples import Examples
from csprop.training.batches import shorten, training_data
from csprop.training.config import configure
from csprop.training.metrics import score
from csprop.training.presets import Recipe

SMALL: dict[str, Any] = {"preset": "router", "samples": 300, "width": 8, "hold": 0}


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


def test_a_resumed_router_ends_with_the_same_bytes(tmp_path: Path) -> None:
    whole = csprop.train("parity", out=tmp_path / "whole", epochs=5, **SMALL)
    csprop.train("parity", out=tmp_path / "part", epochs=2, **SMALL)
    csprop.train("parity", out=tmp_path / "part", epochs=5, resume=True, **SMALL)
    best = "model.safetensors"
    assert (tmp_path / "whole" / best).read_bytes() == (tmp_path / "part" / best).read_bytes()
    first, second = (
        load_file(tmp_path / each / "last/state.safetensors") for each in ("whole", "part")
    )
    assert first.keys() == second.keys()
    assert all(first[name].equal(second[name]) for name in first)
    part = csprop.load(tmp_path / "part")
    assert [row["loss"] for row in whole.metrics] == [row["loss"] for row in part.metrics]


def test_the_held_out_score_is_that_of_the_hard_model() -> None:
    run = csprop.train("mod3", epochs=2, **SMALL)
    assert run.result is not None
    _, held_out = training_data(run.task, run.config)
    told = run.metrics[run.result.best_epoch - 1]["held_out_loss"]
    assert score(run.model, held_out).loss == pytest.approx(told, rel=1e-6)
    assert score(run.model.train(), held_out).loss != pytest.approx(told, rel=1e-3)


def test_seeds_trained_together_are_those_trained_alone(tmp_path: Path) -> None:
    """The rows of a file that are short are not equally many for each seed."""
    rows = [(format(n, "b"), "odd" if format(n, "b").count("1") % 2 else "even") for n in range(1, 300)]
    (tmp_path / "rows.csv").write_text("".join(f"{word},{label}\n" for word, label in rows))
    options: dict[str, Any] = SMALL | {"samples": 0, "epochs": 3}
    together = csprop.train_seeds(tmp_path / "rows.csv", [0, 1, 2], **options)
    for seed, run in enumerate(together):
        alone = csprop.train(tmp_path / "rows.csv", seed=seed, **options)
        assert isinstance(run, Run)
        for one, two in zip(run.metrics, alone.metrics, strict=True):
            assert one["loss"] == pytest.approx(two["loss"], rel=1e-4)


def test_a_file_is_learned_by_a_router_unless_another_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("".join(f"{n:b},{n % 2}\n" for n in range(1, 60)))
    assert configure(tmp_path / "rows.csv").preset == "router"
    assert configure(tmp_path / "rows.csv", "rotor").model.cell == Rotor()
    assert configure(tmp_path / "rows.csv", width=8).model.layers == (Router(),)
    assert configure("parity").preset == "rotor"
