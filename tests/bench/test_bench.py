"""What the bench measures, at sizes too small to measure anything."""

import json
from pathlib import Path

import pytest
import torch

from csprop.bench import peers, works
from csprop.bench.measure import interleaved, peak_bytes
from csprop.cli.main import main
from csprop.ops.backends import backend


@pytest.mark.parametrize("name", peers.MODELS)
def test_a_step_moves_every_parameter_of_a_peer(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the backend that its name says."""
    model, used = peers.MODELS[name](), []
    model.register_forward_hook(lambda *_: used.append(backend()))
    monkeypatch.setitem(peers.MODELS, name, lambda: model)
    before = {each: value.detach().clone() for each, value in model.named_parameters()}
    step = peers.training_step(name, batch=2, steps=5)
    step()
    step()
    assert used == [peers.BACKENDS.get(name, backend())] * 2
    still = [each for each, value in model.named_parameters() if torch.equal(before[each], value)]
    assert still == []
    assert all(bool(value.isfinite().all()) for value in model.parameters())


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
    for name, work in peers.scans(2, 9, 3).items():  # noqa: B007
        work()
    h, g_a, g_u = seen["csprop"]
    for got, want in zip(seen["torch backend"], (h, g_a, g_u), strict=True):
        torch.testing.assert_close(got, want)
    planes = [part for each in (h, g_a, g_u) for part in each.unbind(2)]
    for got, want in zip(seen["torch associative_scan, eager"], planes, strict=True):
        torch.testing.assert_close(got, want)
    if "mambapy pscan" in seen:
        torch.testing.assert_close(
            torch.view_as_real(seen["mambapy pscan"][0][..., 0]), h.movedim(2, 3)
        )


def test_aims_are_reached_or_not() -> None:
    medians = {"csprop": 1.0, "slow": 4.0, "floor": 0.5}
    asked: list[works.Aim] = [("slow", "faster", 4), ("slow", "faster", 5), ("floor", "slower", 2)]
    asked += [("floor", "slower", 1.9), ("absent", "faster", 2)]
    result = works._result("work", medians, asked)
    assert [aim["met"] for aim in result["aims"]] == [True, False, True, False, None]
    assert [aim["times"] for aim in result["aims"]] == [4, 4, 2, 2, None]


def test_medians_of_rounds_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    now, costs = 0.0, {"a": [1.0, 1.0, 9.0, 1.0, 2.0], "b": [3.0]}

    def work(name: str) -> None:
        nonlocal now
        now += costs[name][order.count(name) % len(costs[name])]
        order.append(name)

    monkeypatch.setattr("time.perf_counter", lambda: now)
    medians = interleaved({name: lambda name=name: work(name) for name in "ab"}, 0.0)
    assert order == list("aabb" + 3 * "ab"), "a first look at each, then three rounds in turn"
    assert medians == {"a": 2.0, "b": 3.0}, "a takes 9, 1 and 2 in them"


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system does not tell")
def test_memory_grows_with_the_length() -> None:
    short, long = (peak_bytes("csprop", 1, steps) for steps in (1 << 13, 1 << 15))
    activation = (1 << 15) * 2 * peers.WIDTH * 4
    assert short is not None
    assert long is not None
    assert long > 3 * activation  # the states of three layers
    assert long > 2 * short


def test_the_verb_prints_one_document(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    result = works._result("a work", {"csprop": 1e-3, "peer": 2e-3}, [("peer", "faster", 3)])
    monkeypatch.setattr(works, "all_works", lambda quick: iter([result]))
    assert main(["bench", "--quick", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["results"] == [result]
    assert main(["bench"]) == 0
    shown = capsys.readouterr().out
    assert "MISSED   2.00 x faster than peer; aim: at least 3 x" in shown
    assert "2.00 ms" in shown
