"""The runs that come with csprop: each is proven again, by the prover's code and by the checker's."""

import io
import json
import os
import subprocess
import sys
import zipfile
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

import csprop
from csprop.errors import InputError
from csprop.files import as_json, digest
from csprop.proof.answers import load_certified
from csprop.training.checkpoint import CERTIFICATE, FILES, LOCKED, MANIFEST, WEIGHTS, RunFolder
from csprop.training.config import configure
from csprop.training.stored import stored_task
from csprop.zoo import archive
from csprop.zoo.archive import Entry, index, name_of

FAMILIES = {"flip-flop-language-98", "group-S5-32", "group-A5-all"}
"""One task of each family that `csprop tasks` names below its table."""
PACKED = Path(str(archive.ASSETS))
ENTRIES = {entry["name"]: entry for entry in index()}


def test_every_task_that_can_be_proven_has_a_small_run() -> None:
    provable = {task.name for task in csprop.tasks.catalogue() if task.total}
    assert set(ENTRIES) == provable | FAMILIES
    assert {path.stem for path in PACKED.glob("*.zip")} == set(ENTRIES)
    assert sum(path.stat().st_size for path in PACKED.iterdir()) < 2_000_000


@pytest.mark.parametrize("name", ENTRIES)
def test_a_run_is_proven_again(name: str) -> None:
    run = load_certified(f"zoo:{name}")
    assert run is not None, "the certificate is not confirmed"
    assert run.certificate.proven
    automaton = run.certificate.automaton
    assert automaton is not None
    assert run.result is not None
    found: Entry = {
        "name": run.task.name,
        "states": len(automaton),
        "counters": getattr(automaton, "counters", 0),
        "verdict": run.certificate.verdict,
        "made": run.result.made,
        "preset": run.config.preset,
        "seed": run.config.seed,
        "options": ENTRIES[name]["options"],
    }
    assert ENTRIES[name] == found
    longer = run.task.length_from(4 * run.config.recipe.length)
    score = run.at_length(longer, seed=1, positions=True)
    assert score.wrong == 0
    assert score.count > 10_000


@pytest.mark.parametrize("name", ENTRIES)
def test_an_archive_has_a_run_with_the_options_that_the_index_names_and_no_date(name: str) -> None:
    config, task = stored_task(RunFolder(f"zoo:{name}"))
    entry = ENTRIES[name]
    preset = None if entry["made"] == "trained" else entry["preset"]  # the one that suits the task
    expected = configure(task, preset, entry["seed"], **entry["options"])
    assert config.preset == expected.preset
    size = config.recipe.batch_size  # depends on the number of rows
    assert config.recipe == replace(expected.recipe, batch_size=size)
    if entry["made"] == "trained":
        assert config.model == expected.model
    packed = zipfile.ZipFile(PACKED / f"{name}.zip")
    names = packed.namelist()
    assert len(set(names)) == len(names)
    assert set(names) <= {*FILES, MANIFEST}
    assert {each.date_time for each in packed.infolist()} == {(1980, 1, 1, 0, 0, 0)}
    assert json.loads(packed.read(MANIFEST)) == {
        each: digest(packed.read(each)) for each in names if each != MANIFEST
    }


@pytest.mark.parametrize("name", ["parity", "tomita-3", "nested-3", "anbn"])
def test_a_run_is_loaded_in_python(name: str) -> None:
    run = csprop.load(f"zoo:{name}")
    assert str(run.path) == f"zoo:{name}"
    assert f"zoo:{name}" in repr(run)
    assert run.certificate is not None
    assert run.certificate.proven
    assert run.locked is not None
    task = run.task
    rows = [task.vocab[number % len(task.vocab)] * 3 + task.vocab[0] * number for number in range(9)]
    truth = [task.classes[task.truth([task.vocab.index(each) for each in row])] for row in rows]
    assert run.predict(rows) == truth
    assert csprop.Run.from_pretrained(f"zoo:{name}").predict(rows) == truth
    for write in (run.certify, partial(run.save_pretrained, f"zoo:{name}")):
        with pytest.raises(InputError, match="nothing is written to the zoo"):
            write()


def test_a_name_that_is_not_there() -> None:
    with pytest.raises(InputError, match=r"the zoo has no run 'partiy': did you mean parity\?"):
        csprop.load("zoo:partiy")
    with pytest.raises(InputError, match="the zoo has no run '': `csprop zoo` lists the runs"):
        load_certified("zoo:")
    assert name_of("parity") == name_of("zoo:parity") == "parity"


# Archives that were changed.


@pytest.fixture
def changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the archive of parity is read in a test, beside the index."""
    monkeypatch.setattr("csprop.zoo.archive.ASSETS", tmp_path)
    for name in ("index.json", "parity.zip", "mod3.zip"):
        (tmp_path / name).write_bytes((PACKED / name).read_bytes())
    return tmp_path / "parity.zip"


def write(path: Path, mend: bool, changes: dict[str, bytes | None]) -> None:
    """Change or remove files of an archive; with `mend`, change the manifest with them."""
    with zipfile.ZipFile(io.BytesIO(path.read_bytes())) as old:
        contents = {name: old.read(name) for name in old.namelist()} | changes
    present = {name: content for name, content in contents.items() if content is not None}
    if mend:
        digests = {name: digest(each) for name, each in present.items() if name != MANIFEST}
        present[MANIFEST] = as_json(digests)
    with zipfile.ZipFile(path, "w") as new:
        for name, content in present.items():
            new.writestr(name, content)


def refused() -> str:
    """Return the message about zoo:parity, with torch and without."""
    with pytest.raises(InputError) as without:
        load_certified("zoo:parity")
    with pytest.raises(InputError) as said:
        _ = csprop.load("zoo:parity").certificate
    assert str(said.value) == str(without.value)
    return str(said.value)


def test_the_copy_that_tests_change_is_itself_accepted(changed: Path) -> None:
    write(changed, True, {})
    run = load_certified("zoo:parity")
    assert run is not None
    assert run.certificate.proven


def test_an_archive_that_is_damaged_is_refused(changed: Path) -> None:
    content = changed.read_bytes()
    damaged = "zoo:parity: its archive is damaged: install csprop again"
    for wrong in (b"", b"no archive", content[:-100], content[:2000] + b"!" + content[2001:]):
        changed.write_bytes(wrong)
        assert refused() == damaged
    changed.write_bytes((PACKED / "mod3.zip").read_bytes())  # the run of another task
    assert refused() == damaged
    for name in (CERTIFICATE, "config.json"):
        changed.write_bytes(content)
        write(changed, False, {name: None})
        assert refused() == damaged
    changed.unlink()
    assert refused() == damaged


def test_a_file_that_was_replaced_is_refused(changed: Path) -> None:
    content = RunFolder("zoo:parity").read(LOCKED)
    write(changed, False, {LOCKED: content[:-1] + b"!"})
    assert "zoo:parity/locked.safetensors: does not match manifest.json" in refused()
    assert "install csprop again" in refused()


@pytest.mark.parametrize("other_task", [False, True])
def test_a_claim_that_does_not_hold_is_refused_although_every_digest_fits(
    changed: Path, other_task: bool
) -> None:
    """A wrong number, or the proof of another task."""
    document, weights = RunFolder("zoo:parity").read_json(CERTIFICATE), {}
    if other_task:
        mod3 = RunFolder("zoo:mod3")
        document = mod3.read_json(CERTIFICATE) | {"task": document["task"]}
        weights = {name: mod3.read(name) for name in (LOCKED, WEIGHTS)}
    else:
        document["minimal_states"] = 1
    write(changed, True, {**weights, CERTIFICATE: as_json(document)})
    assert refused().startswith("zoo:parity/certificate.json: does not hold: ")
    assert refused().endswith(": install csprop again")


# Reading needs no place to write.


def test_processes_read_it_at_once_and_none_writes(tmp_path: Path) -> None:
    for folder in ("work", "home"):
        (tmp_path / folder).mkdir(mode=0o555)
    # Temporary files, too, could be written only to folders that do not exist.
    gone = {name: str(tmp_path / "gone") for name in ("TMPDIR", "TEMP", "TMP")}
    home = {name: str(tmp_path / "home") for name in ("HOME", "USERPROFILE", "XDG_CACHE_HOME")}
    started = [
        subprocess.Popen(
            [sys.executable, "-m", "csprop", "predict", f"zoo:{name}"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            cwd=tmp_path / "work", env={**os.environ, **gone, **home},
        )
        for name in ("parity", "parity", "anbn", "parity")
    ]  # fmt: skip
    given = ("0110\n", "1\n", "aabb\n", "100\n")
    ends = [each.communicate(text) for each, text in zip(started, given, strict=True)]
    assert [said for said, _ in ends] == ["even\n", "odd\n", "yes\n", "odd\n"], ends
    assert not [*(tmp_path / "work").iterdir(), *(tmp_path / "home").iterdir()]
