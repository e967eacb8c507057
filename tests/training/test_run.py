"""Runs: what is written, what is read again, and what is refused."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save

import csprop
from csprop import files, use_backend
from csprop.errors import Diverged, InputError
from csprop.ops import native
from csprop.training import workers
from csprop.training.checkpoint import RunFolder
from csprop.training.config import configure, identity
from tests.helpers.spoilt import spoil
from tests.helpers.zoo import unpack

TINY: dict[str, Any] = {"length": 6, "samples": 60, "width": 4, "depth": 1, "epochs": 6, "hold": 0}


def tiny(out: Path | None = None, **changes: Any) -> csprop.Run:
    return csprop.train("parity", out=out, as_trained=True, **(TINY | changes))


def test_a_run_directory_has_what_the_design_names_and_gives_it_back(tmp_path: Path) -> None:
    run, path = tiny(tmp_path / "r"), tmp_path / "r"
    assert {each.name for each in path.iterdir()} == {
        *("config.json", "metrics.jsonl", "model.safetensors", "last", "result.json", "manifest.json"),
        files.LOCK,
    }
    config = json.loads((path / "config.json").read_text())
    assert (config["format"], config["seed"], config["preset"]) == (1, 0, "rotor")
    assert (config["model"]["width"], config["recipe"]["epochs"]) == (4, 6)
    assert config["environment"].keys() >= {"csprop", "python", "torch", "threads", "backend", "cpu"}
    assert run.result is not None
    assert run.result.exhaustive is not None
    assert run.result.exhaustive.count == 64
    again, in_memory = csprop.load(path), tiny()
    assert (again.config, again.result, again.metrics) == (run.config, run.result, run.metrics)
    assert again.task.name == "parity"
    assert [len(each.metrics) for each in (again, in_memory)] == [6, 6]
    for other in (again, in_memory):
        weights = other.model.state_dict()
        assert all(torch.equal(weights[name], each) for name, each in run.model.state_dict().items())


# Files.


def test_only_a_regular_file_is_replaced(tmp_path: Path) -> None:
    """As a rename over /dev/null would remove it; a link is followed, and permissions stay."""
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(OSError, match="not a regular file"):
        files.replace(tmp_path / "fifo", b"content")
    assert (tmp_path / "fifo").is_fifo()
    (tmp_path / "link").symlink_to(tmp_path / "target")
    (tmp_path / "target").touch(0o640)
    (tmp_path / "new").touch()
    files.replace(tmp_path / "link", b"content")
    files.replace(tmp_path / "b", b"2")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_bytes() == b"content"
    assert (tmp_path / "target").stat().st_mode & 0o777 == 0o640
    assert (tmp_path / "b").stat().st_mode == (tmp_path / "new").stat().st_mode


def test_a_file_is_synced_before_it_is_renamed_and_its_folder_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []
    real = {name: getattr(os, name) for name in ("fsync", "replace")}

    def fsync(descriptor: int) -> None:
        calls.append(("fsync", Path(os.readlink(f"/proc/self/fd/{descriptor}")).name))
        real["fsync"](descriptor)

    def replace(source: Path, target: Path) -> None:
        calls.append(("replace", Path(source).name))
        real["replace"](source, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "replace", replace)
    files.replace(tmp_path / "a", b"content")
    (_, synced), (_, renamed), last = calls
    assert [call for call, _ in calls] == ["fsync", "replace", "fsync"]
    assert synced == renamed != ".a.tmp"
    assert last == ("fsync", tmp_path.name)
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_sweep_takes_nothing_but_its_own(tmp_path: Path) -> None:
    for name in (".a.json.0123456789abcdef.tmp", ".mine.tmp", "a.json"):
        (tmp_path / name).touch()
    files.sweep(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {".mine.tmp", "a.json"}


def test_two_processes_cannot_train_into_one_folder(tmp_path: Path) -> None:
    busy = pytest.raises(InputError, match="another process is writing here")
    with files.one_writer(tmp_path / "r"), busy:
        tiny(tmp_path / "r", epochs=1)
    tiny(tmp_path / "r", epochs=1)


def test_nothing_is_asked_of_a_c_library_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """On Windows, ctypes.CDLL(None) is a TypeError."""

    def none(name: str | None) -> None:
        raise TypeError("argument of type 'NoneType' is not iterable")

    monkeypatch.setattr("ctypes.CDLL", none)
    assert not workers.keep_freed_memory()
    monkeypatch.setattr("signal.signal", lambda *_: None)
    workers._become_worker()


@pytest.mark.parametrize("way", ["torch"] if native.WHY_NOT else ["torch", "native"])
def test_divergence_stops_with_a_saved_diagnosis(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    spoil(monkeypatch)
    with use_backend(way), pytest.raises(Diverged):
        tiny(tmp_path / "r")
    diagnosis = json.loads((tmp_path / "r" / "diagnosis.json").read_text())
    assert (diagnosis["epoch"], diagnosis["step"]) == (1, 0)
    assert "the loss is nan" in diagnosis["found"]
    assert diagnosis["parameters"].keys() >= {"embedding", "blocks.0.gate.weight"}


# Runs that are damaged.


@pytest.mark.parametrize("how", ["delete", "cut", "flip"])
@pytest.mark.parametrize("name", ["config.json", "manifest.json", "model.safetensors", "metrics.jsonl"])
def test_a_damaged_run_is_refused_by_name(tmp_path: Path, name: str, how: str) -> None:
    file = unpack("parity", tmp_path) / name
    content = bytearray(file.read_bytes())
    content[-3] ^= 1
    file.write_bytes(content if how == "flip" else content[: len(content) // 2])
    if how == "delete":
        file.unlink()
    with pytest.raises(InputError) as caught:
        csprop.load(tmp_path / "parity")
    assert str(tmp_path / "parity") in str(caught.value)
    assert "\n" not in str(caught.value)


def test_weights_that_are_not_finite_are_refused(tmp_path: Path) -> None:
    path = unpack("parity", tmp_path)
    weights = load_file(path / "model.safetensors")
    weights["embedding"].fill_(float("nan"))
    RunFolder(path).write("model.safetensors", save(weights))
    with pytest.raises(InputError, match="has weights that are not finite"):
        csprop.load(path)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            lambda c: c.update(format=2),
            "has format 2, but this csprop reads up to 1: install a newer csprop",
        ),
        (lambda c: c["model"].update(widht=3), "config.json: 'widht' is not an option of a model"),
        (lambda c: c["recipe"].update(rl=3), "config.json: 'rl' is not an option of Recipe"),
        (lambda c: c.pop("seed"), "config.json: 'seed' is missing"),
        (lambda c: c["environment"].update(threads=0), "0 is malformed"),
        (lambda c: c.update(task=[1]), "config.json: .* malformed"),
        (lambda c: c["model"].pop("cells"), "config.json: a model needs `cells`"),
        (lambda c: c["model"].update(num_classes=3), "config.json: .* does not fit the task"),
        (lambda c: c["model"].update(width=5), "does not fit config.json; the run is damaged"),
        (lambda c: c["task"].update(name="nought"), "config.json: there is no task 'nought'"),
    ],
)
def test_a_strange_config_is_refused(tmp_path: Path, change: Any, sentence: str) -> None:
    """Changed by a person who also mends the manifest."""
    path = unpack("parity", tmp_path)
    config = json.loads((path / "config.json").read_text())
    change(config)
    RunFolder(path).write_json("config.json", config)
    with pytest.raises(InputError, match=sentence):
        csprop.load(path)


def test_a_directory_that_is_not_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"is not a run: there is no config.json in it$"):
        csprop.load(tmp_path / "nowhere")
    path = unpack("parity", tmp_path)
    with pytest.raises(InputError, match=r"is not a run: .*; choose one of the runs in it"):
        csprop.load(tmp_path)
    with pytest.raises(InputError, match=rf"is not a run: .*: did you mean {path}\?"):
        csprop.load(tmp_path / "partiy")


# Options.


def test_a_whole_number_is_the_same_option_as_a_float(tmp_path: Path) -> None:
    for one, other in ((1, 1.0), (0, 0.0)):
        configs = [configure("parity", target=each, weight_decay=each) for each in (one, other)]
        assert identity(configs[0]) == identity(configs[1])
        assert json.dumps(configs[0].to_json()) == json.dumps(configs[1].to_json())
    tiny(tmp_path / "r", epochs=1, target=1)
    assert len(tiny(tmp_path / "r", epochs=2, target=1.0, resume=True).metrics) == 2


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"widht": 3}, r"'widht' is not an option: did you mean width\?"),
        ({"decay": "exp"}, "decay is an option of the cell paper; the preset rotor has rotor"),
        ({"preset": "best"}, "no preset 'best': choose from rotor, router, counter, tracker, paper"),
        ({"lr": 0}, r"lr=0\.0: write a number above 0"),
        ({"lr": 10**400}, "lr=1000.*: does not fit: write a number"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        csprop.train("parity", **options)


def test_no_seeds_are_refused() -> None:
    with pytest.raises(InputError, match=r"seeds=\[\]: give at least one"):
        csprop.train_seeds("parity", [])


def test_the_paper_keeps_focal_loss_for_parenthesis(tmp_path: Path) -> None:
    assert configure("parenthesis", "paper").recipe.loss == "focal"
    assert configure("parity", "paper").recipe.loss == "cross_entropy"
    paper = configure("mod3", "paper")
    assert (paper.model.width, paper.model.depth, paper.recipe.epochs) == (64, 3, 300)
    assert (paper.recipe.lr, paper.recipe.batch_size, paper.recipe.clip_norm) == (1e-3, 64, 1.0)
    assert (paper.recipe.split, paper.recipe.clip_from_epoch) == ("paper", 0)
    (tmp_path / "parenthesis.csv").write_text("ab,1\nba,0\naa,0\nbb,1\n")  # a file is not the task
    assert configure(tmp_path / "parenthesis.csv", "paper").recipe.loss == "cross_entropy"


# Files of rows.


def test_drawn_lengths_never_leave_a_batch_without_labels(tmp_path: Path) -> None:
    rows = [{"sequence": "ab" * n, "label": n % 2} for n in range(1, 12)]
    rows.append({"sequence": "bbb", "label": [0, 1, 0]})
    (tmp_path / "d.jsonl").write_text("\n".join(map(json.dumps, rows)))
    run = csprop.train(tmp_path / "d.jsonl", lengths="drawn", supervise="last", epochs=5)
    assert run.config.recipe.batch_size == 1
    assert len(run.metrics) == 5
