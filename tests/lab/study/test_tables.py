"""The tables of the study: what they ask for, and what they make of rows."""

from dataclasses import replace
from typing import Any

import pytest

from csprop import tasks
from csprop.training.scores import percent
from csprop.training.seeding import generator
from csprop_lab.released.config import UPLOADS, ReleasedConfig, upload
from csprop_lab.released.model import Released
from csprop_lab.study import readme, released, reproduce
from csprop_lab.study.grokking import first, gap_of, mean_and_std, spike
from csprop_lab.study.main import LENGTHS, Main, lengths_of
from csprop_lab.study.proven import Counters
from csprop_lab.study.table import FULL, QUICK, TASKS, median_and_worst, score


@pytest.mark.parametrize("task", TASKS)
def test_a_task_is_tested_at_lengths_that_it_has(task: str) -> None:
    tested = lengths_of(task, FULL)
    assert all(length in tasks.get(task).lengths for length in tested)
    assert tested[1] == (18 if task == "parenthesis" else 17)
    assert (tested[0], *tested[2:]) == (LENGTHS[0], *LENGTHS[2:])
    assert max(lengths_of(task, QUICK)) == QUICK.longest


def test_a_score_is_what_the_paper_reports_of_the_task() -> None:
    def seeds(task: str) -> list[dict[str, Any]]:
        return [{"job": {"task": task}, "result": {"accuracy": 0.75, "f1": f1}} for f1 in (0.5, 0.7, 1)]

    assert score(seeds("parity")) == "75.0%"
    assert score(seeds("parenthesis")) == "0.700 (0.500)"


def test_the_study_asks_for_every_table_with_enough_seeds() -> None:
    """Ten seeds and 300 epochs in the main table, five of what takes long; five at least elsewhere."""
    tables = {table.name: table.jobs(FULL) for table in reproduce.TABLES}
    assert len(tables["main"]) == (4 * 2 + 1) * 2 + 4
    epochs = {"paper": 300, "released": 300, "rotor": 100, "counter": 60}
    for (_, name, _), jobs in Main().jobs(FULL).items():
        assert [job.seed for job in jobs] == list(range(5 if name == "released" else 10))
        assert jobs[0].recipe.epochs == epochs[name]
    assert all(len(jobs) >= 5 for table in tables.values() for jobs in table.values())
    assert len(tables["structure"]) >= 3 * (8 + 3 + 4)
    for task, own in (("parity", ["locked rotor"]), ("parenthesis", ["counter", "locked counter"])):
        models = {model for name, model in tables["length"] if name == task}
        assert models == {"paper", "state", "rotor", *own}
    assert len({model for model, _ in tables["baselines"]}) == 8


def test_a_model_of_the_main_table_is_locked_by_the_preset_of_its_task() -> None:
    locked = {label for label, jobs in Main().jobs(FULL).items() if jobs[0].lock}
    own = [(task, "rotor") for task in ("parity", "mod3", "mod3-residue")] + [
        ("parenthesis", "counter")
    ]
    assert locked == {(task, name, "disjoint") for task, one in own for name in (one, "released")}


def test_each_difference_of_the_released_model_is_made_alone_and_taken_back() -> None:
    """Every option in which the last upload differs is a row by itself, and so is its lack."""
    sizes: dict[str, Any] = {"vocab_size": 2, "num_classes": 2}
    printed, last = vars(ReleasedConfig(**sizes)), vars(ReleasedConfig(**sizes, **UPLOADS["released"]))
    differing = {name for name in printed if printed[name] != last[name]}
    alone = {name for changes in released.ONE_BY_ONE.values() for name in changes}
    assert differing == {name for changes in released.WITHOUT.values() for name in changes}
    assert differing == alone
    for changes in released.WITHOUT.values():
        assert all(printed[name] == value for name, value in changes.items())


def test_variants_of_the_released_model_are_trained_alike() -> None:
    jobs = released.Released().jobs(FULL)
    recipes = {replace(job.recipe, supervise="every") for asked in jobs.values() for job in asked}
    assert len(recipes) == 1
    whole = {variant for (variant, _), asked in jobs.items() if asked[0].recipe.supervise == "last"}
    assert whole == {"printed, label of the whole", "released, label of the whole"}


def test_brackets_of_a_drawn_length_count_each_position_once() -> None:
    """Two lengths as likely: 4 positions with 3 right and 2 with 1 right are 4 of 6."""
    row = {"lengths": {"2": 0.5, "4": 0.75, "6": 0.0}}
    assert readme.accuracy(row, 4, drawn=True) == pytest.approx(4 / 6)
    assert readme.accuracy(row, 4, drawn=False) == 0.75
    assert readme.accuracy({"diverged": "…"}, 4, drawn=True) == 0


@pytest.mark.parametrize(
    ("ours", "std", "said"),
    [(0.9, 0.05, "-1.0"), (0.95, 0.0, "0"), (0.9, 0.0, "-0.0500 (theirs hardly vary)")],
)
def test_a_difference_is_given_in_the_authors_standard_deviations(
    ours: float, std: float, said: str
) -> None:
    assert readme.deviations(ours, 0.95, std) == said


def test_parameters_are_those_of_the_authors_less_what_their_forward_pass_does_not_use() -> None:
    for each in readme.AUTHORS:
        if each.model == "RNN":
            continue
        task, narrow = tasks.get(each.task), 16
        model = Released(upload(each.model, task)[0], generator(0, "weights"))
        classes, unread = len(task.classes), 0 if each.task == "parity" else 1
        unused = (32 + 1) * classes + (64 + 1) + narrow * unread
        assert sum(p.numel() for p in model.parameters()) + unused == each.parameters


def test_every_task_that_counts_is_locked_and_tested_far_beyond_its_length() -> None:
    asked = Counters().jobs(FULL)
    assert [task for (task,) in asked] == [
        "parenthesis", "parenthesis-words", "majority", "anbn", "anb2n", "anbncn", "anbmcnm",
        "interleaved",
    ]  # fmt: skip
    assert asked["parenthesis",] == Main().jobs(FULL)["parenthesis", "counter", "disjoint"]
    for (task,), jobs in asked.items():
        assert [job.seed for job in jobs] == list(range(10))
        assert all(job.lock and job.every_input for job in jobs)
        kinds = [[cell["kind"] for cell in job.model["cells"]] for job in jobs]
        assert kinds == [["counter", "switch"]] * 10
        assert {1024, 1026} & set(jobs[0].test_lengths), task


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
