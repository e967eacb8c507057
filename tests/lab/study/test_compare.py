"""Layers are compared alike: with the same effort, chosen by held-out sequences alone, rows kept."""

import json
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, cast

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import csprop_lab
from csprop.cli.main import main
from csprop.errors import InputError
from csprop.training.scores import Score
from csprop_lab import layers as peers
from csprop_lab.layers import PEERS
from csprop_lab.study import measure as measuring
from csprop_lab.study.compare import Cell, cells, cost, fill, remaining
from csprop_lab.study.compared import Comparison, at_longest, by_length, cell_text, proven
from csprop_lab.study.measure import measure
from csprop_lab.study.own_layer import register
from csprop_lab.study.protocols import CSPROP, PROTOCOLS, Effort
from csprop_lab.study.published import SOURCES, show_published
from csprop_lab.study.results import Results

TINY = Effort(seeds=2, rates=(0.001, 0.003), epochs=2, samples=100, width=8, depth=1, longest=64)


class Mean(nn.Module):
    """The mean of all features so far."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(x.cumsum(1) / torch.arange(1, x.shape[1] + 1)[:, None])


def hook(change: Callable[[Any, Tensor, Tensor], Any]) -> Callable[[int], Mean]:
    """Return a factory of `Mean` whose output is a function of the layer, its input and its output."""

    def factory(width: int) -> Mean:
        layer = Mean(width)
        layer.register_forward_hook(lambda module, inputs, y: change(module, inputs[0], cast(Any, y)))
        return layer

    return factory


def other_mean(width: int) -> Mean:
    """The same with other numbers in training alone, which its source shows."""
    layer = Mean(width)
    layer.register_forward_hook(lambda module, inputs, y: cast(Any, y) * 2 if module.training else y)
    return layer


def here(work: Any) -> Any:
    for table, jobs in work:
        yield table, measure(jobs)


def run_all(folder: Path, asked: Sequence[Cell]) -> Results:
    results = Results(folder)
    fill(results, asked, here, lambda table, rows: None)
    return results


def compare(out: Path, *layers: Any, **options: Any) -> Comparison:
    said = {"quick": True, "out": out, "say": lambda line: None}
    return csprop_lab.compare(*layers, **said | options)


def test_the_rate_is_chosen_by_held_out_accuracy_and_never_by_longer_sequences() -> None:
    cell = Cell(PROTOCOLS["paper"], "parity", "lstm", TINY)
    slow, fast = cell.first

    def row(accuracy: float, far: float, loss: float) -> dict[str, Any]:
        return {"result": {"accuracy": accuracy}, "lengths": {"64": far}, "curve": {"loss": [loss]}}

    rows = {slow.key: row(0.8, 1.0, 0.1), fast.key: row(0.9, 0.0, 0.2)}
    assert cell.rate(rows) == 0.003
    rows[slow.key] = row(0.9, 0.0, 0.1)  # as accurate, with less loss
    assert cell.rate(rows) == 0.001
    rows[slow.key] = {"diverged": "the loss was not finite"}
    assert cell.rate(rows) == 0.003


def test_rows_are_run_once_and_an_interrupted_comparison_goes_on(tmp_path: Path) -> None:
    asked, longer = (
        cells([PROTOCOLS["paper"]], ["rnn"], effort, ["parity"])
        for effort in (TINY, replace(TINY, epochs=200))
    )
    results = Results(tmp_path)
    assert remaining(results, asked) == 3  # two rates, and another seed
    assert 0 < cost(results, asked) < cost(results, longer)

    def stop(work: Any) -> Any:
        yield from list(here(work))[:1]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fill(results, asked, stop, lambda table, rows: None)
    assert remaining(Results(tmp_path), asked) == 2
    results, ran = Results(tmp_path), []
    fill(results, asked, here, lambda table, rows: ran.extend(rows))
    assert len(ran) == 2
    assert remaining(Results(tmp_path), asked) == cost(results, asked) == 0
    fill(Results(tmp_path), asked, here, lambda table, rows: pytest.fail("a row was run again"))
    seeds = asked[0].rows(results.rows)
    assert [row["job"]["seed"] for row in seeds] == [0, 1]
    assert len({row["job"]["recipe"]["lr"] for row in seeds}) == 1


def test_a_layer_of_ones_own_is_compared_by_ten_lines(tmp_path: Path) -> None:
    said: list[str] = []
    options: dict[str, Any] = {"models": ["rnn"], "tasks": ["parity"]}
    comparison = compare(tmp_path, Mean, **options, say=said.append)
    assert comparison.models == ["rnn", "Mean"]
    (row,) = comparison["paper", "parity", "Mean"]
    assert row["job"]["model"]["layer"] == "Mean"
    assert 0 <= at_longest(row) <= 1
    assert "2 to run" in said[0]
    compare(tmp_path, Mean, **options, say=lambda line: pytest.fail("nothing was left to run"))
    for name in ("COMPARE.md", "heat-map.png", "lengths.png", "paper.json"):
        assert (tmp_path / name).stat().st_size
    text = (tmp_path / "COMPARE.md").read_text()
    assert "| Mean |" in text
    assert "Published" not in text  # nobody has published anything of these on these tasks


def test_a_changed_layer_of_the_same_name_is_trained_again() -> None:
    factories = (Mean, hook(lambda m, x, y: y / 2), other_mean)
    assert len({register("own", factory, TINY) for factory in factories}) == 3
    assert register("own", Mean, TINY) == register("own", Mean, TINY)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"models": ["lstn"]}, "there is no layer 'lstn': choose from lstm, or MODULE:CLASS"),
        ({"models": ["nowhere:Layer"]}, "nowhere:Layer: 'nowhere' cannot be imported: ModuleNotFound"),
        ({"models": ["torch.nn:Linear"]}, "Linear: cannot be made from a width alone: TypeError"),
        ({"models": []}, "there is nothing to compare"),
        ({"models": "rnn", "tasks": "chess"}, "there is no task 'chess' in paper"),
        ({"factory": Mean(8)}, "give a class, not a layer"),
        ({"factory": Mean, "name": "a|b"}, "name='a|b': write up to 60 letters"),
        ({"models": ["torch.nn:Nothing"]}, "torch.nn:Nothing: the module 'torch.nn' has no 'Nothing'"),
        ({"protocol": "chess"}, "there is no protocol 'chess': choose from paper"),
        ({"seeds": 0}, "seeds=0: write 1 to 1000"),
        ({"factory": Mean, "name": "lstm"}, "is the name of another layer"),
    ],
)
def test_mistakes_are_told_in_one_sentence(
    options: dict[str, Any], complaint: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=complaint):
        compare(
            tmp_path, options.get("factory"), **{k: v for k, v in options.items() if k != "factory"}
        )
    assert not list(tmp_path.glob("*.json"))


def sleeping(width: int) -> Mean:
    """Gives 0 until it has learned something, and then looks ahead."""
    layer = hook(lambda m, x, y: m.out(x.mean(1, keepdim=True).expand_as(x)))(width)
    nn.init.zeros_(layer.out.weight)
    nn.init.zeros_(layer.out.bias)
    return layer


def bidirectional(width: int) -> Mean:
    """Reads from both ends, behind a norm."""
    layer = hook(lambda m, x, y: m.cells(F.layer_norm(x, x.shape[2:]))[0])(width)
    layer.cells = nn.GRU(width, width // 2, batch_first=True, bidirectional=True)
    return layer


SAME = Mean(8)
AHEAD = "a step depends on later ones"


@pytest.mark.parametrize(
    ("factory", "complaint"),
    [
        (
            hook(lambda m, x, y: torch.cat([y, y], dim=2)),
            r"gives .* \(2, 9, 16\) for .* \(2, 9, 8\): give the same alone",
        ),
        (hook(lambda m, x, y: x.mean(1, keepdim=True).expand_as(x)), AHEAD),
        (sleeping, AHEAD),
        (bidirectional, AHEAD),
        (hook(lambda m, x, y: y + x[:, -1:] if x.shape[1] > 50 else y), AHEAD),
        (hook(lambda m, x, y: y + x.mean(0)), "sequences of a batch depend on each other"),
        (hook(lambda m, x, y: y * torch.rand(())), "gives something else if it is called again"),
        (hook(lambda m, x, y: y / 0), "gives numbers that are not finite"),
        (hook(lambda m, x, y: (y, x)), "gives a tuple for"),
        (hook(lambda m, x, y: y.double()), "gives torch.float64"),
        (hook(lambda m, x, y: y @ y), r"fails on features \(2, 9, 8\): RuntimeError"),
        (lambda width: 3, "makes a value of type int of a width: make an nn.Module"),
        (lambda width: SAME, "gives the same layer again"),
    ],
)
def test_what_is_not_a_layer_is_refused_before_anything_is_trained(
    factory: Any, complaint: str
) -> None:
    with pytest.raises(InputError, match=complaint):
        register("yours", factory, TINY)


def test_files_are_learned_from_by_layers_and_by_csprop(tmp_path: Path) -> None:
    asked = cells([PROTOCOLS["files"]], [CSPROP, "rnn"], replace(TINY, seeds=1), ["tomita-4"])
    results = run_all(tmp_path, asked)
    (own,), (layer,) = (cell.rows(results.rows) for cell in asked)
    assert proven([own]) == 1
    assert at_longest(own) == 1
    assert cell_text([own]).endswith("right machine 1 of 1")
    assert layer["result"]["commonest"]["share"] > 0.5
    assert 0 < at_longest(layer) <= 1
    assert proven([layer]) == 0


def test_files_alone_have_no_curves(tmp_path: Path) -> None:
    compare(tmp_path, models=["rnn"], protocol="files", tasks=["door"])
    assert "door" in (tmp_path / "COMPARE.md").read_text()


OWN_LAYER = """
import torch
from torch import nn


class LSTM(nn.Module):  # a name that one of the methods on files has, too
    def __init__(self, width):
        super().__init__()
        self.temperature = nn.Parameter(torch.zeros(()))  # a name that routers of csprop have, too
        self.cells = nn.LSTM(width, width, batch_first=True)

    def forward(self, x):
        return self.cells(x)[0] * self.temperature.exp()
"""


@pytest.mark.slow
def test_a_layer_of_a_module_is_trained_in_worker_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "own_layer.py").write_text(OWN_LAYER)
    monkeypatch.chdir(tmp_path)
    arguments = ["compare", "--quick", "--models", "own_layer:LSTM", "--json", "--workers", "2"]
    arguments += ["--protocol", "paper,files", "--out", "out"]
    assert main(arguments) == 0
    found = json.loads(capsys.readouterr().out)["cells"]
    assert [cell["model"] for cell in found] == ["own_layer:LSTM"] * 2
    assert main(arguments) == 0
    assert "to run" not in capsys.readouterr().err
    (tmp_path / "own_layer.py").write_text(OWN_LAYER.replace(".exp()", ".cosh()"))
    monkeypatch.delitem(sys.modules, "own_layer")
    monkeypatch.setattr(peers, "OWN", {})
    assert main(arguments) == 0
    assert "2 to run" in capsys.readouterr().err, "a changed layer is trained again"


def test_a_length_that_was_not_followed_counts_as_the_last_that_was() -> None:
    job = {"test_lengths": [8, 64, 1024]}
    lengths = [{"8": 0.5}, {"8": 1.0, "64": 1.0, "1024": 0.9}]
    rows = [{"job": job, "lengths": each} for each in lengths]
    assert by_length(rows) == {8: 0.75, 64: 0.75, 1024: pytest.approx(0.7)}


def test_a_layer_that_fails_does_not_keep_others_from_the_page(tmp_path: Path) -> None:
    def long(module: Any, x: Tensor, y: Tensor) -> Tensor:
        if x.shape[1] > 200:
            raise RuntimeError("too long")
        return y

    with pytest.raises(RuntimeError, match="too long") as failure:
        compare(tmp_path, hook(long), name="short", models=["rnn"], tasks=["parity"])
    assert failure.value.__notes__ == ["This happened to short on parity, seed 0."]
    text = (tmp_path / "COMPARE.md").read_text()
    assert re.search(r"^\| rnn \| \d", text, re.MULTILINE)
    assert re.search(r"^\| short \| – \|$", text, re.MULTILINE)


FLIP_FLOP = "flip-flop-language"


@pytest.mark.parametrize(
    ("protocol", "task", "asked"),
    [
        ("pairs", "group-S3xS3-all", [("group-S3xS3-all", 8)]),  # half right: not followed further
        ("paper", "parity", [("parity", 16), ("parity", 64)]),
        ("flip-flops", FLIP_FLOP, [(f"{FLIP_FLOP}{name}", 65) for name in ("", "-98", "-10")]),
    ],
)
def test_a_layer_is_tested_where_its_protocol_says(
    protocol: str, task: str, asked: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[tuple[str, int]] = []

    def half_right(model: Any, task: Any, length: int, *others: Any, **options: Any) -> Score:
        found.append((task.name, length))
        return Score(accuracy=0.5, f1=0.5, wrong=1, count=2, loss=1.0)

    monkeypatch.setattr(measuring, "at_length", half_right)
    measure(Cell(PROTOCOLS[protocol], task, "rnn", TINY).first[:1])
    assert found == asked


@pytest.mark.parametrize(("right", "counted"), [(3, "0 of 1"), (4, "1 of 1")])
def test_a_task_is_proven_if_four_in_five_seeds_are(right: int, counted: str, tmp_path: Path) -> None:
    (cell,) = cells([PROTOCOLS["paper"]], [CSPROP], replace(TINY, seeds=5), ["parity"])
    results = Results(tmp_path)
    for seed, job in enumerate(cell.first):
        results.rows[job.key] = {
            "key": job.key,
            "job": asdict(job),
            "result": {"accuracy": 0.9, "epochs": 1, "parameters": 1},
            "lengths": {"64": 0.9},
            "locked": {"proven": seed < right, "lengths": {"64": 0.9}, "seconds": 0.0},
        }
    line = Comparison(results, [cell]).summary().splitlines()[-1]
    assert line.endswith(f"| 0 of 1 | 0 of 1 | {counted} | this package |")


def test_published_numbers_are_of_known_layers_and_tasks() -> None:
    for source in SOURCES:
        assert set(source.tasks) <= set(PROTOCOLS[source.protocol].tasks)
        for name, numbers in source.numbers.items():
            assert name.partition(" (")[0] in PEERS
            assert len(numbers) == len(source.tasks)
    assert "ICLR 2025" in show_published(PROTOCOLS["chomsky"], ["mamba"])
    assert show_published(PROTOCOLS["paper"], list(PEERS)) == ""


@pytest.mark.slow
def test_the_command_lists_runs_and_shows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "--list"]) == 0
    listed = capsys.readouterr().out
    assert all(name in listed for name in (*PEERS, *PROTOCOLS))
    assert max(map(len, listed.splitlines())) <= 80
    command = f"compare --quick --models csprop,rnn --protocol paper --workers 1 --out {tmp_path}"
    assert main([*command.split(), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [cell["model"] for cell in document["cells"]] == ["csprop", "rnn"]
    assert document["cells"][0]["proven"] == 1
    assert main(command.split()) == 0
    shown = capsys.readouterr().out
    assert "proven 1/1" in shown
    lines = [line.replace(str(tmp_path), "out") for line in shown.splitlines()]
    assert max(map(len, lines)) <= 80
