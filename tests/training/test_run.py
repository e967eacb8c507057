"""Runs: what is written, what survives, what is refused."""

import contextlib
import errno
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save

import csprop
from csprop import files, use_backend
from csprop.errors import Diverged, InputError
from csprop.ops import native
from csprop.ops.backends import backend
from csprop.training import checkpoint, session, workers
from csprop.training.config import configure, identity
from tests.helpers.spoilt import spoil

# patience=1: the learning rate changes on the way, and must survive a resume.
TINY: dict[str, Any] = {"length": 6, "samples": 60, "width": 4, "depth": 1, "epochs": 6, "hold": 0}
TINY |= {"patience": 1}


def tiny(out: Path | None = None, **changes: Any) -> csprop.Run:
    return csprop.train("parity", out=out, **(TINY | changes))


def rows_without_clock(path: Path) -> list[dict[str, Any]]:
    rows = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in row.items() if key != "seconds"} for row in rows]


def same(left: Path, right: Path) -> None:
    """Both runs ended with the same weights and the same history."""
    assert (left / "model.safetensors").read_bytes() == (right / "model.safetensors").read_bytes()
    assert rows_without_clock(left) == rows_without_clock(right)
    states = [session.read_last(checkpoint.RunFolder(path)) for path in (left, right)]
    assert states[0][0].keys() == states[1][0].keys()
    assert all(torch.equal(value, states[1][0][name]) for name, value in states[0][0].items())
    for name in ("epoch", "held", "lr", "scheduler"):
        assert states[0][1][name] == states[1][1][name], name
    intact(left)


def intact(path: Path) -> None:
    for name, digest in json.loads((path / "manifest.json").read_text()).items():
        assert hashlib.sha256((path / name).read_bytes()).hexdigest() == digest, name


def test_a_run_directory_has_what_the_design_names(tmp_path: Path) -> None:
    run = tiny(tmp_path / "r")
    assert {path.name for path in (tmp_path / "r").iterdir()} == {
        *("config.json", "metrics.jsonl", "model.safetensors", "last", "result.json", "manifest.json"),
        files.LOCK,
    }
    intact(tmp_path / "r")
    config = json.loads((tmp_path / "r" / "config.json").read_text())
    assert (config["format"], config["seed"], config["preset"]) == (1, 0, "rotor")
    assert config["model"]["width"] == 4
    assert config["recipe"]["epochs"] == 6
    assert config["environment"].keys() >= {"csprop", "python", "torch", "threads", "backend", "cpu"}
    assert len(rows_without_clock(tmp_path / "r")) == 6
    assert run.result is not None
    assert run.result.exhaustive is not None
    assert run.result.exhaustive.count == 64


def test_load_gives_back_the_run(tmp_path: Path) -> None:
    run = tiny(tmp_path / "r")
    again = csprop.load(tmp_path / "r")
    tokens = run.task.sample(5, 9, torch.Generator().manual_seed(0))  # pyright: ignore
    assert torch.equal(again.model(tokens), run.model(tokens))
    assert (again.config, again.result, again.metrics) == (run.config, run.result, run.metrics)
    assert again.task.name == "parity"


def test_the_same_seed_gives_the_same_bytes_and_another_does_not(tmp_path: Path) -> None:
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        tiny(tmp_path / name, seed=seed)
    same(tmp_path / "a", tmp_path / "b")
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in "ac"]
    assert weights[0] != weights[1]


def test_training_in_memory_equals_training_into_a_folder(tmp_path: Path) -> None:
    runs = [tiny(out) for out in (None, tmp_path / "r")]
    assert [len(run.metrics) for run in runs] == [6, 6]
    weights = [run.model.state_dict() for run in runs]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


class Crash(BaseException):
    """Death at a system call: nothing after it runs."""


def test_a_crash_at_any_write_is_mended_by_resume(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every fsync and rename of a run is, in turn, the last thing that it did."""
    tiny(tmp_path / "whole", epochs=3)
    real = {name: getattr(os, name) for name in ("fsync", "replace")}
    calls = crash_at = 0

    def counted(name: str) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == crash_at:
                raise Crash
            return real[name](*args, **kwargs)

        return call

    for name in real:
        monkeypatch.setattr(os, name, counted(name))
    moments = 0
    while True:
        path, calls, crash_at = tmp_path / f"cut-{moments}", 0, moments + 1
        try:
            tiny(path, epochs=3)
            break  # no call left to crash at
        except Crash:
            crash_at = 0
        tiny(path, epochs=3, resume=True)
        same(path, tmp_path / "whole")
        shutil.rmtree(path)
        moments += 1
    assert moments > 30


KILLED = """
import os, sys, torch
torch.set_num_threads(1)
import csprop
out = sys.argv[1]
print("ready", flush=True)
for line in sys.stdin:
    child = os.fork()
    if child == 0:
        csprop.train("parity", out=out, resume=True, **{options})
        os._exit(0)
    print(child, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@pytest.mark.slow
def test_kill_9_at_random_moments_then_resume_gives_the_same_bytes(tmp_path: Path) -> None:
    options: dict[str, Any] = TINY | {"epochs": 30}
    started = time.perf_counter()
    csprop.train("parity", out=tmp_path / "whole", **options)
    duration = time.perf_counter() - started
    draw, kills, rounds = random.Random(0), 0, 0
    while kills < 24:
        path = tmp_path / f"killed-{rounds}"
        rounds += 1
        script = KILLED.replace("{options}", repr(options))
        with subprocess.Popen(
            [sys.executable, "-c", script, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as parent:
            assert parent.stdin is not None
            assert parent.stdout is not None
            assert parent.stdout.readline() == "ready\n"
            code = None
            while code != 0:
                parent.stdin.write("go\n")
                parent.stdin.flush()
                child = int(parent.stdout.readline())
                if draw.random() < 0.9:
                    time.sleep(draw.uniform(0, duration / 3))
                    with contextlib.suppress(ProcessLookupError):  # it was done already
                        os.kill(child, signal.SIGKILL)
                code = int(parent.stdout.readline())
                assert code in (0, -signal.SIGKILL)
                kills += code != 0
            parent.stdin.close()
        same(path, tmp_path / "whole")
    assert kills >= 20


def test_more_epochs_go_on_where_fewer_ended(tmp_path: Path) -> None:
    tiny(tmp_path / "whole", epochs=6)
    tiny(tmp_path / "r", epochs=4)
    tiny(tmp_path / "r", epochs=6, resume=True)
    same(tmp_path / "r", tmp_path / "whole")
    assert json.loads((tmp_path / "r" / "config.json").read_text())["recipe"]["epochs"] == 6


@pytest.mark.skipif(bool(native.WHY_NOT), reason=native.WHY_NOT)
@pytest.mark.parametrize("preset", ["rotor", "paper", "router"])
def test_seeds_that_were_an_epoch_apart_end_with_the_same_bytes(tmp_path: Path, preset: str) -> None:
    """A step of the kernel is the same bits for a seed alone as for several together."""

    def train(out: Path, epochs: int, **changes: Any) -> None:
        options: dict[str, Any] = TINY | {"epochs": epochs} | changes
        csprop.train_seeds("parity", [0, 1], preset, out=out, **options)

    train(tmp_path / "whole", 4)
    train(tmp_path / "apart", 2)
    tiny(tmp_path / "apart" / "seed-1", preset=preset, seed=1, epochs=3, resume=True)
    train(tmp_path / "apart", 4, resume=True)
    for seed in ("seed-0", "seed-1"):
        same(tmp_path / "apart" / seed, tmp_path / "whole" / seed)


COSINE: dict[str, Any] = {"schedule": "cosine", "weight_decay": 0.1}


def stop_after(epoch: int) -> Any:
    """A callback that ends training as Ctrl-C would, before anything of a later epoch is written."""

    def stop(row: Any) -> None:
        if row["epoch"] == epoch:
            raise KeyboardInterrupt

    return stop


def test_an_interrupted_run_with_the_schedule_cosine_ends_with_the_same_bytes(tmp_path: Path) -> None:
    whole = tiny(tmp_path / "whole", **COSINE)
    rates = [row["lr"] for row in whole.metrics]
    assert sorted(set(rates), reverse=True) == rates
    for epoch in (1, 4):
        path = tmp_path / str(epoch)
        with pytest.raises(KeyboardInterrupt):
            tiny(path, on_epoch=stop_after(epoch), **COSINE)
        assert len(rows_without_clock(path)) == epoch
        tiny(path, resume=True, **COSINE)
        same(path, tmp_path / "whole")


@pytest.mark.skipif(bool(native.WHY_NOT), reason=native.WHY_NOT)
def test_seeds_with_the_schedule_cosine_are_resumed_together(tmp_path: Path) -> None:
    def train(out: Path, **changes: Any) -> None:
        csprop.train_seeds("parity", [0, 1], out=out, **TINY | COSINE | changes)

    def stop(rows: dict[int, Any]) -> None:
        stop_after(3)(rows[0])

    train(tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "part", on_epoch=stop)
    train(tmp_path / "part", resume=True)
    for seed in ("seed-0", "seed-1"):
        same(tmp_path / "part" / seed, tmp_path / "whole" / seed)


def test_other_epochs_are_refused_where_the_schedule_depends_on_them(tmp_path: Path) -> None:
    path = tmp_path / "r"
    tiny(path, epochs=4, **COSINE)
    before = {file: file.read_bytes() for file in path.rglob("*.*")}
    for epochs in (2, 9):
        sentence = f"epochs={epochs}: .*/r was trained with 4, and its schedule cosine ends with them: "
        with pytest.raises(InputError, match=f"{sentence}use the same value, or choose another --out"):
            tiny(path, epochs=epochs, resume=True, **COSINE)
    with pytest.raises(InputError, match=r"schedule='plateau': .* was trained with cosine"):
        tiny(path, epochs=9, resume=True, **COSINE | {"schedule": "plateau"})
    with pytest.raises(InputError, match=r"weight_decay=0\.2: .* was trained with 0\.1"):
        tiny(path, epochs=4, resume=True, **COSINE | {"weight_decay": 0.2})
    assert {file: file.read_bytes() for file in path.rglob("*.*")} == before
    rewrite(path, lambda config: config["recipe"].update(epochs=9))
    with pytest.raises(InputError, match=r"config.json: was changed since"):
        tiny(path, epochs=9, resume=True, **COSINE)


def test_resume_refuses_other_settings_and_keeps_the_run(tmp_path: Path) -> None:
    tiny(tmp_path / "r")
    with pytest.raises(InputError, match=r"width=5: .* was trained with 4: use the same value"):
        tiny(tmp_path / "r", width=5, resume=True)
    with pytest.raises(InputError, match="already holds a run: add --resume"):
        tiny(tmp_path / "r")
    intact(tmp_path / "r")


def test_resume_refuses_a_damaged_state(tmp_path: Path) -> None:
    tiny(tmp_path / "r")
    damage(tmp_path / "r", "last/state.safetensors", "flip")
    with pytest.raises(InputError, match=r"state.safetensors: is damaged"):
        tiny(tmp_path / "r", epochs=9, resume=True)


def test_a_folder_with_remains_of_a_run_is_left_alone(tmp_path: Path) -> None:
    tiny(tmp_path / "r", epochs=2)
    (tmp_path / "r" / "config.json").unlink()
    before = {path: path.read_bytes() for path in (tmp_path / "r").rglob("*.*")}
    for resume in (False, True):
        with pytest.raises(InputError, match=r"has metrics.jsonl but no config.json"):
            tiny(tmp_path / "r", resume=resume)
    assert {path: path.read_bytes() for path in (tmp_path / "r").rglob("*.*")} == before


@pytest.mark.parametrize("manifest", [True, False])
def test_resume_without_a_state_refuses_to_start_over(tmp_path: Path, manifest: bool) -> None:
    tiny(tmp_path / "r", epochs=2)
    (tmp_path / "r" / "last" / "state.safetensors").unlink()
    if not manifest:
        (tmp_path / "r" / "manifest.json").unlink()
    with pytest.raises(InputError, match=r"state.safetensors: is missing"):
        tiny(tmp_path / "r", epochs=4, resume=True)
    assert len(rows_without_clock(tmp_path / "r")) == 2


@pytest.mark.parametrize("forge", ["", '{"epoch": 1, "f1": 1.0}\n{"epoch": 2, "f1": 1.0}\n'])
def test_resume_refuses_forged_metrics(tmp_path: Path, forge: str) -> None:
    tiny(tmp_path / "r", epochs=2)
    (tmp_path / "r" / "metrics.jsonl").write_text(forge)
    with pytest.raises(InputError, match=r"metrics.jsonl: was changed since"):
        tiny(tmp_path / "r", epochs=4, resume=True)


def test_resume_refuses_another_runs_state(tmp_path: Path) -> None:
    for seed in (0, 1):
        tiny(tmp_path / str(seed), seed=seed, epochs=2)
    for name in ("last/state.safetensors", "metrics.jsonl"):
        shutil.copy(tmp_path / "0" / name, tmp_path / "1" / name)
    with pytest.raises(InputError, match=r"config.json: was changed since"):
        tiny(tmp_path / "1", seed=1, epochs=4, resume=True)


def test_resume_refuses_fewer_epochs_than_are_done(tmp_path: Path) -> None:
    tiny(tmp_path / "r", epochs=4)
    with pytest.raises(InputError, match="already has 4 epochs: write --epochs 4 or more"):
        tiny(tmp_path / "r", epochs=2, resume=True)


def test_the_count_towards_an_early_stop_survives(tmp_path: Path) -> None:
    whole = tiny(tmp_path / "whole", epochs=9, target=0.0, hold=5)
    tiny(tmp_path / "r", epochs=3, target=0.0, hold=5)
    tiny(tmp_path / "r", epochs=9, target=0.0, hold=5, resume=True)
    assert whole.result is not None
    assert whole.result.epochs == 5
    same(tmp_path / "r", tmp_path / "whole")


def test_a_run_goes_on_with_the_threads_and_backend_it_began_with(tmp_path: Path) -> None:
    before = (torch.get_num_threads(), backend())
    tiny(tmp_path / "r", epochs=1)
    rewrite(tmp_path / "r", lambda config: config["environment"].update(threads=2, backend="reference"))
    seen = []

    def on_epoch(row: Any) -> None:
        seen.append((torch.get_num_threads(), backend()))

    tiny(tmp_path / "r", epochs=2, resume=True, on_epoch=on_epoch)
    assert seen == [(2, "reference")]
    assert (torch.get_num_threads(), backend()) == before


def test_going_on_takes_back_the_old_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny(tmp_path / "r", epochs=2)
    monkeypatch.setattr(session, "commit_epoch", lambda *_: (_ for _ in ()).throw(Crash))
    with pytest.raises(Crash):
        tiny(tmp_path / "r", epochs=4, resume=True)
    assert csprop.load(tmp_path / "r").result is None


def test_only_a_regular_file_is_replaced(tmp_path: Path) -> None:
    """As a rename over /dev/null would remove it; a link is followed."""
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(OSError, match="not a regular file"):
        files.replace(tmp_path / "fifo", b"content")
    assert (tmp_path / "fifo").is_fifo()
    (tmp_path / "link").symlink_to(tmp_path / "target")
    files.replace(tmp_path / "link", b"content")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_bytes() == b"content"


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


def test_weights_that_are_not_finite_are_refused(tmp_path: Path) -> None:
    run = tiny(tmp_path / "r", epochs=1)
    run.model.embedding.data.fill_(float("nan"))
    files.replace(tmp_path / "r" / "model.safetensors", save(run.model.state_dict()))
    checkpoint.RunFolder(tmp_path / "r").write_manifest()
    with pytest.raises(InputError, match="has weights that are not finite"):
        csprop.load(tmp_path / "r")


def test_two_processes_cannot_train_into_one_folder(tmp_path: Path) -> None:
    busy = pytest.raises(InputError, match="another process is writing here")
    with files.one_writer(tmp_path / "r"), busy:
        tiny(tmp_path / "r")
    tiny(tmp_path / "r")


def test_nothing_is_asked_of_a_c_library_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """On Windows, ctypes.CDLL(None) is a TypeError."""

    def none(name: str | None) -> None:
        raise TypeError("argument of type 'NoneType' is not iterable")

    monkeypatch.setattr("ctypes.CDLL", none)
    assert not workers.keep_freed_memory()
    monkeypatch.setattr("signal.signal", lambda *_: None)
    workers._become_worker()


def test_a_sweep_takes_nothing_but_its_own(tmp_path: Path) -> None:
    for name in (".a.json.0123456789abcdef.tmp", ".mine.tmp", "a.json"):
        (tmp_path / name).touch()
    files.sweep(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {".mine.tmp", "a.json"}


def test_a_file_keeps_its_permissions(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    (tmp_path / "a").chmod(0o640)
    (tmp_path / "plain").touch()
    files.replace(tmp_path / "a", b"1")
    files.replace(tmp_path / "b", b"2")
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o640
    assert (tmp_path / "b").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_a_full_disk_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny(tmp_path / "r", epochs=3)
    real = files.replace

    def full(path: Path, content: bytes) -> None:
        if path.name == "state.safetensors":
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        real(path, content)

    monkeypatch.setattr(files, "replace", full)
    with pytest.raises(OSError, match="No space left"):
        tiny(tmp_path / "r", epochs=6, resume=True)
    monkeypatch.undo()
    tiny(tmp_path / "r", epochs=6, resume=True)
    tiny(tmp_path / "whole", epochs=6)
    same(tmp_path / "r", tmp_path / "whole")


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


def damage(path: Path, name: str, how: str) -> None:
    file = path / name
    if how == "delete":
        file.unlink()
    elif how == "cut":
        file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    elif how == "flip":
        content = bytearray(file.read_bytes())
        content[-3] ^= 1
        file.write_bytes(content)


@pytest.mark.parametrize("how", ["delete", "cut", "flip"])
@pytest.mark.parametrize("name", ["config.json", "manifest.json", "model.safetensors", "metrics.jsonl"])
def test_a_damaged_run_is_refused_by_name(tmp_path: Path, name: str, how: str) -> None:
    tiny(tmp_path / "r", epochs=1)
    damage(tmp_path / "r", name, how)
    with pytest.raises(InputError) as caught:
        csprop.load(tmp_path / "r")
    assert str(tmp_path / "r") in str(caught.value)
    assert "\n" not in str(caught.value)


def rewrite(path: Path, change: Any) -> None:
    """Change config.json as a person would who also mends the manifest."""
    config = json.loads((path / "config.json").read_text())
    change(config)
    checkpoint.RunFolder(path).write_json("config.json", config)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            lambda c: c.update(format=2),
            "has format 2, but this csprop reads up to 1: install a newer csprop",
        ),
        (lambda c: c["model"].update(widht=3), "config.json: 'widht' is not an option of a model"),
        (lambda c: c["recipe"].update(rl=3), "config.json: 'rl' is not an option of Recipe"),
        (lambda c: c.update(colour="red"), "config.json: 'colour' is not a field"),
        (lambda c: c.pop("seed"), "config.json: 'seed' is missing"),
        (lambda c: c.pop("environment"), "config.json: 'environment' is missing"),
        (lambda c: c["environment"].update(threads="two"), "'two' is malformed"),
        (lambda c: c["environment"].update(threads=0), "0 is malformed"),
        (lambda c: c.update(task={}), "config.json: 'name' is missing"),
        (lambda c: c.update(task=[1]), "config.json: .* malformed"),
        (lambda c: c["model"].pop("cells"), "config.json: a model needs `cells`"),
        (lambda c: c["model"].update(num_classes=3), "config.json: .* does not fit the task"),
        (lambda c: c["model"].update(width=5), "does not fit config.json; the run is damaged"),
        (lambda c: c["task"].update(name="nought"), "config.json: there is no task 'nought'"),
    ],
)
def test_a_strange_config_is_refused(tmp_path: Path, change: Any, sentence: str) -> None:
    tiny(tmp_path / "r", epochs=1)
    rewrite(tmp_path / "r", change)
    with pytest.raises(InputError, match=sentence):
        csprop.load(tmp_path / "r")


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"is not a run: there is no config.json in it"):
        csprop.load(tmp_path / "nowhere")
    with pytest.raises(InputError, match="is not a run"):
        csprop.load(tmp_path)


def test_a_whole_number_is_the_same_option_as_a_float(tmp_path: Path) -> None:
    for one, other in ((1, 1.0), (0, 0.0)):
        configs = [configure("parity", target=each, weight_decay=each) for each in (one, other)]
        assert identity(configs[0]) == identity(configs[1])
        assert json.dumps(configs[0].to_json()) == json.dumps(configs[1].to_json())
    tiny(tmp_path / "r", epochs=1, target=1)
    assert len(tiny(tmp_path / "r", epochs=2, target=1.0, resume=True).metrics) == 2


def test_a_value_of_none_is_named_in_the_message() -> None:
    with pytest.raises(InputError, match="lr=None: does not fit: write a number"):
        csprop.train("parity", lr=None)
    with pytest.raises(InputError, match=r"lr=1000.*: does not fit: write a number"):
        csprop.train("parity", lr=10**400)


def test_no_seeds_are_refused() -> None:
    with pytest.raises(InputError, match=r"seeds=\[\]: give at least one"):
        csprop.train_seeds("parity", [])


def test_options_that_do_not_exist_are_refused() -> None:
    with pytest.raises(InputError, match="'zebra' is not an option: activation, "):
        csprop.train("parity", zebra="red")
    with pytest.raises(InputError, match="no preset 'best': choose from rotor, router, counter, paper"):
        csprop.train("parity", preset="best")
    with pytest.raises(InputError, match=r"lr=0\.0: write a number above 0"):
        csprop.train("parity", lr=0)
    with pytest.raises(InputError, match=r"'widht' is not an option: did you mean width\?"):
        csprop.train("parity", widht=3)


def test_the_paper_keeps_focal_loss_for_parenthesis() -> None:
    assert configure("parenthesis", "paper").recipe.loss == "focal"
    assert configure("parity", "paper").recipe.loss == "cross_entropy"
    paper = configure("mod3", "paper")
    assert (paper.model.width, paper.model.depth, paper.recipe.epochs) == (64, 3, 300)
    assert (paper.recipe.lr, paper.recipe.batch_size, paper.recipe.clip_norm) == (1e-3, 64, 1.0)
    assert (paper.recipe.split, paper.recipe.clip_from_epoch) == ("paper", 0)


def test_training_on_a_file_with_rows_of_many_lengths(tmp_path: Path) -> None:
    draw = random.Random(0)
    rows = ["".join(draw.choice("ab") for _ in range(draw.randint(1, 9))) for _ in range(300)]
    content = "".join(f"{row},{'odd' if row.count('b') % 2 else 'even'}\n" for row in rows)
    (tmp_path / "events.csv").write_text(content)
    task = csprop.tasks.from_file(tmp_path / "events.csv")
    run = csprop.train(task, out=tmp_path / "r", epochs=30)
    assert run.result is not None
    assert run.result.accuracy == 1.0
    assert run.result.exhaustive is None
    (tmp_path / "events.csv").unlink()
    again = csprop.load(tmp_path / "r")
    assert again.task.vocab == ("a", "b")
    with pytest.raises(InputError, match="there is no such file"):
        _ = again.task.data


def test_drawn_lengths_never_leave_a_batch_without_labels(tmp_path: Path) -> None:
    rows = [{"sequence": "ab" * n, "label": n % 2} for n in range(1, 12)]
    rows.append({"sequence": "bbb", "label": [0, 1, 0]})
    (tmp_path / "d.jsonl").write_text("\n".join(map(json.dumps, rows)))
    task = csprop.tasks.from_file(tmp_path / "d.jsonl")
    run = csprop.train(task, lengths="drawn", supervise="last", epochs=5)
    assert run.config.recipe.batch_size == 1
    assert len(run.metrics) == 5


def test_a_file_named_like_a_task_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "parenthesis.csv").write_text("ab,1\nba,0\naa,0\nbb,1\n")
    task = csprop.tasks.from_file(tmp_path / "parenthesis.csv")
    assert configure(task, "paper").recipe.loss == "cross_entropy"
