"""The command line, in this process where that is enough, in one of its own where it is not."""

import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from csprop import load, use_backend
from csprop.cli import train
from csprop.cli.main import VERBS, main
from csprop.ops import native
from csprop.training.metrics import at_length
from csprop.training.workers import label_seeds, parse_seeds
from tests.helpers.spoilt import spoil

TINY = ["--length", "6", "--samples", "60", "--width", "8", "--epochs", "4"]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that knows parity."""
    out = tmp_path_factory.mktemp("runs") / "parity"
    assert main(["train", "parity", "--samples", "1000", "--out", str(out)]) == 0
    return out


def document(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)


def refused(argv: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """Exit 2, nothing on stdout, one sentence on stderr."""
    capsys.readouterr()
    assert main(argv) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert said.err.startswith("csprop")
    return said.err


def test_eval_draws_the_sequences_of_its_seed(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A model that has not learned is right on another number of each sample."""
    assert main(["train", "parity", *TINY, "--epochs", "1", "--out", "r"]) == 0
    run = load("r")
    for seed in (0, 3):
        capsys.readouterr()
        assert main(["eval", "r", "--lengths", "9", "--seed", str(seed), "--json"]) == 0
        (row,) = document(capsys)["scores"]
        assert row["loss"] == at_length(run.model, run.task, 9, seed).loss


def test_train_eval_and_predict(
    trained: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["eval", str(trained), "--exhaustive", "--json"]) == 0
    (score,) = document(capsys)["scores"]
    assert (score["length"], score["count"], score["wrong"]) == (16, 65_536, 0)
    assert main(["eval", str(trained), "--lengths", "1,2,17", "--json"]) == 0
    assert [row["length"] for row in document(capsys)["scores"]] == [1, 2, 17]
    monkeypatch.setattr(sys, "stdin", io.StringIO("0110\n111\r\n 1 \n"))
    assert main(["predict", str(trained)]) == 0
    assert capsys.readouterr().out == "even\nodd\nodd\n"
    monkeypatch.setattr(sys, "stdin", io.StringIO("10"))
    assert main(["predict", str(trained), "--json"]) == 0
    (answer,) = document(capsys)["predictions"]
    assert (answer["sequence"], answer["prediction"]) == ("10", "odd")
    assert sum(answer["probabilities"].values()) == pytest.approx(1)
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    assert main(["predict", str(trained)]) == 0
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("typed", "sentence"),
    [("01\n012\n", "stdin line 2: token '2' at position 3"), ("01\n\n1\n", "stdin line 2: .* empty")],
)
def test_predict_names_the_line(
    trained: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    typed: str,
    sentence: str,
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(typed))
    capsys.readouterr()
    assert main(["predict", str(trained)]) == 2
    said = capsys.readouterr()
    assert said.out == "odd\n"  # the line before was answered
    assert re.search(sentence, said.err)
    assert said.err.count("\n") == 1


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help_and_json(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main([verb, "--help"])
    assert stopped.value.code == 0
    assert "--json" in capsys.readouterr().out


def test_train_json_is_one_document_and_progress_goes_to_stderr(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", "mod3", *TINY, "--json"]) == 0
    said = capsys.readouterr()
    result = json.loads(said.out)
    assert (result["run"], result["epochs"], result["seed"]) == ("runs/mod3", 4, 0)
    assert len(re.findall(r"epoch +\d/4", said.err)) == 4
    assert "trained until the last epoch" in said.err
    assert (here / "runs" / "mod3" / "model.safetensors").exists()


def test_several_seeds_have_runs_of_their_own(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "parity", *TINY, "--seeds", "0,2-3", "--out", "r", "--json"]) == 0
    assert [row["run"] for row in document(capsys)] == ["r/seed-0", "r/seed-2", "r/seed-3"]
    assert main(["train", "parity", *TINY, "--seed", "2", "--out", "alone"]) == 0
    alone, together = (load_file(here / run / "model.safetensors") for run in ("alone", "r/seed-2"))
    for name, want in alone.items():
        torch.testing.assert_close(together[name], want, rtol=1e-3, atol=1e-5)
    assert main(["train", "parity", *TINY, "--seeds", "0,2-4", "--out", "r", "--resume"]) == 0
    assert (here / "r" / "seed-4" / "result.json").exists()
    capsys.readouterr()
    assert main(["train", "parity", *TINY, "--seeds", "5-6,3", "--out", "r"]) == 2
    assert "r/seed-3: already holds a run" in capsys.readouterr().err
    assert not (here / "r" / "seed-5").exists()


def test_seeds_are_shared_out_among_processes(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["train", "parity", *TINY, "--seeds", "0-2", "--json", "--out"]
    assert main([*command, "two", "--workers", "2"]) == 0
    two = document(capsys)
    assert main([*command, "one", "--workers", "1"]) == 0
    one = document(capsys)
    assert [row["seed"] for row in two] == [0, 1, 2]
    assert [row["accuracy"] for row in two] == [row["accuracy"] for row in one]
    assert main([*command, "none", "--workers", "0"]) == 2
    assert "--workers 0: write 1 to 1024" in capsys.readouterr().err


def test_one_option_changes_one_part(here: Path) -> None:
    options = ["--rotate", "none", "--no-skip", "--decay", "exp", "--lr", "0.02"]
    assert main(["train", "parity", *TINY, *options, "--preset", "paper", "--out", "r"]) == 0
    config = json.loads((here / "r" / "config.json").read_text())
    cell = config["model"]["cells"][0]
    assert (cell["rotate"], cell["skip"]) == ("none", False)
    assert (cell["decay"], config["model"]["decoder"]) == ("exp", "cos_sin")
    assert (config["recipe"]["lr"], config["recipe"]["split"]) == (0.02, "paper")


def test_a_flag_before_the_task_does_not_hide_it() -> None:
    for flags in (["--recall"], ["--no-recall"], ["--no-skip"]):
        chosen = train.parse([*flags, "group-S3"])
        assert (chosen.task, chosen.preset) == ("group-S3", "rotor"), flags


def test_a_run_goes_on_with_its_own_task_alone(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = "01,odd\n0,even\n11,even\n1,odd\n00,even\n10,odd\n"
    for name in ("parity.csv", "other.csv"):
        (here / name).write_text(rows)

    def last_words(*argv: str) -> str:
        capsys.readouterr()
        assert main(["train", *argv, *TINY, "--resume"]) == 2
        return capsys.readouterr().err.splitlines()[-1]

    assert main(["train", "parity", *TINY, "--out", "built-in"]) == 0
    assert main(["train", "--data", "parity.csv", *TINY, "--out", "own"]) == 0
    said = last_words("--data", "parity.csv", "--out", "built-in")
    assert said.startswith("csprop train: built-in: was trained on parity, not on ")
    assert "parity.csv, not on parity:" in last_words("parity", "--out", "own")
    assert "parity.csv, not on" in last_words("--data", "other.csv", "--out", "own")
    (here / "parity.csv").write_text(rows.replace("01,odd", "01,even"))
    said = last_words("--data", "parity.csv", "--out", "own")
    assert "parity.csv: has changed since training: restore the file" in said


def test_a_resumed_run_refuses_options_of_other_cells(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", "parity", *TINY, "--out", "r"]) == 0
    assert main(["train", "--resume", "--out", "r", "--rotate", "input"]) == 2
    assert "an option of the cell paper" in capsys.readouterr().err.splitlines()[-1]


def test_resume_needs_only_the_folder(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "parity", *TINY, "--hold", "0", "--out", "r", "--lr", "0.02"]) == 0
    capsys.readouterr()
    assert main(["train", "--resume", "--out", "r", "--epochs", "6", "--json"]) == 0
    assert document(capsys)["epochs"] == 6
    again = ["train", "parity", *TINY, "--hold", "0", "--out", "r", "--resume"]
    assert "--lr 0.01: r was trained with 0.02: use the same value" in refused(again, capsys)


def test_missing_an_explicit_target_is_exit_1(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--preset", "paper", "--target", "1.0", "--out", "r"]
    assert main(["train", "parity", *TINY, *options]) == 1
    assert "is below the target 100.00%" in capsys.readouterr().err
    assert main(["train", "parity", *TINY, "--target", "0", "--out", "s"]) == 0


def test_divergence_is_exit_1(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    spoil(monkeypatch)
    assert main(["train", "parity", *TINY, "--out", "r"]) == 1
    err = capsys.readouterr().err
    assert "epoch 1, step 0: the loss is nan" in err
    assert "r/diagnosis.json" in err
    assert (here / "r" / "diagnosis.json").exists()


@pytest.mark.skipif(bool(native.WHY_NOT), reason=native.WHY_NOT)
def test_train_and_info_say_where_steps_are_torch_operations(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for backend, because in (("native", ""), ("torch", "the backend is torch")):
        with use_backend(backend):
            assert main(["train", "parity", *TINY, "--out", backend, "--json"]) == 0
            out, err = capsys.readouterr()
            assert json.loads(out)["torch_because"] == because
            assert ("its steps were torch operations: the backend is torch" in err) == bool(because)
            assert main(["info", "--json"]) == 0
            assert ("torch operations" in document(capsys)["step"]) == bool(because)


def test_a_file_of_ones_own(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [
        {"sequence": ["open"] * n + ["close"] * m, "label": "ok" if n == m else "bad"}
        for n in range(6)
        for m in range(6)
        if n + m
    ]
    Path("events.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert main(["train", "--data", "events.jsonl", "--epochs", "3"]) == 0
    capsys.readouterr()
    assert main(["eval", "runs/events", "--json"]) == 0
    (score,) = document(capsys)["scores"]
    assert score["over"] == "held-out rows of events.jsonl"
    assert main(["eval", "runs/events", "--data", "events.jsonl", "--json"]) == 0
    assert document(capsys)["scores"][0]["count"] == 35
    monkeypatch.setattr(sys, "stdin", io.StringIO("open close\nopen\n"))
    assert main(["predict", "runs/events"]) == 0
    assert set(capsys.readouterr().out.split()) <= {"ok", "bad"}
    for asked in (["--lengths", "3"], ["--exhaustive"], ["--positions"]):
        said = refused(["eval", "runs/events", *asked], capsys)
        assert "a data file gives the correct class of its rows only" in said
    Path("other.csv").write_text("open close,fine\n")
    asked = ["eval", "runs/events", "--data", "other.csv"]
    assert "other.csv row 1: the label 'fine' is unknown: write bad, ok" in refused(asked, capsys)
    Path("events.jsonl").write_text("")
    assert "has changed since training" in refused(["eval", "runs/events"], capsys)


@pytest.mark.parametrize(
    "argv",
    [
        ["train", "parity", *TINY],
        ["train", "--resume"],
        ["learn", "tomita-1"],
        ["compile", "door.json"],
        ["report", "runs/parity"],
        ["reproduce", "--quick"],
        ["demo"],
    ],
)
def test_an_empty_out_is_refused_and_nothing_is_written(
    here: Path, capsys: pytest.CaptureFixture[str], argv: list[str]
) -> None:
    for out in (["--out", ""], ["--out="]):
        assert "--out is empty: write a name after it" in refused([*argv, *out], capsys)
    assert list(here.iterdir()) == []


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        (["trian"], "there is no command 'trian': did you mean train?"),
        (["train"], "give either a TASK, such as parity, or --data FILE"),
        (["train", "parity", "--data", "x.csv"], "give either a TASK, such as parity, or --data FILE"),
        (["train", "nought"], "there is no task 'nought': `csprop tasks` lists all"),
        (["train", "partiy"], "there is no task 'partiy': did you mean parity?"),
        (["learn", "group-a5"], "there is no task 'group-a5': did you mean group-A5?"),
        (["train", "parity", "--epoch", "5"], "there is no option --epoch: did you mean --epochs?"),
        (
            ["train", "parity", "--preset", "rotors"],
            "--preset rotors: did you mean rotor? Write rotor,",
        ),
        (["train", "parity", "--epochs"], "--epochs lacks its value: write --epochs N"),
        (["train", "parity", "--json=1"], "--json takes no value"),
        (["train", "parity", "mod3"], "'mod3' is one argument too many: write csprop train TASK or"),
        (
            ["train", "parity", "--preset", "paper", "--order", "3"],
            "--order: order is an option of the cell rotor; the preset paper has paper",
        ),
        (
            ["train", "parity", "--preset", "router", "--places", "7"],
            "--places 7: does not divide the width, 32, into groups: choose a divisor",
        ),
        (["certify"], "RUN is missing: write csprop certify RUN..."),
        (["report", "r"], "--out is missing: write csprop report RUN... --out FILE.html"),
        (["learn", "door.csv"], "door.csv: there is no such file: `csprop example door.csv` writes it"),
        (["compile", "machine.json", "--out", "r"], "`csprop example machine.json` writes it"),
        (["train", "parity", "--widht", "3"], "there is no option --widht: did you mean --width?"),
        (["train", "parity", "--width", "0"], "--width 0: out of range: write 1 to 65536"),
        (["train", "parity", "--rotate", "both"], "--rotate both: write input, state or none"),
        (["train", "parity", "--lr", "fast"], "--lr fast: write a number"),
        (["train", "parity", "--lr", "nan"], "--lr nan: write a number above 0"),
        (["train", "parity", "--weight-decay", "-1"], "--weight-decay -1: write a number from 0 on"),
        (["train", "parity", "--last-lr", "inf"], "--last-lr inf: write a number from 0 on"),
        (
            ["train", "parity", "--schedule", "cosine", "--last-lr", "1"],
            "--last-lr 1: it is above the first learning rate: write 0 to 0.01",
        ),
        (["train", "parity", "--seed", "-1"], "--seed -1: write a whole number from 0 on"),
        (["train", "parity", "--depth", "1000000"], "--depth 1000000: out of range"),
        (["train", "parity", "--length", "1000000000"], "--length 1000000000: out of range"),
        (["train", "parity", "--seeds", "0-999999999"], "--seeds 0-999999999: write at most 10,000"),
        (["train", "--data", "a\nb.jsonl"], "a b.jsonl: there is no such file"),
        (["train", "parity", "--seeds", "3-1"], "write a range such as 0-9"),
        (["train", "parenthesis", "--length", "15"], "no sequences of length 15"),
        (["train", "--data", "none.jsonl"], "none.jsonl: there is no such file"),
        (["train", "--resume", "--out", "nowhere"], "nowhere: is not a run"),
        (["eval", "nowhere"], "nowhere: is not a run: there is no config.json in it"),
        (["eval"], "RUN is missing: write csprop eval RUN"),
        (["predict", "nowhere"], "nowhere: is not a run"),
        (["info", "--colour"], "--colour"),
    ],
)
def test_bad_usage_is_one_sentence_and_exit_2(
    here: Path, argv: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sentence in refused(argv, capsys)
    assert list(here.iterdir()) == []


def test_eval_counts_the_answers_at_all_positions_if_it_is_asked_to(
    trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    counts = {}
    for asked in ([], ["--positions"]):
        assert main(["eval", str(trained), "--lengths", "1,17", *asked, "--json"]) == 0
        rows = document(capsys)["scores"]
        assert [row["positions"] for row in rows] == [bool(asked)] * 2
        counts[bool(asked)] = [row["count"] for row in rows]
        assert main(["eval", str(trained), "--lengths", "1,17", *asked]) == 0
        assert ("positions" if asked else "answers") in capsys.readouterr().out
    assert counts == {False: [2000, 2000], True: [2000, 34_000]}
    assert main(["eval", str(trained), "--exhaustive", "--lengths", "8", "--positions", "--json"]) == 0
    (score,) = document(capsys)["scores"]
    assert (score["count"], score["wrong"]) == (2048, 0)


def test_eval_refuses_before_it_works(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = str(trained)
    assert "write whole numbers" in refused(["eval", run, "--lengths", "16,x"], capsys)
    assert "--lengths 16,0: parity: has no sequences of length 0" in refused(
        ["eval", run, "--lengths", "16,0"], capsys
    )
    assert "--lengths 40: length 40 has 2^40 inputs" in refused(
        ["eval", run, "--lengths", "40", "--exhaustive"], capsys
    )


def test_an_unwritable_folder_is_refused(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "file").write_text("precious")
    err = refused(["train", "parity", *TINY, "--out", "file"], capsys)
    assert "file" in err
    err = refused(["train", "parity", *TINY, "--out", "/proc/nowhere"], capsys)
    assert "/proc/nowhere" in err
    assert (here / "file").read_text() == "precious"


def test_seeds() -> None:
    assert parse_seeds("0-2,2,7") == [0, 1, 2, 7]
    assert label_seeds("parity", [0, 1, 2, 7]) == "parity worst of 0-2,7"


def test_two_ways_to_say_which_seed_are_one_too_many(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    err = refused(["train", "parity", *TINY, "--seeds", "10", "--seed", "3"], capsys)
    assert "--seed and --seeds exclude each other" in err


def test_a_run_that_has_not_learned_says_so_in_one_sentence(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    blind = ["--preset", "paper", "--epochs", "3", "--samples", "2000"]
    assert main(["train", "parity", *blind, "--out", "blind", "--json"]) == 0
    said = capsys.readouterr()
    result = json.loads(said.out)
    assert not result["learned"]
    assert 0.5 <= result["commonest"]["share"] < 0.55
    (hint,) = [line for line in said.err.splitlines() if "has not learned" in line]
    assert hint.startswith("blind: has not learned: ")
    assert f"always answering '{result['commonest']['class']}' gives 5" in hint
    assert "--preset router" in hint
    assert hint.endswith("more epochs: add --resume --epochs 6")
    falling = [*blind, "--schedule", "cosine"]
    assert main(["train", "parity", *falling, "--out", "falling"]) == 0
    err = capsys.readouterr().err
    assert "more epochs: choose another --out, and add --epochs 6\n" in err
    assert main(["train", "--resume", "--out", "falling", "--epochs", "6"]) == 2
    assert "its schedule cosine ends with them" in capsys.readouterr().err


def test_a_run_that_has_learned_gets_no_hint(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    again = ["train", "--resume", "--out", str(trained), "--json"]
    capsys.readouterr()
    assert main(again) == 0
    said = capsys.readouterr()
    assert json.loads(said.out)["learned"]
    assert "learned" not in said.err


def test_training_at_lengths_up_to_twelve_and_testing_beyond(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    short = ["--length", "12", "--lengths", "drawn", "--samples", "600", "--epochs", "3"]
    for task in ("modular-arithmetic", "tomita-5", "parenthesis"):
        assert main(["train", task, *short, "--out", task, "--json"]) == 0
        assert document(capsys)["epochs"] == 3
        assert main(["eval", task, "--lengths", "12,64,128", "--json"]) == 0
        assert [row["length"] for row in document(capsys)["scores"]] == [12, 64, 128]


def test_tasks_and_info(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tasks", "--json"]) == 0
    names = [task["name"] for task in document(capsys)["tasks"]]
    counting = ["parity", "mod3", "mod3-residue", "mod3-reset", "cycle-nav"]
    others = ["flip-flop", "flip-flop-language", "even-pairs"]
    others += ["modular-arithmetic", "modular-arithmetic-precedence"]
    others += [f"tomita-{number}" for number in range(1, 8)]
    others += ["parenthesis", "parenthesis-words", "parenthesis-prefix", "interleaved", "nested-3"]
    others += ["anbn", "anb2n", "anbncn", "anbncndn", "anbmcnm", "majority"]
    groups = ["group-S3", "group-A4", "group-S4", "group-A5", "group-S5", "group-S3xS3"]
    groups += ["group-C60"]
    whole = ["modular-arithmetic-brackets", "solve-equation", "missing-duplicate"]
    assert names == counting + others + groups + whole
    assert main(["info", "--json"]) == 0
    assert document(capsys).keys() >= {"csprop", "torch", "backend", "threads", "cpu"}
    assert main(["tasks"]) == 0
    table = capsys.readouterr().out
    assert max(map(len, table.splitlines())) <= 80
    assert all(name in table for name in names)


def csprop(*argv: str, **options: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "csprop.cli.main", *argv]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, **options)


def test_one_thread_unless_the_environment_says_otherwise() -> None:
    for environment, threads in (({}, 1), ({"OMP_NUM_THREADS": "2"}, 2)):
        inherited = {k: v for k, v in os.environ.items() if k != "OMP_NUM_THREADS"}
        result = csprop("info", "--json", env=inherited | environment)
        assert json.loads(result.stdout)["threads"] == threads


def test_help_does_not_wait_for_torch(tmp_path: Path) -> None:
    code = (
        "import sys; from csprop.cli.main import main; main(['--help']);\n"
        "try: main(['train', '--help'])\nexcept SystemExit: pass\n"
        "assert 'torch' not in sys.modules"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0


def test_kill_9_and_resume_from_the_shell(tmp_path: Path) -> None:
    options = ["train", "parity", *TINY, "--epochs", "15", "--hold", "0"]
    assert csprop(*options, "--out", str(tmp_path / "whole")).returncode == 0
    command = [sys.executable, "-m", "csprop.cli.main", *options, "--out", str(tmp_path / "killed")]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        while not (tmp_path / "killed" / "last" / "state.safetensors").exists():
            time.sleep(0.005)
        os.kill(process.pid, signal.SIGKILL)
    assert not (tmp_path / "killed" / "result.json").exists()
    resumed = csprop("train", "--resume", "--out", str(tmp_path / "killed"))
    assert resumed.returncode == 0, resumed.stderr
    weights = [(tmp_path / run / "model.safetensors").read_bytes() for run in ("whole", "killed")]
    assert weights[0] == weights[1]


def test_a_reader_that_goes_away_is_no_traceback(trained: Path) -> None:
    command = f"yes 0110 | head -2000 | {sys.executable} -m csprop.cli.main predict {trained} | head -1"
    result = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=120)
    assert result.stdout == "even\n"
    assert "Traceback" not in result.stderr
