"""What the bench measures, at sizes too small to measure anything."""

import json
from itertools import pairwise

import pytest
import torch

from csprop.bench import peers, works
from csprop.bench.measure import interleaved, peak_bytes
from csprop.cli.main import main


@pytest.mark.parametrize("name", peers.MODELS)
def test_every_peer_trains(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step moves every parameter, and the next ones on from there."""
    made = peers.MODELS[name]()
    monkeypatch.setitem(peers.MODELS, name, lambda: made)
    step, seen = peers.training_step(name, batch=2, steps=5), []
    for _ in range(3):
        seen.append([parameter.detach().clone() for parameter in made.parameters()])
        step()
    for before, after in pairwise(seen):
        assert not any(torch.equal(x, y) for x, y in zip(before, after, strict=True))


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


def test_medians_of_rounds_in_turn() -> None:
    order: list[str] = []
    medians = interleaved({name: lambda name=name: order.append(name) for name in "ab"}, 0.0)
    assert medians.keys() == {"a", "b"}
    assert order.index("b") < len(order) - 1 - order[::-1].index("a")


def test_memory_grows_with_the_length() -> None:
    peak = peak_bytes("csprop", 1, 1 << 14)
    activation = (1 << 14) * 2 * peers.WIDTH * 4
    assert peak is None or peak > 3 * activation  # the states of three layers


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
