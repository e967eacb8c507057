"""What docs/why.md says in words about its numbers, and how the numbers are made."""

import json
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from csprop_lab.study import compared, layers, reproduce, why
from csprop_lab.study.baselines import LONGER, Baselines
from csprop_lab.study.layers import Layers
from csprop_lab.study.length import accuracies
from csprop_lab.study.own_data import OwnData, all_fresh, of_method, right
from csprop_lab.study.publish import rows_of
from csprop_lab.study.results import Results
from csprop_lab.study.table import FULL, Rows, Table, values

FOLDER = Path(__file__).parents[3] / "results"
RESULTS = Results(FOLDER)


def rows(table: Table) -> Rows:
    found = rows_of(table, RESULTS, FULL)
    assert found is not None
    return found


def cells(table: str) -> list[list[str]]:
    return [line.strip("| ").split(" | ") for line in table.splitlines()[2:]]


def test_every_table_that_is_asked_for_exists() -> None:
    assert {table for table, _ in why.BY_TABLE.values()} <= {table.name for table in reproduce.TABLES}


def test_rpni_is_fast_and_one_wrong_label_is_too_much_for_it() -> None:
    files = rows(OwnData())
    assert right(of_method(files, "RPNI", clean=False)) == 0
    assert right(of_method(files, "RPNI", clean=True)) > 40
    for line in cells(why.files(files)):
        ours, theirs = map(float, line[-3:-1])
        assert theirs < ours, "seconds"


def test_what_was_not_tried_is_a_dash() -> None:
    files = rows(OwnData())
    label = ("EDSM", "300 rows", "clean")
    without = {each: some for each, some in files.items() if each != label}
    with_it, without_it = (cells(why.files(some))[0] for some in (files, without))
    assert (with_it[4], without_it[4], without_it[8]) == ("14 of 20", "–", "–")
    assert with_it[:4] == without_it[:4]


def test_an_lstm_is_better_than_a_rotor_as_trained_and_often_wrong_on_longer_rows() -> None:
    baselines = rows(Baselines())
    lstm, rotor = ((name, baselines[name, "parity"]) for name in ("LSTM", "csprop, rotor"))
    far = max(LONGER)
    assert accuracies(rotor[1], rotor[0])[far] < accuracies(lstm[1], lstm[0])[far]
    assert values(rotor[1], "parameters")[0] < values(lstm[1], "parameters")[0], "it is smaller"
    networks = of_method(rows(OwnData()), "LSTM", clean=True)
    assert all_fresh(networks) < 0.75 * len(networks)


def test_on_sentences_two_blocks_of_csprop_are_the_best_layer() -> None:
    (text,) = (line[1:] for line in cells(why.signals(rows(Layers()))) if "sentences" in line[0])
    assert min(text, key=float) == text[list(layers.KINDS).index("csprop, two blocks")]


def test_a_layer_of_csprop_is_among_the_weakest_on_equal_terms() -> None:
    comparison = compared.full(FOLDER)
    assert compared.SOLVED == 0.999
    assert len({(each.protocol.name, each.task) for each in comparison.cells}) == 23
    lines = {line[0]: line for line in cells(why.compared(comparison))}
    assert tuple(lines) == why.SHOWN
    solved = {name: int(line[5].split(" of ")[0]) for name, line in lines.items()}
    assert solved["csprop-rotor"] == min(solved.values())
    assert solved["csprop"] > 2 * statistics.median(solved.values())
    assert lines["csprop"][3] != lines["lstm"][3], "it takes other steps"
    assert why.effort(comparison).endswith(f" and {lines['lstm'][3]} steps")


@pytest.mark.parametrize("make", [why.costs, why.steps])
def test_times_are_those_of_the_bench(make: Callable[[Any], str]) -> None:
    document = json.loads((FOLDER / "bench.json").read_text())
    before = make(document)
    for work in document["results"]:
        for part in work.get("parts", [work]):
            for place, name in enumerate(part.get("seconds", ())):
                part["seconds"][name] *= 2 + place
    assert make(document) != before
