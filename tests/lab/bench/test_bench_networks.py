"""The work `layer`: the networks of the study's table, which all take the study's steps."""

from typing import Any

import pytest
import torch

from csprop.training.seeding import generator
from csprop_lab.bench import networks, works
from csprop_lab.bench.measure import Pace
from csprop_lab.bench.summary import summary
from csprop_lab.cli import bench
from csprop_lab.signals import sequences as data
from csprop_lab.signals.sequences import sequences
from csprop_lab.study.layers import Layers
from csprop_lab.study.table import QUICK

TINY = Pace(0.0, 1)


def test_networks_are_those_of_the_study() -> None:
    """Each has the size that the table's jobs give it, and the batch."""
    found = networks.parts(digits=True)
    assert list(found) == [
        "digits, levels, T = 64, batch 32",
        "digits, numbers, T = 64, batch 32",
        "sentences, T = 128, batch 16",
        "sentences, T = 1,024, batch 1",
    ]
    names = {kind: name for name, kind in networks.NAMES.items()}
    for job, *_ in Layers().jobs(QUICK).values():
        known = sequences(job.data)
        made = known.network(job.kind, job.features, job.width, generator(0, "weights"))
        (work, *_) = (work for work in found if work.startswith(job.data))
        assert work.endswith(f"batch {job.batch_size}")
        assert found[work][names[job.kind]].parameters == data.size_of(made)
    assert list(networks.parts(digits=False)) == list(found)[2:]


@pytest.mark.parametrize("name", networks.NAMES)
def test_a_step_is_that_of_the_study(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """After two steps the weights are those that the study's loop leaves, to the byte."""
    monkeypatch.setattr(networks, "CHANNELS", dict.fromkeys(networks.CHANNELS, 6))
    monkeypatch.setattr(networks, "FEATURES", {"sentences": dict.fromkeys(networks.NAMES.values(), 8)})
    made: list[Any] = []

    class Kept(data.Learner):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            made.append(self.network)

    monkeypatch.setattr(networks, "Learner", Kept)
    text = data.text()
    step = networks.training_step("sentences", name, lambda draws: text.batch(2, draws, steps=9))
    kind = networks.NAMES[name]
    learner = data.Learner(text.network(kind, 8, 6, generator(0, "weights")), networks.RATE)
    draws = generator(0, "batches")
    for _ in range(2):
        step.step()
        learner.step(text.batch(2, draws, steps=9))
    (network,) = made
    for got, want in zip(network.parameters(), learner.weights, strict=True):
        assert torch.equal(got, want)


def test_the_work_has_a_part_for_each_data_set(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[bool] = []

    def parts(digits: bool) -> dict[str, dict[str, networks.Step]]:
        asked.append(digits)
        sizes = {"csprop": 1000, "nn.LSTM": 1010}
        steps = {name: networks.Step(lambda: None, size) for name, size in sizes.items()}
        return {"text": steps, "long text": steps}

    monkeypatch.setattr(works, "parts", parts)
    monkeypatch.setattr(works, "QUICK", TINY)
    result = works.measure_work("layer", quick=True)
    assert [part["work"] for part in result["parts"]] == ["text", "long text"]
    for part in result["parts"]:
        assert part["parameters"] == {"csprop": 1000, "nn.LSTM": 1010}
        assert part["seconds"].keys() == part["quartiles"].keys() == part["parameters"].keys()
    bench._show(result)
    shown = capsys.readouterr().out
    assert shown.count("1,010") == 2
    assert "long text" in shown
    monkeypatch.setattr(works, "find_spec", lambda name: None if name == "sklearn" else name)
    assert works.measure_work("layer", quick=True)["missing"] == ["scikit-learn"]
    assert asked == [True, False]


def test_the_readme_has_a_table_of_its_own_for_them() -> None:
    environment = dict.fromkeys(("cpu", "csprop", "torch", "python", "backend", "allocator"), "x")
    part = {
        "work": "sentences, T = 128, batch 16",
        "seconds": {"csprop": 2e-3, "nn.LSTM": 5e-3, "nn.GRU": 8e-3},
        "quartiles": {"csprop": [1e-3, 3e-3]},
        "parameters": {"csprop": 165116, "nn.LSTM": 164992, "nn.GRU": 164268},
    }
    work = {"work": "training step", "base": "csprop", "missing": [], "parts": [part]}
    text = summary({"environment": environment, "quick": False, "results": [work]})
    assert "| training step | csprop | nn.LSTM | nn.GRU | parameters |" in text
    line = (
        "| sentences, T = 128, batch 16 | 2.00 ms (1.00–3.00 ms) | 2.50 × | 4.00 × | 164,268 to 165,116"
    )
    assert f"{line} |" in text
