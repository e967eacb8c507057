"""A run knows its proof, answers with it, and takes it along wherever it goes."""

import contextlib
import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch

import csprop
from csprop import CSP
from csprop.cli.main import main
from csprop.errors import InputError
from csprop.files import LOCK
from csprop.nn.hub import on_hub
from csprop.proof.examples import Labelled
from csprop.training.batches import training_data
from csprop.training.checkpoint import RunFolder
from tests.helpers.zoo import unpack

OPTIONS: dict[str, Any] = {"epochs": 8, "samples": 1000, "width": 8, "hold": 0}


@pytest.fixture(scope="module")
def trained() -> csprop.Run:
    return csprop.train("flip-flop", as_trained=True, **OPTIONS)


@pytest.fixture
def certified(tmp_path: Path) -> Path:
    """A certified run on the disk, for each test its own."""
    return unpack("flip-flop", tmp_path / "runs")


def test_a_run_in_memory_knows_its_proof_and_takes_it_along(
    trained: csprop.Run, tmp_path: Path
) -> None:
    run = csprop.Run.of(trained)
    assert (run.certificate, run.locked, run.automaton) == (None, None, None)
    assert run.answering() is run.model
    found = run.certify()
    assert run.certificate is found
    assert found.proven
    assert run.locked is found.locked is run.answering()
    assert run.answering(as_trained=True) is run.model
    assert run.automaton is found.automaton
    assert run.automaton is not None
    assert len(run.automaton) == 2
    run.save_pretrained(tmp_path / "run")
    check_saved(run, tmp_path / "run")


def test_training_in_memory_ends_in_the_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    run = csprop.train("flip-flop", **OPTIONS)
    assert run.proven
    assert run.verdict == "proven for all lengths, 2 states"
    assert run.answering() is run.locked is not None
    sentence = "its states cannot be told apart"
    monkeypatch.setattr("csprop.runs.run.certify", mock.Mock(side_effect=InputError(sentence)))
    run = csprop.train("flip-flop", **OPTIONS)  # a task of one's own may be malformed for the prover
    assert (run.proven, run.verdict) == (False, sentence)
    assert run.predict(["01."]) == ["1"]


@pytest.mark.parametrize(("options", "right"), [({"preset": "paper"}, True), ({"epochs": 1}, False)])
def test_training_looks_for_a_proof_only_where_there_may_be_one(
    options: dict[str, Any], right: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The printed model cannot be locked, however right it is; the other one has not learned."""
    monkeypatch.delattr(csprop.Run, "certify")
    options = OPTIONS | {"lr": 0.01 if right else 1e-5} | options
    run = csprop.train("flip-flop", **options)
    assert run.result is not None
    assert (run.result.accuracy == 1, run.verdict) == (right, "")


def check_saved(source: csprop.Run, path: Path) -> None:
    again = csprop.Run.from_pretrained(path)
    assert again.certificate is not None
    assert again.certificate.verdict == "proven for all lengths"
    assert again.predict(["01."]) == ["1"]
    assert (again.metrics, again.result) == (source.metrics, source.result)
    with pytest.raises(InputError, match="already holds a run"):
        source.save_pretrained(path)


def test_a_run_from_its_directory_has_the_proof_with_it(certified: Path, tmp_path: Path) -> None:
    run = csprop.load(certified)
    assert run.certificate is not None
    assert run.certificate.verdict == "proven for all lengths"
    assert run.answering() is run.locked is not None
    document = json.loads((certified / "certificate.json").read_text())
    assert run.automaton == csprop.Automaton.from_json(document["automaton"])
    assert isinstance(run.automaton, csprop.Automaton)
    assert run.automaton == run.automaton.minimal()
    run.environment["cpu"] = "an abacus"  # where it was trained
    run.save_pretrained(tmp_path / "saved")
    check_saved(run, tmp_path / "saved")
    assert csprop.load(tmp_path / "saved").environment["cpu"] == "an abacus"


def test_it_answers_with_the_locked_model_unless_asked_otherwise(certified: Path) -> None:
    run = csprop.load(certified)
    assert run.locked is not None
    with torch.no_grad():
        decoder: Any = run.model.decoder
        decoder.linear.weight.neg_()  # the model as trained is now wrong, and the locked one is not
        decoder.linear.bias.neg_()
    assert run.predict(["01.", "10..", [".", "1"]]) == ["1", "0", "1"]
    assert run.predict(["01.", "10..", [".", "1"]], as_trained=True) == ["0", "1", "0"]
    assert int(run.stream().step(1).argmax()) == 1
    assert int(run.stream(as_trained=True).step(1).argmax()) == 0


def test_a_lost_locked_model_is_not_replaced_by_the_trained_one(tmp_path: Path) -> None:
    csprop.load("zoo:parity").save_pretrained(tmp_path / "run")
    (tmp_path / "run" / "locked.safetensors").unlink()
    run = csprop.load(tmp_path / "run")
    with pytest.raises(InputError, match=r"locked.safetensors: is missing: run `csprop certify"):
        run.predict(["0110"])
    assert run.predict(["0110"], as_trained=True) == ["even"]


def test_the_preset_and_the_options_reach_the_model() -> None:
    tiny: dict[str, Any] = {"epochs": 1, "samples": 20, "length": 4, "width": 4, "decay": "exp"}
    alone, together = csprop.train, csprop.train_seeds
    for run in (alone("parity", "paper", 3, **tiny), *together("parity", [3], "paper", **tiny)):
        assert isinstance(run, csprop.Run)
        assert (run.config.preset, run.config.seed, run.config.recipe.samples) == ("paper", 3, 20)
        assert run.model.config.cell == csprop.Paper(decay="exp")


@pytest.mark.parametrize(
    ("sequences", "sentence"),
    [
        ("01", r"sequences must be a list, such as \['0110'\]"),
        (5, "sequences must be a list"),
        ([5], "sequence 1 must be a string or a list of tokens"),
        (["01", ""], "sequence 2: the sequence is empty"),
        (["0x"], "sequence 1: token 'x' at position 2 is not in the vocabulary"),
    ],
)
def test_sequences_that_cannot_be_read(trained: csprop.Run, sequences: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        trained.predict(sequences)


def test_certify_goes_by_the_training_data_of_the_model(
    trained: csprop.Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the command does, and not by sequences that are drawn anew."""
    judged: list[torch.Tensor] = []
    judge = Labelled.judge
    monkeypatch.setattr(
        Labelled, "judge", lambda self, scores: judged.append(self.tokens) or judge(self, scores)
    )
    csprop.certify(trained.model, "flip-flop")
    training, _ = training_data(trained.task, trained.config)
    assert torch.equal(judged[0], training.tokens)
    judged.clear()
    csprop.certify(CSP(trained.model.config), "flip-flop", rounds=0)  # nobody trained this one
    assert not torch.equal(judged[0][: len(training)], training.tokens)


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_proof_gives_way_to_another_proof_alone(certified: Path, elsewhere: bool) -> None:
    """Even if another process writes the proof after this one has looked."""
    proof = [certified / name for name in ("certificate.json", "locked.safetensors")]
    contents = [path.read_bytes() for path in proof]
    if elsewhere:
        RunFolder(certified).remove(*(path.name for path in proof))
    run = csprop.load(certified)
    assert (run.certificate is None) == elsewhere
    for path, content in zip(proof, contents, strict=True):
        RunFolder(certified).write(path.name, content)
    tried = run.certify(length=4)
    assert tried.verdict == "right on every input of length 4"
    assert run.certificate is not tried
    assert csprop.load(certified).locked is not None


def test_a_proof_of_another_version_is_not_lost(certified: Path) -> None:
    document = json.loads((certified / "certificate.json").read_text())
    RunFolder(certified).write_json("certificate.json", document | {"format": 1})
    csprop.load(certified).certify(length=4)
    assert json.loads((certified / "certificate.json").read_text())["format"] == 1
    assert (certified / "locked.safetensors").exists()
    with pytest.raises(InputError, match="is not a certificate of the format"):
        _ = csprop.load(certified).locked
    (certified / "locked.safetensors").unlink()
    run = csprop.load(certified)
    assert run.predict(["01."], as_trained=True) == ["1"]
    with pytest.raises(InputError, match="is not a certificate of the format"):
        _ = run.certificate


def test_a_certificate_outlives_an_option_that_is_added(certified: Path) -> None:
    """As if `skip` had been added after the certificate was written."""
    document = json.loads((certified / "certificate.json").read_text())
    del document["model"]["cells"][0]["skip"]
    RunFolder(certified).write_json("certificate.json", document)
    assert csprop.load(certified).locked is not None
    document["model"]["width"] += 1
    RunFolder(certified).write_json("certificate.json", document)
    with pytest.raises(InputError, match="describes another model"):
        _ = csprop.load(certified).locked


def test_a_saved_run_is_not_trained_from_the_beginning(certified: Path) -> None:
    before = {path.name: path.read_bytes() for path in certified.glob("[!.]*")}
    with pytest.raises(InputError, match=r"state\.safetensors: is missing"):
        csprop.train("flip-flop", out=certified, resume=True)
    assert {path.name: path.read_bytes() for path in certified.glob("[!.]*")} == before


def test_a_writer_that_is_killed_leaves_no_half_of_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever file it was renaming: there is no run, and the same call goes over what is there."""
    machine = csprop.tasks.get("parity").machine
    renamed, real = 0, os.replace

    def killed(source: Any, target: Any) -> None:
        nonlocal renamed
        if renamed == 0:
            raise KeyboardInterrupt
        renamed -= 1
        real(source, target)

    path, times = tmp_path / "run", 0
    while not (path / "config.json").exists():
        with pytest.raises(InputError, match=r"is not a run: there is no config\.json in it"):
            csprop.load(path)
        renamed, times = times, times + 1
        with monkeypatch.context() as patch, contextlib.suppress(KeyboardInterrupt):
            patch.setattr(os, "replace", killed)
            csprop.compile(machine, path)
    assert times > 12
    certificate = csprop.load(path).certificate
    assert certificate is not None
    assert certificate.proven
    kept = {"config.json", "metrics.jsonl", "model.safetensors", "result.json", "manifest.json"}
    proof = {"locked.safetensors", "certificate.json"}
    assert {each.name for each in path.iterdir()} == kept | proof | {LOCK}


@pytest.mark.parametrize("name", ["model.safetensors", "metrics.jsonl", "manifest.json"])
def test_a_run_that_was_not_trained_here_is_not_to_be_resumed(certified: Path, name: str) -> None:
    (certified / name).unlink()
    with pytest.raises(InputError, match=rf"{name}: (is missing: )?make the run again"):
        csprop.load(certified)


def test_rows_that_are_kept_in_a_run_move_with_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sequences = [f"{n:b}" for n in range(1, 400)]
    labels = [each.count("1") % 2 for each in sequences]
    csprop.learn(sequences, labels, out=tmp_path / "old")
    shutil.move(tmp_path / "old", tmp_path / "new")
    csprop.load(tmp_path / "new").save_pretrained(tmp_path / "copy")
    shutil.rmtree(shutil.move(tmp_path / "new", tmp_path / "newest"))
    certificate = csprop.load(tmp_path / "copy").certificate
    assert certificate is not None
    assert (certificate.verdict, certificate.proven) == ("agrees with every row", True)
    assert main(["certify", str(tmp_path / "copy"), "--check"]) == 0
    assert "agree with all 399 rows" in capsys.readouterr().out


def test_a_run_on_rows_is_resumed_where_it_was_moved(tmp_path: Path) -> None:
    task = csprop.tasks.from_rows([f"{n:b}" for n in range(1, 80)], [n % 2 for n in range(1, 80)])
    csprop.train(task, out=tmp_path / "old", epochs=2, width=4)
    shutil.move(tmp_path / "old", tmp_path / "new")
    assert main(["train", "--resume", "--out", str(tmp_path / "new"), "--epochs", "3"]) in (0, 1)
    again = csprop.load(tmp_path / "new")
    assert len(again.metrics) == 3
    csprop.train(again.task, out=tmp_path / "other", epochs=2, width=4)  # the rows are not in this one
    assert len(csprop.load(tmp_path / "other").task.data) == 79


def test_a_run_keeps_to_its_task() -> None:
    """mod3 has as many tokens and classes as parity."""
    with pytest.raises(InputError, match="was trained on 'parity', and not on this 'mod3'"):
        csprop.load("zoo:parity", task=csprop.tasks.get("mod3"))


def test_a_model_is_saved_with_its_names(certified: Path, tmp_path: Path) -> None:
    of_run = CSP.from_pretrained(str(certified))
    assert of_run.names is not None
    assert (of_run.names.vocab, of_run.names.classes) == (("0", "1", "."), ("0", "1"))
    of_run.save_pretrained(tmp_path)
    again = CSP.from_pretrained(str(tmp_path))
    assert again.names == of_run.names == csprop.load(certified).model.names
    pairs = zip(again.parameters(), csprop.load(certified).model.parameters(), strict=True)
    assert all(torch.equal(one, other) for one, other in pairs)
    config = json.loads((tmp_path / "config.json").read_text())
    for names in ("01.", ["0", "1"], ["0", "1", ".", "2"], ["0", "1", "1"], ["0", "1", 2], 3, None):
        changed = config | {"names": config["names"] | {"vocab": names}}
        (tmp_path / "config.json").write_text(json.dumps(changed))
        with pytest.raises(InputError, match=r"names.vocab must be a list of 3 different names"):
            CSP.from_pretrained(str(tmp_path))
    for wrong in ([], config["names"] | {"words": 1}):
        (tmp_path / "config.json").write_text(json.dumps(config | {"names": wrong}))
        with pytest.raises(InputError, match="the names of tokens and classes are malformed"):
            CSP.from_pretrained(str(tmp_path))


def test_push_to_hub_uploads_the_whole_run(certified: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub

    api = mock.Mock()

    def upload(*, folder_path: Path, ignore_patterns: list[str], **options: Any) -> str:
        ignored = {path for pattern in ignore_patterns for path in folder_path.glob(pattern)}
        paths = {path for path in folder_path.rglob("*") if path.is_file()} - ignored
        assert {path.name for path in paths} == {
            *("config.json", "model.safetensors", "locked.safetensors", "certificate.json"),
            *("manifest.json", "metrics.jsonl", "result.json"),
        }
        assert options == {"repo_id": "me/flip", "commit_message": "mine"}
        return "done"

    api.return_value.upload_folder = upload
    monkeypatch.setattr(huggingface_hub, "HfApi", api)
    run = csprop.load(certified)
    assert run.push_to_hub("me/flip", token="secret", commit_message="mine") == "done"
    api.assert_called_once_with(token="secret")
    api.return_value.create_repo.assert_called_once_with("me/flip", exist_ok=True)


def test_what_needs_the_hub_says_how_to_install_it(
    certified: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)  # an import of it fails
    on_hub.cache_clear()
    run = csprop.load(certified)
    install = r"needs huggingface_hub: python -m pip install 'csprop\[hub\]'$"
    with pytest.raises(InputError, match=f"^uploading a run {install}"):
        run.push_to_hub("me/flip")
    with pytest.raises(InputError, match=f"^me/flip is not a directory, and downloading it {install}"):
        csprop.Run.from_pretrained("me/flip")
    for needing in (run.model.save_pretrained, run.model.push_to_hub, CSP.from_pretrained):
        with pytest.raises(InputError, match=install):
            needing(str(tmp_path / "model"))
    run.save_pretrained(tmp_path / "run")  # a folder of its own form needs nothing
    assert csprop.Run.from_pretrained(tmp_path / "run").predict(["01"]) == run.predict(["01"])


def test_a_file_that_is_gone_leaves_the_certificate_unchecked(tmp_path: Path) -> None:
    rows = ["".join("ab"[i >> k & 1] for k in range(n)) for n in range(1, 6) for i in range(2**n)]
    data = tmp_path / "ends.csv"
    data.write_text("".join(f"{row},{'yes' if row[-1] == 'a' else 'no'}\n" for row in rows))
    run = csprop.train(data, out=tmp_path / "run", preset="rotor", epochs=10, width=8)
    assert run.certify().verdict == "agrees with every row"
    again = csprop.load(tmp_path / "run")
    assert again.certificate is not None
    assert not again.certificate.unchecked
    data.unlink()
    again = csprop.load(tmp_path / "run")
    assert again.certificate is not None
    assert "there is no such file" in again.certificate.unchecked
    assert again.predict(["ba", "ab"]) == ["yes", "no"]


def test_a_draft_spares_a_run_that_appeared_meanwhile_and_an_error_leaves_none(tmp_path: Path) -> None:
    """Somebody else finished the directory between the first look and the lock, and left a draft."""

    def fill(folder: RunFolder) -> None:
        with folder.draft() as draft:
            draft.write_json("result.json", {})
            raise OSError("the disk is full")

    with pytest.raises(OSError, match="full"):
        fill(RunFolder(tmp_path))
    assert list(tmp_path.iterdir()) == []
    (tmp_path / ".draft").mkdir()
    for name in ("config.json", "metrics.jsonl"):
        (tmp_path / name).write_text("theirs")
    with pytest.raises(InputError, match="already holds a run"):
        fill(RunFolder(tmp_path))
    assert (tmp_path / "metrics.jsonl").read_text() == "theirs"


@pytest.mark.parametrize("task", ["parity", "mod3", "mod3-residue", "parenthesis"])
def test_the_default_preset_is_right_on_every_input(task: str) -> None:
    run = csprop.train(task, seed=0)
    assert run.result is not None
    assert (run.result.accuracy, run.result.f1) == (1.0, 1.0)
    every = run.result.exhaustive
    assert every is not None
    assert (every.count, every.wrong) == (65_536, 0)


@pytest.mark.parametrize("name", ["tomita-3", "even-pairs"])
def test_a_router_learns_a_task_and_is_proven(name: str) -> None:
    run = csprop.train(name, samples=2000)
    assert run.config.preset == "router"
    assert run.result is not None
    assert run.result.learned
    assert run.certify().verdict == "proven for all lengths"
