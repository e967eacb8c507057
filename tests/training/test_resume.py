"""A run that is stopped and resumed ends with the same bytes, or is refused."""

import errno
import hashlib
import json
import os
import random
import shutil
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
import torch

import csprop
from csprop import files
from csprop.errors import InputError
from csprop.ops import native
from csprop.ops.backends import backend
from csprop.training import checkpoint, session

# patience=1: the learning rate changes on the way, and must survive a resume.
TINY: dict[str, Any] = {"length": 6, "samples": 60, "width": 4, "depth": 1, "epochs": 6, "hold": 0}
TINY |= {"patience": 1, "as_trained": True}
COSINE: dict[str, Any] = {"schedule": "cosine", "weight_decay": 0.1}


def tiny(out: Path | None = None, **changes: Any) -> csprop.Run:
    return csprop.train("parity", out=out, **(TINY | changes))


def rows_without_clock(path: Path) -> list[dict[str, Any]]:
    rows = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in row.items() if key != "seconds"} for row in rows]


def contents(path: Path) -> dict[Path, bytes]:
    return {file: file.read_bytes() for file in path.rglob("*.*") if file.is_file()}


def same(left: Path, right: Path) -> None:
    """Both runs ended with the same weights and the same history, and all digests fit."""
    assert (left / "model.safetensors").read_bytes() == (right / "model.safetensors").read_bytes()
    assert rows_without_clock(left) == rows_without_clock(right)
    states = [session.read_last(checkpoint.RunFolder(path)) for path in (left, right)]
    assert states[0][0].keys() == states[1][0].keys()
    assert all(torch.equal(value, states[1][0][name]) for name, value in states[0][0].items())
    for name in ("epoch", "held", "lr", "scheduler"):
        assert states[0][1][name] == states[1][1][name], name
    for name, digest in json.loads((left / "manifest.json").read_text()).items():
        assert hashlib.sha256((left / name).read_bytes()).hexdigest() == digest, name


def stop_after(epoch: int) -> Callable[[Any], None]:
    """A callback that ends training as Ctrl-C would, before anything of a later epoch is written."""

    def stop(row: Any) -> None:
        if row["epoch"] == epoch:
            raise KeyboardInterrupt

    return stop


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two epochs."""
    path = tmp_path_factory.mktemp("short") / "r"
    tiny(path, epochs=2)
    return path


@pytest.fixture
def copy(short: Path, tmp_path: Path) -> Path:
    return shutil.copytree(short, tmp_path / "r")


def test_the_same_seed_gives_the_same_bytes_and_another_does_not(tmp_path: Path) -> None:
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        tiny(tmp_path / name, seed=seed)
    same(tmp_path / "a", tmp_path / "b")
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in "ac"]
    assert weights[0] != weights[1]


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


def test_a_first_epoch_that_is_cut_off_twice_begins_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut(path: Path, content: bytes, *, real: Callable[..., None] = files.replace) -> None:
        if path.name == "state.safetensors":
            raise KeyboardInterrupt
        real(path, content)

    monkeypatch.setattr(files, "replace", cut)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            tiny(tmp_path / "run", epochs=2, resume=True)
    monkeypatch.undo()
    tiny(tmp_path / "run", epochs=2, resume=True)
    tiny(tmp_path / "whole", epochs=2)
    same(tmp_path / "run", tmp_path / "whole")


@pytest.mark.slow
def test_kill_9_at_random_moments_then_resume_gives_the_same_bytes(tmp_path: Path) -> None:
    started = time.perf_counter()
    tiny(tmp_path / "whole", epochs=30)
    duration = time.perf_counter() - started
    context = get_context("forkserver")
    context.set_forkserver_preload([__name__])
    draw, kills, rounds = random.Random(0), 0, 0
    while kills < 24:
        path, code = tmp_path / f"killed-{rounds}", None
        rounds += 1
        while code != 0:
            child = context.Process(target=tiny, args=(path,), kwargs={"epochs": 30, "resume": True})
            child.start()
            if draw.random() < 0.9:
                time.sleep(draw.uniform(0, duration / 3))
                child.kill()
            child.join()
            code = child.exitcode
            assert code in (0, -signal.SIGKILL)
            kills += code != 0
        same(path, tmp_path / "whole")


@pytest.mark.parametrize(
    ("epochs", "options"),
    [
        (6, {}),
        (5, {"target": 0.0, "hold": 5, "epochs": 9}),  # the count towards an early stop survives
        (6, COSINE),
        (6, {"preset": "router", "samples": 300, "width": 8}),  # lengths and temperature change
    ],
)
def test_an_interrupted_run_ends_with_the_same_bytes(
    tmp_path: Path, epochs: int, options: dict[str, Any]
) -> None:
    whole = tiny(tmp_path / "whole", **options)
    assert len(whole.metrics) == epochs
    rates = [row["lr"] for row in whole.metrics]
    assert sorted(set(rates), reverse=True) == rates or options is not COSINE
    for epoch in (1, 4):
        path = tmp_path / str(epoch)
        with pytest.raises(KeyboardInterrupt):
            tiny(path, on_epoch=stop_after(epoch), **options)
        assert len(rows_without_clock(path)) == epoch
        tiny(path, resume=True, **options)
        same(path, tmp_path / "whole")


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


@pytest.mark.skipif(bool(native.WHY_NOT), reason=native.WHY_NOT)
def test_seeds_with_the_schedule_cosine_are_resumed_together(tmp_path: Path) -> None:
    def train(out: Path, **changes: Any) -> None:
        csprop.train_seeds("parity", [0, 1], out=out, **TINY | COSINE | changes)

    train(tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "part", on_epoch=lambda rows: stop_after(3)(rows[0]))
    train(tmp_path / "part", resume=True)
    for seed in ("seed-0", "seed-1"):
        same(tmp_path / "part" / seed, tmp_path / "whole" / seed)


def test_a_full_disk_loses_nothing(copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = files.replace

    def full(path: Path, content: bytes) -> None:
        if path.name == "state.safetensors":
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        real(path, content)

    monkeypatch.setattr(files, "replace", full)
    with pytest.raises(OSError, match="No space left"):
        tiny(copy, resume=True)
    monkeypatch.undo()
    tiny(copy, resume=True)
    tiny(tmp_path / "whole")
    same(copy, tmp_path / "whole")
    assert json.loads((copy / "config.json").read_text())["recipe"]["epochs"] == 6


def test_a_run_goes_on_with_the_threads_and_backend_it_began_with(copy: Path) -> None:
    before = (torch.get_num_threads(), backend())
    config = json.loads((copy / "config.json").read_text())
    config["environment"].update(threads=2, backend="reference")
    checkpoint.RunFolder(copy).write_json("config.json", config)
    seen = []
    tiny(
        copy, epochs=3, resume=True,
        on_epoch=lambda row: seen.append((torch.get_num_threads(), backend())),
    )  # fmt: skip
    assert seen == [(2, "reference")]
    assert (torch.get_num_threads(), backend()) == before


def test_going_on_takes_back_the_old_result(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "commit_epoch", lambda *_: (_ for _ in ()).throw(Crash))
    with pytest.raises(Crash):
        tiny(copy, epochs=4, resume=True)
    assert csprop.load(copy).result is None


# Refused, with every file as it was.


def remove(*names: str) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        for name in names:
            (path / name).unlink()

    return change


def write(name: str, text: str) -> Callable[[Path], None]:
    return lambda path: files.replace(path / name, text.encode())


def flip(path: Path) -> None:
    """Change a bit of the saved state."""
    content = bytearray((path / STATE).read_bytes())
    content[-3] ^= 1
    (path / STATE).write_bytes(content)


def leave(path: Path) -> None:
    """Change nothing."""


def set_epochs(path: Path) -> None:
    config = json.loads((path / "config.json").read_text())
    config["recipe"]["epochs"] = 9
    checkpoint.RunFolder(path).write_json("config.json", config)


STATE, METRICS, CONFIG = "last/state.safetensors", "metrics.jsonl", "config.json"
FORGED = '{"epoch": 1, "f1": 1.0}\n{"epoch": 2, "f1": 1.0}\n'
REFUSED: list[tuple[Callable[[Path], None], dict[str, Any], str]] = [
    (leave, {"width": 5}, r"width=5: .* was trained with 4: use the same value"),
    (leave, {"target": 1}, r"target=1\.0: .* was trained with None"),
    (leave, {"resume": False}, "already holds a run: add --resume"),
    (leave, {"epochs": 1}, "already has 2 epochs: write --epochs 2 or more"),
    (flip, {}, "state.safetensors: is damaged"),
    (remove(CONFIG), {}, "has metrics.jsonl but no config.json"),
    (remove(STATE), {}, "state.safetensors: is missing"),
    (remove(STATE, "manifest.json"), {}, "state.safetensors: is missing"),
    (write(METRICS, ""), {}, "metrics.jsonl: was changed since"),
    (write(METRICS, FORGED), {}, "metrics.jsonl: was changed since"),
]
# The schedule cosine depends on the number of epochs.
REFUSED_COSINE: list[tuple[Callable[[Path], None], dict[str, Any], str]] = [
    (leave, {"epochs": 1}, "epochs=1: .*/r was trained with 2, and its schedule cosine ends with them: "
                           "use the same value, or choose another --out"),
    (leave, {"epochs": 9, "schedule": "plateau"}, "schedule='plateau': .* was trained with cosine"),
    (leave, {"epochs": 2, "weight_decay": 0.2}, r"weight_decay=0\.2: .* was trained with 0\.1"),
    (set_epochs, {"epochs": 9}, "config.json: was changed since"),
]  # fmt: skip


def refuse(path: Path, change: Callable[[Path], None], options: dict[str, Any], message: str) -> None:
    change(path)
    before = contents(path)
    with pytest.raises(InputError, match=message):
        tiny(path, **{"epochs": 4, "resume": True} | options)
    assert contents(path) == before


@pytest.mark.parametrize(("change", "options", "message"), REFUSED)
def test_what_is_not_resumed(copy: Path, change: Any, options: dict[str, Any], message: str) -> None:
    refuse(copy, change, options, message)


@pytest.mark.parametrize(("change", "options", "message"), REFUSED_COSINE)
def test_the_schedule_cosine_keeps_its_epochs(
    tmp_path: Path, change: Any, options: dict[str, Any], message: str
) -> None:
    tiny(tmp_path / "r", epochs=2, **COSINE)
    refuse(tmp_path / "r", change, COSINE | options, message)


def test_resume_refuses_another_runs_state(copy: Path, tmp_path: Path) -> None:
    tiny(tmp_path / "1", seed=1, epochs=2)
    for name in (STATE, METRICS):
        shutil.copy(copy / name, tmp_path / "1" / name)
    with pytest.raises(InputError, match=r"config.json: was changed since"):
        tiny(tmp_path / "1", seed=1, epochs=4, resume=True)


def test_an_attempt_begins_with_the_first_learning_rate(tmp_path: Path) -> None:
    tiny(tmp_path / "run", epochs=6, restart=3, patience=0, target=1.0, lr=1e-5)
    rates = [row["lr"] for row in rows_without_clock(tmp_path / "run")]
    assert rates[3] == rates[0] == 1e-5
    assert min(rates) < 1e-5, "the plateau halves it within an attempt"


@pytest.mark.parametrize("stopped", [1, 2, 3])
def test_a_run_that_began_again_is_resumed(tmp_path: Path, stopped: int) -> None:
    """Attempts of two epochs: new weights after each two, the best are kept."""
    again: dict[str, Any] = {
        "restart": 2,
        "epochs": 5,
        "schedule": "cosine",
        "target": 1.0,
        "samples": 80,
    }
    whole = tiny(tmp_path / "whole", lr=1e-4, **again)
    assert len(whole.metrics) == 5
    assert [row["lr"] for row in whole.metrics[:2]] == [row["lr"] for row in whole.metrics[2:4]]
    with suppress(KeyboardInterrupt):
        tiny(tmp_path / "part", lr=1e-4, on_epoch=stop_after(stopped), **again)
    tiny(tmp_path / "part", resume=True, lr=1e-4, **again)
    same(tmp_path / "whole", tmp_path / "part")


def test_an_attempt_that_reached_the_target_is_the_last(tmp_path: Path) -> None:
    run = tiny(restart=3, epochs=9, target=0.1)
    assert len(run.metrics) == 3
