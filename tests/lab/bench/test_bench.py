"""How the bench measures and what it prints, at sizes too small to measure anything."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from csprop.cli.main import load_command, main, parse
from csprop_lab.bench import commands, measure, steps, works
from csprop_lab.bench.measure import Pace, figures, measure_in_turn, peak_bytes
from csprop_lab.bench.summary import summary

TINY = Pace(0.0, 1)
ENVIRONMENT = {
    "cpu": "a CPU", "csprop": "1", "torch": "2", "python": "3", "backend": "native", "threads": 1,
    "allocator": "one that keeps",
}  # fmt: skip


class Clock:
    """The time, which moves on only when a work says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("time.perf_counter", clock)
    return clock


def test_rounds_in_turn(clock: Clock) -> None:
    order: list[str] = []
    costs = {"a": [1.0, 1.0, 9.0, 2.0], "b": [3.0]}

    def work(name: str) -> None:
        clock.now += costs[name][order.count(name) % len(costs[name])]
        order.append(name)

    times = measure_in_turn({name: lambda name=name: work(name) for name in "ab"}, Pace(0.0, 3))
    assert order == list("ab" + 3 * "ab"), "a first look at each, then three rounds in turn"
    assert times == {"a": [1.0, 9.0, 2.0], "b": [3.0] * 3}


def test_a_fast_work_is_repeated_within_a_round(clock: Clock) -> None:
    def work() -> None:
        clock.now += 1 / 256 if clock.now else 3 / 32  # the first time is slower

    (times,) = measure_in_turn({"a": work}, Pace(0.0, 1)).values()
    assert times == [1 / 256] * 5


def test_one_thread_and_one_allocator(monkeypatch: pytest.MonkeyPatch) -> None:
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        for kept in (False, True):
            monkeypatch.setattr(measure, "keep_freed_memory", lambda kept=kept: kept)
            assert ("keeps freed memory" in measure.settle()) == kept
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system does not tell")
def test_memory_grows_with_the_length_where_states_are_kept() -> None:
    """Those of an LSTM are; csprop computes them again, piece by piece."""
    activation = (1 << 15) * 2 * steps.configure_printed(1, 16).model.width * 4
    ours, short, long = (
        peak_bytes(name, 1, length) or 0
        for name, length in (("csprop", 1 << 15), ("nn.LSTM", 1 << 13), ("nn.LSTM", 1 << 15))
    )
    assert long > 3 * activation  # the states of three layers
    assert long > 2 * short > 0
    assert ours < activation


def test_rows_are_at_the_sizes_of_the_presets(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {}

    def step(name: str, config: Any) -> Any:
        asked[name] = config
        return lambda: None

    monkeypatch.setattr(steps, "training_step", step)
    sizes = {}
    for name in ("paper", "long", "wide", "rotor", "router", "counter"):
        asked.clear()
        result = works.WORKS[name](TINY)
        assert result["seconds"].keys() == result["parameters"].keys() == asked.keys()
        assert {"csprop", steps.CALL, steps.OPERATORS, "nn.LSTM"} <= asked.keys()
        model, recipe = asked["csprop"].model, asked["csprop"].recipe
        sizes[name] = (model.width, model.depth, recipe.batch_size, recipe.length, recipe.supervise)
    assert sizes == {
        "paper": (64, 3, 64, 16, "last"),
        "long": (64, 3, 8, 1024, "last"),
        "wide": (256, 3, 64, 16, "last"),
        "rotor": (32, 1, 64, 16, "every"),
        "router": (32, 1, 32, 16, "every"),
        "counter": (32, 2, 32, 16, "every"),
    }


def test_a_slow_model_stops_and_csprop_goes_on(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step of the LSTM takes 20 ms at T = 16, and four times as long at each next length."""
    asked: list[tuple[str, int]] = []

    def step(name: str, config: Any) -> Any:
        seconds = config.recipe.length * (0.02 / 16 if name == "nn.LSTM" else 1e-6)
        asked.append((name, config.recipe.length))
        return lambda: setattr(clock, "now", clock.now + seconds)

    monkeypatch.setattr("os.cpu_count", lambda: 2)
    monkeypatch.setattr(torch, "set_num_threads", lambda count: None)
    monkeypatch.setattr(steps, "training_step", step)
    found = works._lengths(works.QUICK)["microseconds"]
    assert [length for name, length in asked if name == "csprop"] == [16, 64, 256, 1024, 4096, 16384]
    assert [length for name, length in asked if name == "nn.LSTM"] == [16, 64]
    assert found["nn.LSTM"] == {"16": pytest.approx(1250), "64": pytest.approx(1250)}
    assert found["csprop, 2 threads"]["16384"] == pytest.approx(1)


def test_an_epoch_of_ten_seeds_is_divided_by_ten(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    trained: list[list[int]] = []

    def run_epochs(trainers: list[Any]) -> None:
        clock.now += len(trainers)
        trained.append([trainer.seed for trainer in trainers])

    monkeypatch.setattr(works, "run_epochs", run_epochs)
    assert works.WORKS["seeds"](TINY)["seconds"] == {"csprop": 1, "one alone": 1}
    assert trained == [list(range(10)), [10]] * 2


def test_every_input_is_scored_in_every_way(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    for name in ("exhaustive", "score"):
        way = getattr(works, name)
        monkeypatch.setattr(works, name, lambda *given, way=way: made.append(way(*given)))
    found = works.WORKS["inputs"](TINY)
    assert list(found["seconds"]) == ["csprop", "csprop, row by row", "csprop as a torch module"]
    assert {each.count for each in made} == {1 << 16}
    assert len({each.wrong for each in made}) == 1


def test_a_missing_package_is_said(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("mambapy", "onnx", "onnxruntime"):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setattr(works, "QUICK", TINY)
    for module in ("works", "streams"):
        monkeypatch.setattr(f"csprop_lab.bench.{module}.find_spec", lambda name: None)
    assert main(["bench", "--quick", "--only", "stream"]) == 0
    shown = capsys.readouterr().out
    assert "onnxruntime is not installed: pip install 'csprop-lab[bench]'" in shown
    assert "nn.LSTM" in shown
    packages = ("scikit-learn", "mambapy", "onnx", "onnxruntime")
    assert works.versions() == dict.fromkeys(packages)


def test_the_verb_prints_one_document(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def work(pace: Pace) -> works.Result:
        asked.append("quick" if pace is works.QUICK else "full")
        times = {"csprop": [1e-3, 1e-3, 3e-3, 3e-3, 2e-3], "peer": [4e-3]}
        return {"work": "a work", **figures(times), "parameters": {"csprop": 1285, "peer": 7}}

    monkeypatch.setattr(works, "WORKS", {"one": work, "memory": work, "two": work})
    assert main(["bench", "--quick", "--json"]) == 0
    printed = capsys.readouterr()
    assert printed.err.splitlines() == ["measured: a work"] * 2
    document = json.loads(printed.out)
    assert document["quick"]
    assert document["environment"]["threads"] == 1
    assert "allocator" in document["environment"]
    assert [result["name"] for result in document["results"]] == ["one", "two"], "memory is slow"
    assert document["results"][0]["seconds"] == {"csprop": 2e-3, "peer": 4e-3}
    assert main(["bench", "--only", "two"]) == 0
    assert asked == ["quick", "quick", "full"]
    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) <= 80
    assert "Allocator: " in shown
    for text in ("2.00 ms", "1.00–3.00 ms", "1,285", "4.00 ms", "one sample"):
        assert text in shown
    assert main(["bench", "--only", "two,three"]) == 2
    assert "there is no work 'three': choose from one, memory, two" in capsys.readouterr().err


def summarise(*results: dict[str, Any], quick: bool = False) -> str:
    filled = [{"base": "csprop", "missing": [], **result} for result in results]
    return summary({"environment": ENVIRONMENT, "quick": quick, "results": filled})


def test_growth_and_memory() -> None:
    by_length = {"csprop": {"16": 9.0, "1024": 4.0, "65536": 2.0}, "short": {"16": 18.0}}
    by_length |= {"nn.LSTM": {"16": 20.0, "1024": 30.0}, "csprop, 2 threads": {"65536": 1.0}}
    text = summarise(
        {"work": "growth", "microseconds": by_length},
        {"work": "memory", "activations": {"csprop": 2.0, "peer": 5.0}},
        {"work": "hardly any", "activations": {"csprop": 0.0, "nn.LSTM": 5.0}},
        {"work": "unknown to the system", "activations": {}},
    )
    growth = "4.00 µs a token at T = 1,024 and 2.00 at T = 65,536; at T = 1,024 nn.LSTM takes 7.50"
    assert growth in text
    assert "Memory: csprop 2.0, peer 5.0." in text
    assert "Hardly any: csprop less than 0.1, nn.LSTM 5.0." in text
    assert "nknown to the system" not in text
    assert "parameters" not in text
    assert "these numbers are not results" in summarise(quick=True)
    assert "these numbers are not results" not in text


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The commands that would have been run; a file that is read is there."""
    asked: list[list[str]] = []

    def remember(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        asked.append(command)
        assert all(Path(each).exists() for each in command if each.endswith(".jsonl"))
        return subprocess.CompletedProcess(command, 2 if "broken" in command else 0, "", "a reason")

    monkeypatch.setattr(subprocess, "run", remember)
    return asked


def test_each_command_takes_its_turn_in_a_folder_of_its_own(run: list[list[str]]) -> None:
    found = commands.times(2)
    assert {name: len(each) for name, each in found.items()} == dict.fromkeys(found, 2)
    assert next(iter(found)) == 'python -c "import torch"'
    first, second = run[: len(found)], run[len(found) :]
    assert [command[:3] for command in first] == [command[:3] for command in second]
    assert all(command[0] == sys.executable for command in run)
    folders = {Path(each).parent for command in run for each in command if each.endswith("/run")}
    assert len(folders) == 2
    assert not any(folder.exists() for folder in folders)


def test_a_user_could_type_them(run: list[list[str]]) -> None:
    commands.times(1)
    for command in run[2:]:
        verb, *arguments = command[3:]
        assert parse(verb, load_command(verb), arguments)
    typed = [name.split(",")[0].split()[1] for name in commands.COMMANDS]
    assert [command[3] for command in run[1:]] == typed


def test_a_command_that_fails_is_not_timed(
    run: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(commands.COMMANDS, "csprop broken", "broken")
    with pytest.raises(RuntimeError, match="broken: a reason"):
        commands.times(1)


def test_the_rows_of_a_command_are_right(tmp_path: Path) -> None:
    commands._write_rows(tmp_path / "rows.jsonl")
    rows = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    assert len(rows) == 300
    for row in rows:
        assert row["label"] == str(row["sequence"].split("r")[-1].count("1") % 3)
