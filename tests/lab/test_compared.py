"""The committed comparison: its text is made of its rows, its rows can be made again, and csprop's row
is proven where no other is."""

from pathlib import Path

import pytest

from csprop.tasks import get
from csprop_lab.layers import PEERS
from csprop_lab.pages.compare import TEXT
from csprop_lab.pages.comparison import text
from csprop_lab.study.compared import FOLDER, at_longest, full, proven
from csprop_lab.study.job import Job, key_of
from csprop_lab.study.measure import measure
from csprop_lab.study.protocols import CSPROP, FULL, PROTOCOLS, TABLED

ROOT = Path(__file__).parents[2]
COMPARISON = full(ROOT / "results")
ROWS = COMPARISON.results.rows


def test_every_layer_has_a_row_on_every_task_of_every_protocol() -> None:
    assert len(COMPARISON.cells) == (1 + len(PEERS)) * sum(
        len(PROTOCOLS[each].tasks) for each in TABLED
    )
    for cell in COMPARISON.cells:
        count = len(cell.rows(ROWS))
        assert count == FULL.seeds if cell.model == CSPROP else count >= 1, cell.title


def test_no_row_is_there_that_the_table_does_not_use() -> None:
    used = {job.key for cell in COMPARISON.cells for job in cell.first}
    used |= {row["key"] for cell in COMPARISON.cells for row in cell.rows(ROWS)}
    assert ROWS.keys() == used
    assert all(key_of(row["job"]) == key for key, row in ROWS.items())


def test_the_text_is_made_of_the_rows() -> None:
    assert (ROOT / "results" / FOLDER / TEXT).read_text() == text(COMPARISON)


@pytest.mark.parametrize(
    ("protocol", "task"), [(name, task) for name in TABLED for task in PROTOCOLS[name].tasks]
)
def test_csprop_is_proven_on_every_regular_and_counter_task_and_nobody_else_is(
    protocol: str, task: str
) -> None:
    known = get(task)
    if known.finite or known.counting is not None:
        rows = COMPARISON[protocol, task, CSPROP]
        assert proven(rows) >= 4
        assert all(at_longest(row) == 1 for row in rows if row["locked"]["proven"])
    assert not any(proven(COMPARISON[protocol, task, model]) for model in PEERS)


@pytest.mark.parametrize("model", ["lstm", "linear-attention"])
def test_a_row_comes_out_again(model: str) -> None:
    """Up to how a processor rounds: least in the loss of the first epoch."""
    (row, *_) = COMPARISON["pairs", "group-S3xS3-all", model]
    (again,) = measure([Job.from_json(row["job"])])
    assert again["result"]["parameters"] == row["result"]["parameters"]
    assert again["curve"]["loss"][0] == pytest.approx(row["curve"]["loss"][0], rel=0.01)
    assert again["result"]["accuracy"] == pytest.approx(row["result"]["accuracy"], abs=0.05)
