"""`csprop.learn` of rows that take counting, and of rows that do not."""

import random
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import csprop
from csprop.automata.counting import CounterMachine
from csprop.automata.machine import Machine
from csprop.cli.main import main
from csprop.errors import InputError
from csprop.learning.counting import as_seen, count_contradicted
from csprop.learning.learn import learn
from csprop.learning.search import CLEAR, Candidate, Search
from csprop.learning.tree import PrefixTree
from csprop.runs.machines import from_machine
from csprop.training.batches import training_data
from csprop.training.config import configure
from csprop_lab.study.languages import draw, languages
from csprop_lab.study.learners import as_task
from tests.helpers.counters import LANGUAGES, balanced, brackets, plain
from tests.tasks.test_machines import Own


def bracket_rows(count: int, seed: int, wrong: int = 0) -> tuple[list[str], list[str], list[int]]:
    """Strings of brackets, half of them balanced, their labels, and which labels are wrong."""
    dice = random.Random(f"brackets {seed}")
    rows = []
    while len(rows) < count:
        row = dice.choices("()", k=2 * dice.randint(1, 8) - dice.randint(0, 1))
        if len(rows) % 2 and len(row) % 2 == 0:  # a balanced one
            depth = 0
            for place, token in enumerate(row):
                depth += 1 if token == "(" else -1
                if depth < 0:
                    row[place], depth = "(", 1
            row += [")"] * depth
        rows.append("".join(row))
    labels = [("no", "yes")[balanced(numbers(row))] for row in rows]
    changed = sorted(dice.sample(range(count), wrong))
    for row in changed:
        labels[row] = {"no": "yes", "yes": "no"}[labels[row]]
    return rows, labels, changed


def numbers(row: str) -> tuple[int, ...]:
    return tuple("()".index(token) for token in row)


def wrong_strings(run: csprop.Run) -> list[str]:
    """Of all short strings, and some that are far deeper than any row, those with a wrong answer."""
    tried = ["".join(row) for length in range(1, 11) for row in product("()", repeat=length)]
    tried += [
        "(" * n + ")" * m + tail for n in (40, 700) for m in (n - 1, n, n + 1) for tail in ("", "()")
    ]
    said = run.predict(tried)
    right = [("no", "yes")[balanced(numbers(row))] for row in tried]
    return [row for row, one, two in zip(tried, said, right, strict=True) if one != two]


@pytest.mark.parametrize("wrong", [0, 10, 50])
def test_brackets_come_out_as_a_machine_that_counts_and_wrong_labels_are_named(
    wrong: int, tmp_path: Path
) -> None:
    rows, labels, changed = bracket_rows(1000, seed=1, wrong=wrong)
    learned = csprop.learn(rows, labels, out=tmp_path / "run")
    assert isinstance(learned.machine, csprop.CounterAutomaton)
    assert [each.line for each in learned.suspects] == [row + 1 for row in changed]
    agreed = f"{1000 - wrong:,} of 1,000" if wrong else "all 1,000"
    assert learned.verdict.sentence == (
        f"rows: a machine of 3 states and 1 counter, which agrees with {agreed} rows"
    )
    run = csprop.load(tmp_path / "run")
    assert run.certificate is not None
    assert run.certificate.verdict == (
        f"agrees with {agreed} rows" if wrong else "agrees with every row"
    )
    assert run.automaton == learned.machine
    assert wrong_strings(run) == []
    assert main(["certify", str(tmp_path / "run"), "--check"]) == 0


def test_it_is_said_why_the_machine_counts() -> None:
    rows, labels, _ = bracket_rows(1000, seed=2)
    learned = csprop.learn(rows, labels)
    found = learned.verdict.counting
    assert found is not None
    assert (found.counters, found.misses) == (1, 0)
    finite = min((each for each in learned.candidates if not each.counts), key=lambda each: each.bits)
    assert (found.finite_states, found.finite_bits) == (len(finite.machine), round(finite.bits))
    assert found.finite_bits is not None
    assert found.bits + CLEAR <= found.finite_bits + 1
    assert f"of {len(finite.machine)} states, takes {found.finite_bits}." in learned.verdict.text
    assert learned.run is not None
    result: Any = learned.run.result
    assert result.verdict.counting.longer == found.longer


@pytest.mark.parametrize("name", ["parenthesis", "parenthesis-words", "majority", "anbn"])
def test_a_task_that_takes_counting_is_proven(name: str) -> None:
    learned = csprop.learn(name, samples=5000 if name == "anbn" else 300)
    assert learned.verdict.sentence.endswith(" and 1 counter, proven for all lengths and depths")
    assert learned.suspects == []


def test_a_wrong_machine_of_such_a_task_has_a_counterexample() -> None:
    learned = csprop.learn("interleaved", samples=100)
    found = learned.verdict.certificate
    assert found is not None
    assert found.verdict == "counterexample"
    task, example = csprop.tasks.get("interleaved"), found.document["counterexample"]
    tokens = [task.vocab.index(token) for token in example["sequence"]]
    assert example["right"] == task.classes[task.truth(tokens)] != example["said"]
    names = learned.machine.vocab
    said = learned.machine.final([names.index(token) for token in example["sequence"]])
    assert learned.machine.classes[said] == example["said"]


def test_a_finite_machine_of_such_a_task_has_a_counterexample() -> None:
    parity = Machine(transitions=((1, 1), (0, 0)), outputs=(1, 0))
    found = from_machine(csprop.tasks.get("parenthesis"), parity).certificate
    assert found is not None
    assert (found.verdict, found.document["counterexample"]["sequence"]) == ("counterexample", "((")


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(("rows", "wrong"), [(300, 0.0), (300, 0.05)])
def test_regular_languages_do_not_count(rows: int, wrong: float, seed: int) -> None:
    """After merging alone, when the finite machines may still be far from the best one."""
    for name in list(languages())[seed::6]:
        language = languages()[name]
        task = as_task(name, language, *draw(language, rows, wrong, 50 + seed).named(language))
        search = Search(
            task, *training_data(task, configure(task, "router", seed)), seed, lambda line: None
        )
        search.begin()
        assert not search.chosen.counts, name


def searched(rows: list[str], labels: list[str]) -> Search:
    task = csprop.tasks.from_rows(rows, labels)
    return Search(task, *training_data(task, configure(task, "router")), 0, lambda line: None)


def test_a_counter_must_save_seven_bits() -> None:
    rows, labels, _ = bracket_rows(200, seed=4)
    search, constant = searched(rows, labels), Machine(transitions=((0, 0),), outputs=(0,))
    for saved, counts in ((CLEAR - 0.1, False), (CLEAR + 0.1, True)):
        search.tried = [
            Candidate("merging", constant, 100.0, 3, 0.0),
            Candidate("counters", brackets(), 100.0 - saved, 3, 0.0),
        ]
        assert search.chosen.counts == counts


@pytest.mark.parametrize("name", LANGUAGES)
def test_rows_as_a_control_reads_them(name: str) -> None:
    """Misses are those of the plain definition, and only symbols that occur have a column."""
    machine, dice = LANGUAGES[name].machine, random.Random(name)
    rows = []
    for _ in range(80):
        tokens = dice.choices(range(machine.symbols), k=dice.randint(1, 9))
        rows.append((tokens, [dice.randrange(3)]))
    tree = PrefixTree.of(rows, machine.symbols, 3)
    missed = sum(plain(machine, tuple(tokens))[-1] != label for tokens, (label,) in rows)
    assert count_contradicted(tree, machine) == missed
    seen, table, bits = as_seen(tree, machine)
    assert table.shape == (len(machine), seen.symbols)
    assert set(seen.token[1:].tolist()) == set(range(seen.symbols))
    assert seen.symbols <= machine.control.symbols
    assert bits > 0


def test_guesses_of_a_machine_that_counts() -> None:
    """By trying all strings of a length that shows every view, and marking what the rows take."""
    machine: CounterMachine = brackets().reduce()
    rows = ["(", "()", "(())", "()()", "(()", "())", "())("] * 3
    search = searched(rows, [("no", "yes")[balanced(numbers(row))] for row in rows])

    def steps(row: tuple[int, ...]) -> set[tuple[int, int]]:
        made, (state, counts) = set(), machine.oracle.start
        for token in row:
            before = state
            state, counts = machine.oracle.step((state, counts), token)
            view = int(machine.view(np.array(counts)))
            made.add((before, token * machine.views + view))
        return made

    possible = set().union(*(steps(row) for row in product((0, 1), repeat=8)))
    taken = set().union(*(steps(numbers(row)) for row in rows))
    assert search.unseen(machine) == possible - taken
    assert possible - taken


def test_a_task_of_infinitely_many_states_must_declare_a_machine() -> None:
    task = Own(lambda state: state + 1)
    task.finite = False
    with pytest.raises(InputError, match="own: has infinitely many states and declares no machine"):
        learn(task)
