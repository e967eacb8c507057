"""What the bench compares: everybody does the same work, and the work that they are said to do."""

from typing import Any

import pytest
import torch
from torch import Tensor

from csprop.ops.backends import backend
from csprop.tasks import get
from csprop.training import loop
from csprop.training.config import RunConfig, configure
from csprop.training.seeding import generator
from csprop_lab.bench import networks, scans, steps, streams, works
from csprop_lab.bench.measure import Pace
from csprop_lab.cli import bench
from csprop_lab.signals import sequences as data
from csprop_lab.study.layers import Layers
from csprop_lab.study.table import QUICK

SMALL = {"length": 6, "batch_size": 3, "width": 4, "clip_norm": 0.05}
CONFIGS = {
    "paper": configure("parity", "paper", depth=2, **SMALL),
    "rotor": configure("parity", "rotor", **SMALL),
    "router": configure("tomita-5", "router", short_first=2, **SMALL),
    "counter": configure("parenthesis", "counter", **SMALL),
}


def after(name: str, config: RunConfig, count: int, wide: bool = False) -> dict[str, Tensor]:
    """The parameters of somebody after some steps, in float32 or float64."""
    model = steps.network(name, config)
    model = model.double() if wide else model
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(steps, "network", lambda *_: model)
        step = steps.training_step(name, config)
    for _ in range(count):
        step()
    return {each: value.detach() for each, value in model.named_parameters()}


@pytest.mark.parametrize("preset", CONFIGS)
def test_a_step_is_that_of_training(preset: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """After as many steps as an epoch has, the weights are those that an epoch leaves, to the byte."""
    config = CONFIGS[preset]
    task = get(config.task["name"])
    monkeypatch.setattr(type(task), "samples", 10)
    model: Any = steps.network("csprop", config)
    rows = task.examples(10, config.recipe.length, generator(0, "data"))
    trainer = loop.Trainer(model, rows, rows, config.recipe, 0)
    trainer.epoch = config.recipe.short_first
    trainer.run_epoch()
    expected = {name: value.detach() for name, value in model.named_parameters()}
    torch.testing.assert_close(after("csprop", config, 4), expected, rtol=0, atol=0)


@pytest.mark.parametrize("preset", CONFIGS)
def test_all_ways_of_csprop_take_the_same_step(preset: str) -> None:
    """So torch's loop, which peers take too, has csprop's batches, loss, clipping and Adam."""
    for name in (steps.CALL, steps.OPERATORS, *steps.BACKENDS):
        count = 1 if name == steps.CALL else 3  # its batch is the first, again and again
        ours, theirs = (after(each, CONFIGS[preset], count, wide=True) for each in ("csprop", name))
        torch.testing.assert_close(theirs, ours)


def test_a_backend_is_the_one_that_its_name_says(monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[str] = []
    names = (steps.OPERATORS, *steps.BACKENDS)
    for name, model in {name: steps.network(name, CONFIGS["paper"]) for name in names}.items():
        model.register_forward_hook(lambda *_: used.append(backend()))
        monkeypatch.setattr(steps, "network", lambda *_, model=model: model)
        steps.training_step(name, CONFIGS["paper"])()
    assert used == [backend(), "torch", "reference"]


def test_a_model_that_diverges_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    model = steps.network("csprop", CONFIGS["paper"])
    with torch.no_grad():
        next(model.parameters()).fill_(float("nan"))
    monkeypatch.setattr(steps, "network", lambda *_: model)
    with pytest.raises(FloatingPointError, match="not taken"):
        steps.training_step("csprop", CONFIGS["paper"])()


def test_every_scan_gives_the_same_states_and_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    """But for mambapy's gradients, which are those of real numbers."""
    seen: dict[str, list[torch.Tensor]] = {}
    grad = torch.autograd.grad

    def remember(outputs: object, inputs: object, seeds: object) -> object:
        gradients = grad(outputs, inputs, seeds)  # pyright: ignore
        states = list(outputs) if isinstance(outputs, list) else [outputs]
        seen[name] = [*states, *gradients]  # pyright: ignore
        return gradients

    monkeypatch.setattr(torch.autograd, "grad", remember)
    copied: Any = None
    for name, work in scans.scans(2, 9, 3).items():
        made = work()
        copied = made if name == scans.COPY else copied
    h, g_a, g_u = seen["csprop"]
    torch.testing.assert_close(seen["torch backend"], [h, g_a, g_u])
    planes = [part for each in (h, g_a, g_u) for part in each.unbind(2)]
    torch.testing.assert_close(seen["torch associative_scan, eager"], planes)
    if "mambapy pscan" in seen:
        states = torch.view_as_real(seen["mambapy pscan"][0][..., 0])
        torch.testing.assert_close(states, h.movedim(2, 3))
    forward, backward = [h, h, h], [h, h, h, g_a, g_u]  # a, u, h; a, h, and the gradients of h, a, u
    assert 2 * copied.nbytes == sum(each.nbytes for each in forward + backward)


def test_streams_answer_as_the_models_do() -> None:
    tokens = torch.randint(2, (1, 9), generator=torch.Generator().manual_seed(0))
    config = steps.configure_printed(1, 16)
    want = {name: steps.network(name, config).eval()(tokens)[0] for name in ("csprop", "nn.LSTM")}
    want["onnxruntime's LSTM"] = want["nn.LSTM"]
    for name, step in streams.streams().items():
        for token, scores in zip(tokens[0].tolist(), want[name].detach(), strict=True):
            torch.testing.assert_close(torch.as_tensor(step(token)), scores)


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
        known = data.sequences(job.data)
        made = known.network(job.kind, job.features, job.width, generator(0, "weights"))
        (work, *_) = (work for work in found if work.startswith(job.data))
        assert work.endswith(f"batch {job.batch_size}")
        assert found[work][names[job.kind]].parameters == data.size_of(made)
    assert list(networks.parts(digits=False)) == list(found)[2:]


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
    monkeypatch.setattr(works, "QUICK", Pace(0.0, 1))
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
