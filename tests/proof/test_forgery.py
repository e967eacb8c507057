"""Forged run directories: nothing in csprop announces a wrong machine as proven, whatever digests say.

helpers/forgery.py makes them and helpers/judge.py judges them. `CSPROP_FORGERIES=1000` tries as many.
"""

import os
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
import torch

import csprop
from csprop.cli.main import main
from csprop.errors import InputError
from csprop.proof import verify_finite
from csprop.proof.answers import FiniteAnswers, load_certified
from csprop.proof.locked import Locked
from csprop.training.checkpoint import CERTIFICATE, FILES, RunFolder
from tests.helpers import forgery
from tests.helpers.forgery import KINDS, Draft, Forger
from tests.helpers.judge import Judge, Lie, smallest

COUNT = int(os.environ.get("CSPROP_FORGERIES", "500"))
FAST, SHARE = 60, 10
"""Forgeries that are not marked slow, and forgeries in one test."""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return forgery.genuine(tmp_path_factory.mktemp("genuine"))


@pytest.fixture
def parity(runs: dict[str, Path], tmp_path: Path) -> Path:
    """A copy that a test may spoil."""
    return shutil.copytree(runs["parity"], tmp_path / "parity")


def test_genuine_runs_are_what_they_say(runs: dict[str, Path], tmp_path: Path) -> None:
    for name, path in runs.items():
        outcomes = Judge(shutil.copytree(path, tmp_path / "copy"), certifies=False).outcomes
        expected = {
            forgery.LENGTH: "one length, and true",
            "a wrong length": "one length, and true",
            "a counterexample": "not proven",
        }
        assert outcomes["load"] == expected.get(name, "served, and right"), name
        assert (outcomes["certify --check"] == "exit 0") == (name not in expected), name
        assert {outcomes[verb] for verb in ("predict", "eval", "report")} == {"exit 0"}, name
        shutil.rmtree(tmp_path / "copy")


@pytest.mark.parametrize(
    "first",
    [pytest.param(n, marks=[pytest.mark.slow] if n >= FAST else []) for n in range(0, COUNT, SHARE)],
)
def test_no_forgery_is_announced_as_proven(runs: dict[str, Path], tmp_path: Path, first: int) -> None:
    forger = Forger(runs)
    assert 2 * len(KINDS) <= COUNT, "every kind takes its turn"
    for number in range(first, min(first + SHARE, COUNT)):
        path = tmp_path / str(number)
        what = forger.forge(number, path)
        began = time.perf_counter()
        try:
            Judge(path, certifies=number % 5 == 0 or COUNT >= 1000)
        except Lie as lie:
            pytest.fail(f"{what}: {lie}")
        assert time.perf_counter() - began < 60, what


def test_a_run_answers_alike_with_torch_and_without(runs: dict[str, Path]) -> None:
    for name, path in runs.items():
        theirs, ours = csprop.load(path), load_certified(path)
        if theirs.locked is None:
            assert ours is None, name
            continue
        assert ours is not None, name
        assert theirs.certificate == ours.certificate, name
        assert isinstance(ours.machine, FiniteAnswers)
        assert ours.machine.machine == theirs.locked.machine, name
        assert isinstance(theirs.locked, Locked)
        scores = torch.from_numpy(ours.machine.scores).float()
        torch.testing.assert_close(scores, theirs.locked.scores, rtol=1e-4, atol=1e-4)


# The judge can say no.


def test_the_judge_notices_a_verifier_that_does_not_walk(
    runs: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draft = Draft.of(runs["parity"])
    for name in ("network.decoder.linear.weight", "network.decoder.linear.bias"):
        draft.locked[name] = draft.locked[name].flip(0)
    draft.complete()
    draft.write(tmp_path / "forged")
    outcomes = Judge(tmp_path / "forged", certifies=False).outcomes
    assert outcomes["load"] == "refused"
    assert {outcomes[verb] for verb in ("eval", "report")} == {"exit 2, one sentence"}
    monkeypatch.setattr(verify_finite, "_check_pairs", lambda proof, task: {(0, 0), (0, 1)})
    with pytest.raises(Lie, match=r"a wrong machine is served"):
        Judge(tmp_path / "forged", certifies=False)


def test_the_judge_counts_states() -> None:
    parity = [[0, 1], [1, 0]]
    assert smallest((parity, [0, 1], 0)) == 2
    assert smallest(([[1, 2], [1, 2], [2, 1]], [None, 0, 1], 0)) == 2  # the start goes on as state 1
    assert smallest(([[2, 1], [1, 0], [0, 1]], [0, 1, 0], 0)) == 2
    assert smallest(([[1, 2], [1, 1], [2, 2]], [None, 0, 1], 0)) == 3


# What was once believed, each by itself.


def forged(path: Path, change: Any) -> None:
    """Another certificate, under a manifest that fits."""
    folder = RunFolder(path)
    document = folder.read_json(CERTIFICATE)
    folder.write_json(CERTIFICATE, change(document) or document)


def test_a_proof_that_does_not_hold_gives_way(runs: dict[str, Path], tmp_path: Path) -> None:
    """`certify` finds a counterexample where somebody left the proof of another run."""
    path = shutil.copytree(runs["a counterexample"], tmp_path / "run")
    for name in ("locked.safetensors", "certificate.json"):
        RunFolder(path).write(name, (runs["parity"] / name).read_bytes())
    assert csprop.load(path).locked is not None  # a right machine, whoever made it
    assert csprop.load(path).certify(rounds=0).verdict == "counterexample"
    assert csprop.load(path).locked is not None, "a proof that holds stays"
    forged(path, lambda document: document | {"statement": "It is right, always."})
    assert csprop.load(path).certify(rounds=0).verdict == "counterexample"
    found = csprop.load(path).certificate
    assert found is not None
    assert (found.verdict, found.proven, found.locked) == ("counterexample", False, None)


@pytest.mark.parametrize("way", ["gone", "changed"])
@pytest.mark.parametrize(
    ("name", "verdict"),
    [(forgery.FILE, "agrees with every row"), (forgery.NOISY, "agrees with 58 of 62 rows")],
)
def test_rows_that_are_gone_or_changed_are_no_proof(
    runs: dict[str, Path], tmp_path: Path, name: str, verdict: str, way: str
) -> None:
    draft = Draft.of(runs[name])
    assert draft.data is not None
    draft.write(tmp_path / "run")
    assert Judge(tmp_path / "run", certifies=False).outcomes["load"] == "served, and right"
    changed = draft.data.replace("even", "odd", 1)
    (tmp_path / "run.csv").unlink() if way == "gone" else (tmp_path / "run.csv").write_text(changed)
    assert "unchecked" in Judge(tmp_path / "run", certifies=False).outcomes["load"]
    run = csprop.load(tmp_path / "run")
    assert run.certificate is not None
    assert (run.certificate.verdict, run.certificate.proven) == ("not checked", False)
    assert "disagreeing" not in run.certificate.document
    assert run.locked is not None
    run.save_pretrained(tmp_path / "saved")  # and where the rows are back, it is proven again
    (tmp_path / "run.csv").write_text(draft.data)
    again = csprop.load(tmp_path / "saved").certificate
    assert again is not None
    assert (again.verdict, again.proven) == (verdict, True)
    draft.data = changed  # with digests that fit
    draft.write(tmp_path / "forged")
    assert Judge(tmp_path / "forged", certifies=False).outcomes["report"] == "exit 2, one sentence"


def test_a_huge_model_is_not_made_for_a_small_file(parity: Path) -> None:
    folder = RunFolder(parity)
    config = folder.read_json("config.json")
    config["model"] |= {"width": 65536, "depth": 1024, "cells": config["model"]["cells"] * 1024}
    folder.write_json("config.json", config)
    with pytest.raises(InputError, match="does not fit config"):
        csprop.load(parity)


# Tricks with paths.


def test_a_relative_path_and_a_link(parity: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(parity.parent)
    for path in (Path("parity"), Path("./parity/../parity")):
        assert Judge(path, certifies=False).outcomes["certify --check"] == "exit 0"
    monkeypatch.chdir(parity)
    assert main(["certify", ".", "--check"]) == 0
    (parity.parent / "link").symlink_to(parity)
    assert Judge(parity.parent / "link").outcomes["load"] == "served, and right"


@pytest.mark.parametrize("name", [*FILES, "manifest.json", ".csprop.lock"])
def test_no_link_is_written_through(parity: Path, tmp_path: Path, name: str) -> None:
    """`certify` replaces a link, or refuses; what it points to is left alone."""
    target = tmp_path / "precious"
    content = (parity / name).read_bytes() if (parity / name).exists() else b"precious"
    target.write_bytes(content)
    (parity / name).unlink(missing_ok=True)
    (parity / name).symlink_to(target)
    assert main(["certify", str(parity), "--rounds", "0"]) in (0, 2)
    assert target.read_bytes() == content


@pytest.mark.parametrize("name", [*FILES, "manifest.json", ".csprop.lock"])
@pytest.mark.parametrize("how", ["folder", "pipe", "device", "itself", "another run", "nothing"])
def test_what_is_no_file_of_the_run_is_one_sentence(
    runs: dict[str, Path], parity: Path, name: str, how: str
) -> None:
    place = parity / name
    links = {"device": "/dev/zero", "itself": name, "another run": runs["mod3"] / name}
    place.unlink(missing_ok=True)
    if how in links:
        place.symlink_to(links[how])
    elif how != "nothing":
        place.mkdir() if how == "folder" else os.mkfifo(place)
    Judge(parity, certifies=how != "another run")  # which would be written


def test_a_certificate_of_megabytes(parity: Path) -> None:
    forged(parity, lambda document: document | {"pairs": document["pairs"] * 20_000})
    outcomes = Judge(parity, certifies=False).outcomes
    assert outcomes["load"] == "refused"
    assert outcomes["report"] == "exit 2, one sentence"
