"""Several processes that train one model, beside one process that trains it alone.

There are two launches, because each process imports torch: torchrun with the command, and three
processes that do all that tests/helpers/together.py says.
"""

import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch

import csprop
from csprop.cli.main import main
from csprop.errors import InputError
from csprop.training import batches
from csprop.training.batches import training_data
from tests.helpers.together import JOBS, SMALL, numbers, train

ROOT = Path(__file__).parents[2]
SIZE = 3
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not torch.distributed.is_available() or not torch.distributed.is_gloo_available(),
        reason="this torch has no gloo",
    ),
]


def free_port() -> str:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return str(taken.getsockname()[1])


def surroundings(**more: str) -> dict[str, str]:
    path = os.pathsep.join([str(Path(csprop.__file__).parents[1]), str(ROOT)])
    return os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1", **more}


def write_rows(folder: Path) -> Path:
    """Rows of very different lengths, of which some have a label at every token."""
    draw, path = Random(0), folder / "rows.jsonl"
    with path.open("w") as file:
        for _ in range(220):
            tokens = draw.choices("ab", k=draw.choice([4, 5, 6, 7, 8, 60]))
            seen = ["odd" if tokens[: n + 1].count("b") % 2 else "even" for n in range(len(tokens))]
            label = seen if draw.random() < 0.5 else seen[-1]
            print(json.dumps({"sequence": "".join(tokens), "label": label}), file=file)
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where three processes have done their work."""
    folder = tmp_path_factory.mktemp("together")
    write_rows(folder)
    port, command = free_port(), [sys.executable, "-m", "tests.helpers.together", str(folder)]
    processes = [
        subprocess.Popen(
            command, cwd=ROOT, stderr=subprocess.PIPE, text=True,
            env=surroundings(
                RANK=str(rank), WORLD_SIZE=str(SIZE), MASTER_ADDR="127.0.0.1", MASTER_PORT=port
            ),
        )
        for rank in range(SIZE)
    ]  # fmt: skip
    try:
        said = [process.communicate(timeout=240)[1] for process in processes]
    finally:
        for process in processes:
            process.kill()
    codes = [process.returncode for process in processes]
    assert codes == [0, 0, -9], "\n".join(said)
    return folder


@pytest.fixture(scope="module")
def found(folder: Path) -> list[dict[str, Any]]:
    return [json.loads((folder / f"rank-{rank}.json").read_text()) for rank in range(SIZE)]


def assert_near(one: dict[str, Any], other: dict[str, Any]) -> None:
    """The same curves and weights, up to rounding."""
    assert len(one["metrics"]) == len(other["metrics"]) == SMALL["epochs"]
    for a, b in zip(one["metrics"], other["metrics"], strict=True):
        assert a.keys() == b.keys()
        assert {name: a[name] for name in a.keys() - {"seconds"}} == pytest.approx(
            {name: b[name] for name in b.keys() - {"seconds"}}, rel=1e-7, abs=1e-7
        )
    for name, weights in one["weights"].items():
        torch.testing.assert_close(
            *(torch.tensor(each, dtype=torch.float64) for each in (weights, other["weights"][name])),
            rtol=0,
            atol=1e-7,
        )


@pytest.mark.parametrize("name", [*JOBS, "resumed"])
def test_three_processes_train_as_one_does(
    name: str, found: list[dict[str, Any]], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "MOST_PADDED", batches.MOST_PADDED)  # which `train` sets
    alone = train("rows" if name == "resumed" else name, folder)
    assert_near(numbers(alone), found[0][name])
    # Seven rows cannot be shared evenly, and of the last batch some processes have none.
    assert alone.config.recipe.batch_size == 7
    assert len(training_data(alone.task, alone.config)[0]) % 7 == 1


@pytest.mark.parametrize("name", [*JOBS, "resumed"])
def test_all_processes_end_with_the_same_numbers(name: str, found: list[dict[str, Any]]) -> None:
    first, *others = (each[name] for each in found)
    for other in others:
        assert {k: v for k, v in other.items() if k != "path"} == {
            k: v for k, v in first.items() if k != "path"
        }
        assert other["path"] == "None"
    assert first["path"].endswith(name)


def test_one_process_goes_on_where_several_were_killed(
    found: list[dict[str, Any]], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "MOST_PADDED", batches.MOST_PADDED)
    killed = folder / "runs" / "killed"
    assert len((killed / "metrics.jsonl").read_text().splitlines()) == 1
    run = train("parity", folder, out=killed, resume=True)
    assert run.environment["processes"] == SIZE
    assert_near(numbers(run), found[0]["parity"])


def test_what_is_refused_is_said_once_and_ends_all(found: list[dict[str, Any]], folder: Path) -> None:
    first, *others = (each["refused"] for each in found)
    expected = {
        "seeds": "csprop train: --distributed trains one seed: write --seed N, or leave out "
        "--distributed and torchrun, and --workers N processes share the seeds\n",
        "existing": f"csprop train: {folder}/runs/parity: already holds a run: add --resume to "
        "continue it, or choose another --out\n",
        "absent": "csprop train: process 1 of 3: here.csv: there is no such file\n",
    }
    for name, sentence in expected.items():
        assert first[name][1].endswith(sentence)
        assert first[name][0] == 2
        assert all(other[name] == [2, ""] for other in others)
    same = "process 1 of 3: its options, its data file or its csprop are not those of process 0"
    assert all(each["other"].startswith(same) for each in (first, *others))


def test_a_process_that_is_killed_ends_the_others_at_once(found: list[dict[str, Any]]) -> None:
    *others, killed = found
    assert "lost" not in killed
    for each in others:
        sentence, seconds = each["lost"]
        assert "another process of this training has ended" in sentence
        assert seconds < 20


def test_wrappers_of_torch_train_the_model_as_one_process_does(found: list[dict[str, Any]]) -> None:
    for each in found:
        for name, result in each["by hand"].items():
            moved, *distances = result.values()
            assert moved > 0.01, name
            assert len(distances) == 3
            assert max(distances) < 1e-5, (name, result)


def test_torchrun_and_the_command(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    options = ["train", "--data", write_rows(tmp_path).name, "--preset", "rotor", "--epochs", "2"]
    options += ["--width", "4", "--depth", "1", "--lr", "0.0005", "--seed", "3"]
    assert main([*options, "--out", "one"]) == 0
    alone = capfd.readouterr()
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    torchrun += ["--master-addr", "127.0.0.1", "--master-port", free_port(), "-m", "csprop"]
    done = subprocess.run(
        [*torchrun, *options, "--out", "two", "--distributed"],
        capture_output=True, text=True, timeout=240, env=surroundings(),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr

    def plain(text: str) -> str:
        return re.sub(r"[\d.]+ s$", "", text, flags=re.M).replace("one", "two")

    assert plain(done.stdout) == plain(alone.out)
    assert plain(done.stderr) == plain(alone.err)
    one, two = map(csprop.load, ("one", "two"))
    for a, b in zip(one.metrics, two.metrics, strict=True):
        assert a["loss"] == pytest.approx(b["loss"], abs=1e-5)


def test_without_torchrun_it_says_what_to_write(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "parity", "--distributed"]) == 2
    assert "write torchrun --nproc-per-node 2 -m csprop train" in capsys.readouterr().err
    with pytest.raises(InputError, match="write torchrun --nproc-per-node 2"):
        csprop.train("parity", distributed=True)
