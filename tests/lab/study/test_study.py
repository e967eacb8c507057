"""Jobs, rows, and what is made of them: nothing lost, nothing twice, nothing not in the rows."""

import json
import subprocess
import sys
from collections.abc import Generator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import csprop
from csprop import tasks
from csprop.cli.main import main
from csprop.errors import InputError
from csprop.training.config import configure
from csprop.training.metrics import at_length
from csprop.training.presets import Recipe
from csprop.training.scores import percent
from csprop.training.seeding import generator
from csprop.training.session import execute
from csprop_lab.layers.basic import PeerConfig
from csprop_lab.released.config import upload
from csprop_lab.released.model import Released
from csprop_lab.study import engine, readme, reproduce
from csprop_lab.study.grokking import first, gap_of, mean_and_std, spike
from csprop_lab.study.job import Job, csp, network, sizes_of
from csprop_lab.study.measure import SAMPLING, measure
from csprop_lab.study.proven import Counters
from csprop_lab.study.publish import publish, report
from csprop_lab.study.results import Results
from csprop_lab.study.table import FULL, QUICK, Budget, Figured, Label, Rows, median_and_worst

TINY: dict[str, Any] = {"samples": 50, "epochs": 2, "width": 4}


def tiny(seed: int = 0, **changes: Any) -> Job:
    return csp("parity", "rotor", seed, **(TINY | changes))


class Tiny(Figured):
    name, title = "tiny", "Tiny"

    def jobs(self, budget: Budget) -> dict[Label, list[Job]]:
        return {("one",): [tiny(seed) for seed in range(3)], ("two",): [tiny(0, lr=0.02)]}

    def text(self, rows: Rows, budget: Budget) -> str:
        return " ".join(f"{name}: {len(found)}" for (name,), found in rows.items())

    def figure(self, rows: Rows) -> Any:
        from matplotlib.figure import Figure

        return Figure()


def test_a_row_is_what_training_gives() -> None:
    rows = measure([tiny(seed, every_input=True) for seed in (3, 4)])
    for row, seed in zip(rows, (3, 4), strict=True):
        run = csprop.train("parity", seed=seed, **TINY)
        assert run.result is not None
        assert row["result"] == run.result.to_json()
        for name in ("accuracy", "grad_norm"):
            assert row["curve"][name] == pytest.approx([e[name] for e in run.metrics], rel=1e-3)
        json.dumps(row)


@pytest.mark.slow
def test_a_row_has_what_its_model_gets_right_by_length() -> None:
    """As trained and locked, on sequences that the row's own seed draws."""
    changes: dict[str, Any] = {"samples": 500, "epochs": 3, "parts": 0}  # any angle, so it drifts
    lengths, seed = (3, 32, 4096), 4
    (row,) = measure([csp("parity", "rotor", seed, test_lengths=lengths, lock=True, **changes)])
    run = csprop.train("parity", seed=seed, **changes)
    certificate = run.certify()
    assert row["locked"]["verdict"] == certificate.verdict == "proven for all lengths"
    assert (row["locked"]["states"], row["locked"]["counters"]) == (2, None)
    assert 0 < row["training_seconds"] + row["locked"]["seconds"] < row["seconds"]

    def right(model: Any, seed: int) -> dict[str, float]:
        return {str(n): at_length(model, run.task, n, seed, SAMPLING).accuracy for n in lengths}

    assert row["lengths"] == right(run.model, seed) != right(run.model, seed + 1)
    assert row["lengths"]["4096"] < 1, "it drifts"
    all_right = dict.fromkeys(row["lengths"], 1)
    assert row["locked"]["lengths"] == right(certificate.locked, seed) == all_right


@pytest.mark.parametrize(("task", "apart"), [("parity", False), ("anbn", True)])
def test_the_seconds_of_an_epoch_are_shared_by_those_who_trained_in_it(
    task: str, apart: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seeds of a^n b^n have training sets of different sizes, and are trained one after the other."""
    kept: list[Any] = []

    def remember(*args: Any, **options: Any) -> Any:
        kept.extend(execute(*args, **options))
        return kept

    monkeypatch.setattr("csprop_lab.study.measure.execute", remember)
    jobs = [csp(task, tasks.get(task).preset, seed, samples=200, epochs=2) for seed in range(2)]
    rows = measure(jobs)
    for row, run in zip(rows, kept, strict=True):
        spent = sum(epoch["seconds"] for epoch in run.metrics)
        assert row["training_seconds"] == pytest.approx(spent / (1 if apart else 2), abs=0.01)


def test_a_run_that_diverges_is_a_row() -> None:
    (row,) = measure([csp("parity", "paper", 0, lr=1e38, samples=100, epochs=1)])
    assert "the step was not taken" in row["diverged"] or "held-out loss" in row["diverged"]
    assert "result" not in row


STUDY = Tiny()


def one_by_one(work: Sequence[engine.Group]) -> Generator[tuple[str, list[Any]]]:
    for table, jobs in work:
        yield table, measure(jobs)


def test_nothing_that_is_finished_is_run_again(tmp_path: Path) -> None:
    ran: list[int] = []

    def stop(table: str, rows: list[Any]) -> None:
        ran.append(len(rows))
        raise KeyboardInterrupt

    results = Results(tmp_path)
    work = reproduce.missing(results, FULL, [STUDY, STUDY])
    assert [len(jobs) for _, jobs in work] == [3, 1], "a row that two tables ask for is run once"
    with pytest.raises(KeyboardInterrupt):
        reproduce.run(results, work, one_by_one, stop)
    again = Results(tmp_path)
    assert len(again.rows) == 3
    left = reproduce.missing(again, FULL, [STUDY])
    assert [job for _, jobs in left for job in jobs] == [tiny(0, lr=0.02)]
    reproduce.run(again, left, one_by_one, lambda table, rows: None)
    assert reproduce.missing(Results(tmp_path), FULL, [STUDY]) == []


def test_processes_give_the_rows_of_one(tmp_path: Path) -> None:
    work = reproduce.missing(Results(tmp_path), FULL, [STUDY])
    here = [row for _, rows in one_by_one(work) for row in rows]
    there = [row for _, rows in engine.local(work, 2, tmp_path / "unfinished") for row in rows]

    def shown(rows: list[Any]) -> dict[str, Any]:
        return {row["key"]: (row["result"], row["curve"]) for row in rows}

    assert shown(here) == shown(there)
    assert len(there) == 4


def test_a_row_counts_once(tmp_path: Path) -> None:
    results, rows = Results(tmp_path), measure([tiny()])
    results.add("tiny", rows)
    results.add("tiny", [rows[0] | {"seconds": 0}])
    results.add("other", rows)
    assert [row["seconds"] for row in Results(tmp_path).rows.values()] == [rows[0]["seconds"]]
    assert len(json.loads((tmp_path / "tiny.json").read_text())["rows"]) == 1


def test_stale_rows_are_seen(tmp_path: Path) -> None:
    results = Results(tmp_path)
    results.add("tiny", measure([tiny()]))
    assert results.set_aside({tiny().key}) == 0
    assert results.set_aside(set()) == 1
    assert Results(tmp_path).rows == {}
    (line,) = (tmp_path / "stale.jsonl").read_text().splitlines()
    assert json.loads(line)["key"] == tiny().key


def test_a_changed_row_is_refused(tmp_path: Path) -> None:
    results = Results(tmp_path)
    results.add("tiny", measure([tiny()]))
    text = (tmp_path / "tiny.json").read_text()
    for field in ('"epochs": ', '"accuracy": ', '"seconds": '):  # of the job, and of its result
        assert field in text
        (tmp_path / "tiny.json").write_text(text.replace(field, f"{field}1", 1))
        with pytest.raises(InputError, match="was edited after it was written"):
            Results(tmp_path)
    for damage in (text[:100], "3", "", '{"table": "tiny", "rows": [{}]}'):
        (tmp_path / "tiny.json").write_text(damage)
        with pytest.raises(InputError, match="is not a table of results"):
            Results(tmp_path)


def test_the_report_has_what_is_there_and_says_what_is_not(tmp_path: Path) -> None:
    results = Results(tmp_path)
    assert "Some of its rows have not been run yet" in report(results, FULL, [STUDY])
    work = reproduce.missing(results, FULL, [STUDY])
    reproduce.run(results, work, one_by_one, lambda table, rows: None)
    path = publish(results, QUICK, [STUDY])
    assert "one: 3 two: 1" in path.read_text()
    assert "These numbers are not results" in path.read_text()
    assert (tmp_path / "tiny.png").read_bytes().startswith(b"\x89PNG")
    before = (tmp_path / "tiny.png").read_bytes()
    assert publish(Results(tmp_path), QUICK, [STUDY]).read_text() == path.read_text()
    assert (tmp_path / "tiny.png").read_bytes() == before


@pytest.mark.slow
def test_killed_at_any_moment_the_same_command_goes_on(tmp_path: Path) -> None:
    command = [
        sys.executable, "-m", "csprop.cli.main", "reproduce", "--quick", "--only", "focal",
        "--workers", "1", "--out", str(tmp_path), "--json",
    ]  # fmt: skip
    streams: Any = {"stderr": subprocess.PIPE, "stdout": subprocess.DEVNULL, "text": True}
    with subprocess.Popen(command, **streams) as process:
        for line in process.stderr or ():
            if "2 rows" in line or "3 rows" in line:
                process.kill()
                break
    kept = Results(tmp_path).rows
    assert kept
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert f"{len(kept)} rows exist" in done.stderr
    final = Results(tmp_path).rows
    assert {key: final[key] for key in kept} == kept
    assert json.loads(done.stdout)["ran"] == len(final) - len(kept) > 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--only", "mani"], "there is no table 'mani'"),
        (["--workers", "0"], "write 1 to 1024"),
        (["--address", "x:1"], "add --engine ray"),
        (["--engine", "ray", "--workers", "2"], "leave it out"),
    ],
)
def test_mistakes_are_one_sentence(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["reproduce", *arguments]) == 2
    assert said in capsys.readouterr().err


def gru(task: str, recipe: Recipe, **measured: Any) -> Job:
    config = PeerConfig(kind="GRU", width=32, depth=2, **sizes_of(tasks.get(task)))
    return network(task, config, recipe, 0, **measured)


def test_a_peer_has_the_size_that_is_said() -> None:
    (row,) = measure([gru("mod3-residue", Recipe(samples=50, epochs=1))])
    assert row["result"]["parameters"] == 2 * 32 + 2 * (2 * 3 * 32 * 32 + 2 * 3 * 32) + 32 * 3 + 3
    assert row["lengths"] == {}


def test_a_peer_learns_and_is_tested_at_other_lengths() -> None:
    recipe = Recipe(samples=1000, supervise="every", lr=1e-2, epochs=10)
    (row,) = measure([gru("flip-flop", recipe, test_lengths=(16, 300))])
    assert row["result"]["accuracy"] == 1
    assert row["lengths"] == {"16": 1, "300": 1}, "what it remembers does not fade"


def test_a_quick_look_stays_out_of_a_full_study(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Sized(Tiny):
        def jobs(self, budget: Budget) -> dict[Label, list[Job]]:
            return {("one",): [tiny(seed) for seed in range(2 if budget is FULL else 1)]}

    monkeypatch.setattr(reproduce, "TABLES", (Sized(),))
    out = ["--out", str(tmp_path), "--workers", "1"]
    assert main(["reproduce", *out]) == 0
    assert main(["reproduce", "--quick", *out]) == 2
    assert "has 1 rows of a full study: choose another --out" in capsys.readouterr().err
    assert len(Results(tmp_path).rows) == 2
    monkeypatch.setattr(reproduce, "TABLES", (Tiny(),))
    Results(tmp_path).add("old", measure([tiny(0, lr=0.5)]))
    assert main(["reproduce", "--only", "tiny", *out]) == 0
    said = capsys.readouterr().err
    assert "1 rows that no table asks for any more are moved to stale.jsonl" in said
    assert len(Results(tmp_path).rows) == 4


def test_a_run_that_was_stopped_goes_on(tmp_path: Path) -> None:
    """From the epoch where it was, and to the same numbers."""
    jobs = [tiny(seed, epochs=4) for seed in range(2)]
    config = configure("parity", "rotor", 0, **TINY | {"epochs": 4})
    whole = measure(jobs)
    stopped = replace(config, preset="study", recipe=replace(config.recipe, epochs=2))
    execute(tasks.get("parity"), [stopped], [tmp_path / jobs[0].key])
    before = (tmp_path / jobs[0].key / "metrics.jsonl").read_text()
    again = measure(jobs, tmp_path)
    assert [row["curve"] for row in again] == [row["curve"] for row in whole]
    assert (tmp_path / jobs[0].key / "metrics.jsonl").read_text().startswith(before)


def test_a_group_that_fails_does_not_stop_the_others(tmp_path: Path) -> None:
    work = [("tiny", [tiny(0), tiny(1, lr=0.1)]), ("tiny", [tiny(2)])]
    found = []

    def collect() -> None:
        for table, rows in engine.local(work, 1, tmp_path):
            found.extend((table, row["key"]) for row in rows)

    with pytest.raises(InputError, match="differ only in their seed"):
        collect()
    assert found == [("tiny", tiny(2).key)]


def test_brackets_of_a_drawn_length_count_each_position_once() -> None:
    """Two lengths as likely: 4 positions with 3 right and 2 with 1 right are 4 of 6."""
    row = {"lengths": {"2": 0.5, "4": 0.75, "6": 0.0}}
    assert readme.accuracy(row, 4, drawn=True) == pytest.approx(4 / 6)
    assert readme.accuracy(row, 4, drawn=False) == 0.75
    assert readme.accuracy({"diverged": "…"}, 4, drawn=True) == 0


def test_parameters_are_those_of_the_authors_less_what_their_forward_pass_does_not_use() -> None:
    for each in readme.AUTHORS:
        if each.model == "RNN":
            continue
        task, narrow = tasks.get(each.task), 16
        model = Released(upload(each.model, task)[0], generator(0, "weights"))
        classes, unread = len(task.classes), 0 if each.task == "parity" else 1
        unused = (32 + 1) * classes + (64 + 1) + narrow * unread
        assert sum(p.numel() for p in model.parameters()) + unused == each.parameters


def test_a_line_of_the_table_of_counters() -> None:
    """By hand: a seed that is right, one that is almost, one that diverged."""

    def row(first: int | None, wrong: int, proven: bool, far: float, seconds: float) -> dict[str, Any]:
        machine = {"states": 4, "counters": 1} if proven else {"states": None, "counters": None}
        return {
            "result": {"first_epoch_at_target": first, "exhaustive": {"wrong": wrong}},
            "locked": {"proven": proven, "seconds": seconds, **machine},
            "training_seconds": 3.0,
            "lengths": {"1026": far, "18": 0.0},
        }

    seeds = [row(2, 0, True, 1.0, 9.0), row(None, 7, False, 0.9, 20.0), {"diverged": "at once"}]
    cells = "| anb2n | 1 of 3 | 2 (2) | 1 of 3 | 1 of 3 | 4, 1 | 90.0% (0%) | 18 (23) |"
    assert Counters().table({("anb2n",): seeds}).splitlines()[-1] == cells
    for one in seeds[:2]:
        one["result"]["exhaustive"] = None  # there are too many inputs
    cells = "| anb2n | 1 of 3 | 2 (2) | – | 1 of 3 | 4, 1 | 90.0% (0%) | 18 (23) |"
    assert Counters().table({("anb2n",): seeds}).splitlines()[-1] == cells


def row_with(accuracy: list[float], grad_norm: list[float] | None = None) -> dict[str, Any]:
    return {"curve": {"accuracy": accuracy, "grad_norm": grad_norm or accuracy}}


def test_the_gap_and_the_spike() -> None:
    row = row_with([0.5, 0.92, 0.91, 1.0, 0.9, 1.0], [1, 2, 9, 3, 4, 5])
    assert first(row, 0.9) == 2
    assert gap_of(row) == 2
    assert spike(row) == 3
    assert gap_of(row_with([0.5, 0.95])) is None
    assert gap_of(row_with([1.0])) == 0
    assert mean_and_std([2, 4]) == "3.0 ± 1.4"
    assert mean_and_std([]) == "–"


def test_numbers_are_not_flattered() -> None:
    numbers = [0.99999, 1.0, 0.0, 0.0001, 0.203]
    assert [percent(each) for each in numbers] == ["99.9%", "100%", "0%", "0.1%", "20.3%"]
    assert median_and_worst([1.0, 1.0, 0.5]) == "100% (50.0%)"
    assert median_and_worst([0.5, 0.5]) == "50.0%"


NO_RAY = "ray is not installed: pip install 'csprop-lab[ray]'"


@pytest.mark.filterwarnings("ignore")
def test_what_a_lost_node_had_is_run_again_and_counted_once(tmp_path: Path) -> None:
    """On a cluster of two nodes."""
    cluster_utils = pytest.importorskip("ray.cluster_utils", reason=NO_RAY)
    cluster = cluster_utils.Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    lost = cluster.add_node(num_cpus=1)
    jobs = [csp("parity", "rotor", seed, samples=200, epochs=20, width=8) for seed in range(6)]
    work = [("tiny", [job]) for job in jobs]
    results = Results(tmp_path)
    try:
        for number, (table, rows) in enumerate(engine.ray(work, cluster.address)):
            results.add(table, rows)
            if number == 0:
                cluster.remove_node(lost, allow_graceful=False)
    finally:
        cluster.shutdown()
    assert sorted(results.rows) == sorted(job.key for job in jobs)
    assert len(Results(tmp_path).tables["tiny"]) == len(jobs)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("address", ["127.0.0.1:1", "nowhere", "ray://127.0.0.1:1"])
def test_an_address_where_nobody_answers(
    address: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("ray", reason=NO_RAY)
    argv = ["--quick", "--engine", "ray", "--address", address, "--out", str(tmp_path)]
    assert main(["reproduce", *argv]) == 2
    assert f"--address {address}: no Ray cluster answers there" in capsys.readouterr().err
