"""The table of layers: the same steps for all, and a learning rate that only validation decides on."""

import json
from dataclasses import asdict, replace
from typing import Any, get_args

import pytest
import torch

from csprop.training.seeding import generator
from csprop_lab.signals.networks import NetworkKind
from csprop_lab.signals.sequences import Learner, sequences
from csprop_lab.study import engine
from csprop_lab.study.job import LayerJob
from csprop_lab.study.layers import KINDS, RATES, Layers, chosen, job
from csprop_lab.study.measure import measure
from csprop_lab.study.table import FULL, QUICK


def small(**changes: Any) -> LayerJob:
    values: dict[str, Any] = {"features": 8, "width": 6, "steps": 3, "batch_size": 4}
    return replace(job("digits, levels", "csprop", 0.01, 3, 0), **values | changes)


def test_a_key_is_all_that_a_row_depends_on() -> None:
    one = small()
    assert one.key == "ebe324ad567f74f1"
    assert LayerJob.from_json(json.loads(json.dumps(asdict(one)))).key == one.key
    others = [
        small(data="sentences"), small(kind="GRU"), small(features=9), small(width=7), small(lr=0.003),
        small(steps=4), small(batch_size=5), small(seed=1),
    ]  # fmt: skip
    assert len({one.key, *(other.key for other in others)}) == len(others) + 1
    assert [other.group == one.group for other in others] == [False] * 7 + [True]


def test_the_table_asks_for_what_it_says() -> None:
    jobs = Layers().jobs(FULL)
    assert len(jobs) == 2 * 5 * 3 + 5 * 2
    for (data, name, lr), seeds in jobs.items():
        assert [each.seed for each in seeds] == list(range(5))
        assert {(each.data, KINDS[each.kind], f"{each.lr:g}") for each in seeds} == {(data, name, lr)}
        assert {each.steps for each in seeds} == {600}
        assert {each.batch_size for each in seeds} == {32 if "digits" in data else 16}
    assert {each.data for seeds in jobs.values() for each in seeds} == set(RATES)
    assert {each.kind for seeds in jobs.values() for each in seeds} == set(get_args(NetworkKind))
    assert len(engine.groups("layers", [each for seeds in jobs.values() for each in seeds])) == 40
    assert sum(each.steps for seeds in Layers().jobs(QUICK).values() for each in seeds) < 300


@pytest.mark.parametrize("kind", get_args(NetworkKind))
def test_a_row_is_what_training_gives(kind: NetworkKind) -> None:
    jobs = [small(kind=kind, seed=seed, steps=45) for seed in (3, 4)]
    rows = measure(jobs)
    for row, seed in zip(rows, (3, 4), strict=True):
        data, draws = sequences("digits, levels"), generator(seed, "batches")
        learner = Learner(data.network(kind, 8, 6, generator(seed, "weights")), 0.01)
        losses = [learner.step(data.batch(4, draws)).item() for _ in range(45)]
        with torch.no_grad():
            answers = learner.network(data.test.inputs).argmax(dim=1)
        assert row["result"]["test"] == (answers == data.test.targets).double().mean()
        assert row["result"]["validation"] == data.score(learner.network, data.validation)
        assert row["curve"]["loss"] == pytest.approx(
            [sum(losses[start : start + 3]) / 3 for start in range(0, 45, 3)], rel=1e-3
        )
        assert 0 < row["training_seconds"] <= row["seconds"]
        json.dumps(row)
    assert rows[0]["result"] != rows[1]["result"]


def test_a_network_that_diverges_is_a_row() -> None:
    (row,) = measure([small(kind="GRU", lr=1e38)])
    assert row["diverged"] == "a loss was not finite"
    assert "result" not in row


def row(data: str, validation: float, test: float) -> dict[str, Any]:
    return {"job": {"data": data}, "result": {"validation": validation, "test": test}}


def test_the_learning_rate_is_that_of_the_better_mean_on_validation() -> None:
    """Whatever test says; fewer bits are better, and a seed that diverged has the worst score."""
    low, high = map(str, RATES["sentences"])
    digits, text = ("digits, levels", "ours"), ("sentences", "ours")
    lost = {"job": {"data": "sentences"}, "diverged": "a loss was not finite"}
    rows: dict[Any, list[dict[str, Any]]] = {
        (*digits, low): [row(digits[0], 0.5, 0.875), row(digits[0], 0.75, 1.0)],
        (*digits, high): [row(digits[0], 1.0, 0.5), row(digits[0], 0.5, 0.25)],
        (*text, low): [row("sentences", 2.5, 2.0), row("sentences", 2.0, 4.0)],
        (*text, high): [row("sentences", 1.0, 1.0), lost],
    }
    assert chosen(rows, *digits) == high
    assert chosen(rows, *text) == low
