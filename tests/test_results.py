"""The committed results: their report is made of their rows, and their rows can be made again."""

import re
from pathlib import Path

import pytest

from csprop.study import reproduce
from csprop.study.job import Job
from csprop.study.measure import Row, measure
from csprop.study.report import REPORT, blocks, report
from csprop.study.results import Results
from csprop.study.table import FULL

ROOT = Path(__file__).parents[1]
RESULTS = Results(ROOT / "results")
TABLES = sorted(RESULTS.tables)


def test_every_row_is_one_that_a_table_asks_for() -> None:
    assert RESULTS.rows.keys() <= reproduce.wanted(FULL)
    keys = [key for table in RESULTS.tables.values() for key in table]
    assert len(keys) == len(set(keys))


def test_the_report_is_made_of_the_rows() -> None:
    assert (ROOT / "results" / REPORT).read_text() == report(RESULTS, FULL, reproduce.TABLES)


@pytest.mark.parametrize("name", ["README.md"])
def test_a_block_of_numbers_is_made_of_the_rows(name: str) -> None:
    text = (ROOT / name).read_text()
    found = re.findall(r"<!-- results: (\S+) -->\n(.*?)\n?<!-- end -->", text, flags=re.DOTALL)
    assert found
    made = blocks(RESULTS, FULL, reproduce.TABLES)
    for block, content in found:
        assert content == made[block]


@pytest.mark.parametrize("table", TABLES)
def test_the_cheapest_row_of_a_table_comes_out_again(table: str) -> None:
    rows: list[Row] = [RESULTS.rows[key] for key in RESULTS.tables[table]]
    rows = [row for row in rows if "result" in row]
    cheapest = min(rows, key=lambda row: row["seconds"])
    (again,) = measure([Job.from_json(cheapest["job"])])
    assert again["key"] == cheapest["key"]
    for name, values in again["curve"].items():  # chaos comes later
        assert values[0] == pytest.approx(cheapest["curve"][name][0], rel=0.01, abs=0.01), name
    assert again["result"]["parameters"] == cheapest["result"]["parameters"]
    assert again["result"]["accuracy"] == pytest.approx(cheapest["result"]["accuracy"], abs=0.03)
    assert again.get("locked", {}).get("verdict") == cheapest.get("locked", {}).get("verdict")
