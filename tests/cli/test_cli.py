"""The command line, in this process where that is enough, in one of its own where it is not."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from csprop import example, load, use_backend
from csprop.cli import train
from csprop.ops import native
from csprop.tasks import catalogue
from csprop.training.metrics import at_length
from csprop.training.workers import label_seeds, parse_seeds
from tests.cli.conftest import Shell
from tests.helpers.spoilt import spoil

TINY = ["--length", "6", "--samples", "60", "--width", "8", "--epochs", "4"]
PARITY = ["zoo:parity", "--as-trained"]


def test_eval_draws_the_sequences_of_its_seed(shell: Shell) -> None:
    """A model that has not learned is right on another number of each sample."""
    shell("train", "parity", *TINY, "--epochs", 1, "--as-trained", "--out", "r")
    run = load("r")
    for seed in (0, 3):
        (row,) = shell.json("eval", "r", "--lengths", "9", "--seed", seed)["scores"]
        assert row["loss"] == at_length(run.model, run.task, 9, seed).loss


def test_eval(shell: Shell) -> None:
    (score,) = shell.json("eval", *PARITY, "--exhaustive")["scores"]
    assert (score["length"], score["count"], score["wrong"]) == (16, 65_536, 0)
    counts = {}
    for asked in ([], ["--positions"]):
        rows = shell.json("eval", *PARITY, "--lengths", "1,2,17", *asked)["scores"]
        assert [(row["length"], row["positions"]) for row in rows] == [
            (length, bool(asked)) for length in (1, 2, 17)
        ]
        counts[bool(asked)] = [row["count"] for row in rows]
        shown = shell("eval", *PARITY, "--lengths", "1,17", *asked).out
        assert ("positions" if asked else "answers") in shown
    assert counts == {False: [2000] * 3, True: [2000, 4000, 34_000]}
    (score,) = shell.json("eval", *PARITY, "--exhaustive", "--lengths", 8, "--positions")["scores"]
    assert (score["count"], score["wrong"]) == (2048, 0)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["16,x"], "--lengths 16,x: write whole numbers"),
        (["16,0"], "--lengths 16,0: parity: has no sequences of length 0"),
        (["40", "--exhaustive"], "--lengths 40: length 40 has 2^40 inputs"),
    ],
)
def test_eval_refuses_before_it_works(shell: Shell, options: list[str], sentence: str) -> None:
    assert sentence in shell.refuse("eval", *PARITY, "--lengths", *options)


def test_predict(shell: Shell) -> None:
    said = shell("predict", *PARITY, typed="0110\n111\r\n 1 \n")
    assert said.out == "even\nodd\nodd\n"
    (answer,) = shell.json("predict", *PARITY, typed="10")["predictions"]
    assert (answer["sequence"], answer["prediction"]) == ("10", "odd")
    assert sum(answer["probabilities"].values()) == pytest.approx(1)
    assert shell("predict", *PARITY).out == ""


@pytest.mark.parametrize(
    ("typed", "sentence"),
    [("01\n012\n", "stdin line 2: token '2' at position 3"), ("01\n\n1\n", "stdin line 2: .* empty")],
)
def test_predict_names_the_line(shell: Shell, typed: str, sentence: str) -> None:
    said = shell("predict", *PARITY, typed=typed, code=2)
    assert said.out == "odd\n"  # the line before was answered
    assert re.search(sentence, said.err)
    assert said.err.count("\n") == 1


def test_train_json_is_one_document_and_progress_goes_to_stderr(shell: Shell) -> None:
    said = shell("train", "mod3", *TINY, "--json")
    result = json.loads(said.out)
    assert (result["run"], result["epochs"], result["seed"]) == ("runs/mod3", 4, 0)
    assert len(re.findall(r"epoch +\d/4", said.err)) == 4
    assert "trained until the last epoch" in said.err
    assert (shell.folder / "runs" / "mod3" / "model.safetensors").exists()


def test_several_seeds_have_runs_of_their_own(shell: Shell) -> None:
    command = ["train", "parity", *TINY, "--as-trained", "--out"]
    runs = [row["run"] for row in shell.json(*command, "r", "--seeds", "0,2-3")]
    assert runs == ["r/seed-0", "r/seed-2", "r/seed-3"]
    shell(*command, "alone", "--seed", 2)
    alone, together = (load_file(f"{run}/model.safetensors") for run in ("alone", "r/seed-2"))
    for name, want in alone.items():
        torch.testing.assert_close(together[name], want, rtol=1e-3, atol=1e-5)
    shell(*command, "r", "--seeds", "0,2-4", "--resume")
    assert Path("r/seed-4/result.json").exists()
    said = shell.refuse(*command, "r", "--seeds", "5-6,3")
    assert "r/seed-3: already holds a run" in said


def test_seeds_are_shared_out_among_processes(shell: Shell) -> None:
    command = ["train", "parity", *TINY, "--seeds", "0-2", "--out"]
    two = shell.json(*command, "two", "--workers", 2)
    one = shell.json(*command, "one", "--workers", 1)
    assert [row["seed"] for row in two] == [0, 1, 2]
    for name in ("accuracy", "proven", "verdict"):
        assert [row[name] for row in two] == [row[name] for row in one]


def test_one_option_changes_one_part(shell: Shell) -> None:
    options = ["--rotate", "none", "--no-skip", "--decay", "exp", "--lr", "0.02"]
    shell("train", "parity", *TINY, *options, "--preset", "paper", "--out", "r")
    config = json.loads(Path("r/config.json").read_text())
    cell = config["model"]["cells"][0]
    assert (cell["rotate"], cell["skip"]) == ("none", False)
    assert (cell["decay"], config["model"]["decoder"]) == ("exp", "cos_sin")
    assert (config["recipe"]["lr"], config["recipe"]["split"]) == (0.02, "paper")


@pytest.mark.parametrize("flag", ["--recall", "--no-recall", "--no-skip"])
def test_a_flag_before_the_task_does_not_hide_it(flag: str) -> None:
    chosen = train.parse([flag, "group-S3"])
    assert (chosen.task, len(chosen.changes)) == ("group-S3", 1)


def test_a_run_goes_on_with_its_own_task_alone(shell: Shell) -> None:
    rows = "01,odd\n0,even\n11,even\n1,odd\n00,even\n10,odd\n"
    for name in ("parity.csv", "other.csv"):
        Path(name).write_text(rows)

    def last_words(*argv: str) -> str:
        return shell("train", *argv, *TINY, "--resume", code=2).err.splitlines()[-1]

    shell("train", "parity", *TINY, "--out", "built-in")
    shell("train", "--data", "parity.csv", *TINY, "--out", "own")
    said = last_words("--data", "parity.csv", "--out", "built-in")
    assert said.startswith("csprop train: built-in: was trained on parity, not on ")
    assert "parity.csv, not on parity:" in last_words("parity", "--out", "own")
    assert "parity.csv, not on" in last_words("--data", "other.csv", "--out", "own")
    Path("parity.csv").write_text(rows.replace("01,odd", "01,even"))
    said = last_words("--data", "parity.csv", "--out", "own")
    assert "parity.csv: has changed since training: restore the file" in said


def test_resume_needs_only_the_folder(shell: Shell) -> None:
    command = ["train", "parity", *TINY, "--hold", "0", "--out", "r"]
    shell(*command, "--lr", "0.02")
    assert shell.json("train", "--resume", "--out", "r", "--epochs", "6")["epochs"] == 6
    said = shell.refuse(*command, "--resume")
    assert "--lr 0.01: r was trained with 0.02: use the same value" in said
    said = shell.refuse("train", "--resume", "--out", "r", "--rotate", "input")
    assert "--rotate: rotate is an option of the cell paper; the preset rotor has rotor" in said


@pytest.mark.parametrize("preset", ["router", "counter", "paper"])
def test_every_preset_resumes_with_its_own_options(shell: Shell, preset: str) -> None:
    options = ["--length", 6, "--samples", 60, "--hold", 0, "--width", 4, "--preset", preset]
    shell("train", "parity", *options, "--epochs", 3, "--out", "whole")
    shell("train", "parity", *options, "--epochs", 1, "--out", "r")
    shell("train", "--resume", "--out", "r", "--epochs", 3)
    weights = [Path(run, "model.safetensors").read_bytes() for run in ("whole", "r")]
    assert weights[0] == weights[1]


def test_missing_an_explicit_target_is_exit_1(shell: Shell) -> None:
    options = ["--preset", "paper", "--target", "1.0", "--out", "r"]
    assert "is below the target 100.00%" in shell("train", "parity", *TINY, *options, code=1).err
    shell("train", "parity", *TINY, "--target", "0", "--out", "s")


def test_divergence_is_exit_1(shell: Shell) -> None:
    spoil(shell.monkeypatch)
    err = shell("train", "parity", *TINY, "--out", "r", code=1).err
    assert "epoch 1, step 0: the loss is nan" in err
    assert "r/diagnosis.json" in err
    assert Path("r/diagnosis.json").exists()


@pytest.mark.skipif(bool(native.WHY_NOT), reason=native.WHY_NOT)
@pytest.mark.parametrize(("backend", "because"), [("native", ""), ("torch", "the backend is torch")])
def test_train_and_info_say_where_steps_are_torch_operations(
    shell: Shell, backend: Any, because: str
) -> None:
    with use_backend(backend):
        said = shell("train", "parity", *TINY, "--json")
        assert json.loads(said.out)["torch_because"] == because
        assert ("its steps were torch operations: the backend is torch" in said.err) == bool(because)
        assert ("torch operations" in shell.json("info")["step"]) == bool(because)


def test_a_file_of_ones_own(shell: Shell) -> None:
    rows = [
        {"sequence": ["open"] * n + ["close"] * m, "label": "ok" if n == m else "bad"}
        for n in range(6)
        for m in range(6)
        if n + m
    ]
    Path("events.jsonl").write_text("\n".join(map(json.dumps, rows)))
    said = shell("train", "--data", "events.jsonl", "--epochs", 3).err
    assert said.startswith("tokens: close, open\n35 rows of 1 to 10 tokens (median 5), 0 of them")
    assert "\nlabels: one for each row; in the end: bad 30, ok 5\n" in said
    (score,) = shell.json("eval", "runs/events")["scores"]
    assert score["over"] == "held-out rows of events.jsonl"
    scores = shell.json("eval", "runs/events", "--data", "events.jsonl")["scores"]
    assert scores[0]["count"] == 35
    assert set(shell.predict("runs/events", ["open close", "open"])) <= {"ok", "bad"}
    for asked in (["--lengths", "3"], ["--exhaustive"], ["--positions"]):
        said = shell.refuse("eval", "runs/events", *asked)
        assert "a data file gives the correct class of its rows only" in said
    Path("other.csv").write_text("open close,fine\n")
    said = shell.refuse("eval", "runs/events", "--data", "other.csv")
    assert "other.csv row 1: the label 'fine' is unknown: write bad, ok" in said
    Path("events.jsonl").write_text("")
    assert "has changed since training" in shell.refuse("eval", "runs/events")


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        ("trian", "there is no command 'trian': did you mean train?"),
        ("train", "give either a TASK, such as parity, or --data FILE"),
        ("train parity --data x.csv", "give either a TASK, such as parity, or --data FILE"),
        ("train nought", "there is no task 'nought': `csprop tasks` lists all"),
        ("train partiy", "there is no task 'partiy': did you mean parity?"),
        ("train parity --epoch 5", "there is no option --epoch: did you mean --epochs?"),
        ("train parity --preset rotors", "--preset rotors: did you mean rotor? Write rotor,"),
        ("train parity --epochs", "--epochs lacks its value: write --epochs N"),
        ("train parity --json=1", "--json takes no value"),
        ("train parity mod3", "'mod3' is one argument too many: write csprop train TASK or"),
        ("train parity --preset paper --order 3", "--order: order is an option of the cell rotor"),
        ("train parity --preset router --places 7", "--places 7: does not divide the width, 32,"),
        ("certify", "RUN is missing: write csprop certify RUN..."),
        ("report r", "--out is missing: write csprop report RUN... --out FILE.html"),
        ("learn door.csv", "door.csv: there is no such file: `csprop example door.csv` writes it"),
        ("compile machine.json --out r", "`csprop example machine.json` writes it"),
        ("train parity --width 0", "--width 0: out of range: write 1 to 65536"),
        ("train parity --schedule cosine --last-lr 1", "--last-lr 1: it is above the first learning"),
        ("train parity --seed 3 --seeds 10", "--seed and --seeds exclude each other"),
        ("train parity --workers 2", "--workers needs several seeds: add --seeds"),
        ("train parity --seeds 0-999999999", "--seeds 0-999999999: write at most 10,000"),
        ("train parity --seeds 3-1", "write a range such as 0-9"),
        ("train parenthesis --length 15", "no sequences of length 15"),
        ("train --data none.jsonl", "none.jsonl: there is no such file"),
        ("train --resume --out nowhere", "nowhere: is not a run"),
        ("train --resume", "--resume needs the run to continue: add --out DIR"),
        ("train parity --out /proc/nowhere", "/proc/nowhere"),
        ("eval nowhere", "nowhere: is not a run: there is no config.json in it"),
        ("info --colour", "--colour"),
        ("train parity --out=", "--out is empty: write a name after it"),
        (f"learn {example('events.jsonl')} --length 5", "--length 5: "),
    ],
)
def test_bad_usage_is_one_sentence_and_exit_2(shell: Shell, argv: str, sentence: str) -> None:
    assert sentence in shell.refuse(*argv.split())


def test_a_path_of_two_lines_is_told_in_one(shell: Shell) -> None:
    assert "a b.jsonl: there is no such file" in shell.refuse("train", "--data", "a\nb.jsonl")


def test_a_file_in_the_way_is_kept(shell: Shell) -> None:
    Path("file").write_text("precious")
    assert "file" in shell.refuse("train", "parity", *TINY, "--out", "file")
    assert Path("file").read_text() == "precious"


def test_seeds() -> None:
    assert parse_seeds("0-2,2,7") == [0, 1, 2, 7]
    assert label_seeds("parity", [0, 1, 2, 7]) == "parity worst of 0-2,7"


def test_a_run_that_has_not_learned_says_so_in_one_sentence(shell: Shell) -> None:
    blind = ["--preset", "paper", "--epochs", "3", "--samples", "2000"]
    said = shell("train", "parity", *blind, "--out", "blind", "--json")
    result = json.loads(said.out)
    assert not result["learned"]
    assert 0.5 <= result["commonest"]["share"] < 0.55
    (hint,) = [line for line in said.err.splitlines() if "has not learned" in line]
    assert hint.startswith("blind: has not learned: ")
    assert f"always answering '{result['commonest']['class']}' gives 5" in hint
    assert "--preset router" in hint
    assert hint.endswith("more epochs: add --resume --epochs 6")
    falling = [*blind, "--schedule", "cosine", "--out", "falling"]
    err = shell("train", "parity", *falling).err
    assert "more epochs: choose another --out, and add --epochs 6\n" in err
    err = shell.refuse("train", "--resume", "--out", "falling", "--epochs", "6")
    assert "its schedule cosine ends with them" in err


def test_tasks_and_info(shell: Shell) -> None:
    names = [task["name"] for task in shell.json("tasks")["tasks"]]
    assert names == [task.name for task in catalogue()]
    assert {"parity", "tomita-7", "parenthesis", "group-A5", "solve-equation"} < set(names)
    assert shell.json("info").keys() >= {"csprop", "torch", "backend", "threads", "cpu"}
    table = shell.words("tasks")
    assert all(name in table for name in names)


def csprop(*argv: str, **options: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "csprop.cli.main", *argv]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, **options)


@pytest.mark.parametrize(("environment", "threads"), [({}, 1), ({"OMP_NUM_THREADS": "2"}, 2)])
def test_one_thread_unless_the_environment_says_otherwise(
    environment: dict[str, str], threads: int
) -> None:
    inherited = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    result = csprop("info", "--json", env=inherited | environment)
    assert json.loads(result.stdout)["threads"] == threads


def test_a_reader_that_goes_away_is_no_traceback() -> None:
    predict = f"{sys.executable} -m csprop.cli.main predict zoo:parity"
    command = f"yes 0110 | head -2000 | {predict} | head -1"
    result = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=120)
    assert result.stdout == "even\n"
    assert "Traceback" not in result.stderr
