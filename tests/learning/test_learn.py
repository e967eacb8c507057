"""`csprop.learn`: rows of machines that are known, with some labels changed."""

import json
import random
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from aalpy.learning_algs import run_EDSM

import csprop
from csprop.automata.machine import Machine
from csprop.automata.walk import Oracle
from csprop.cli.main import main
from csprop.learning.learn import Learned, learn
from csprop.ops.backends import use_backend

NO_THREE = Machine(
    transitions=((1, 0), (2, 0), (3, 0), (3, 3)), outputs=(1, 1, 1, 0)
)  # no three 0s in a row


def rows_of(
    machine: Machine, count: int, seed: int, wrong: int = 0
) -> tuple[list[str], list[int], list[int]]:
    """Sequences, labels, and which of the labels are wrong."""
    draw = random.Random(seed)
    sequences = [
        "".join(draw.choices("012"[: machine.symbols], k=draw.randint(1, 16))) for _ in range(count)
    ]
    labels = [machine.final([int(token) for token in sequence]) for sequence in sequences]
    changed = sorted(draw.sample(range(count), wrong))
    for row in changed:
        labels[row] = 1 - labels[row]
    return sequences, labels, changed


def finite(learned: Learned) -> csprop.Automaton:
    """The machine, which does not count."""
    assert isinstance(learned.machine, csprop.Automaton)
    return learned.machine


def test_the_machine_and_the_wrong_labels_are_found(tmp_path: Path) -> None:
    sequences, labels, changed = rows_of(NO_THREE, 1500, seed=0, wrong=45)
    path = tmp_path / "rows.jsonl"
    lines = [json.dumps({"sequence": s, "label": n}) for s, n in zip(sequences, labels, strict=True)]
    path.write_text("\n\n".join(lines) + "\n")  # a blank line after each row: lines are not rows
    lines_told: list[str] = []
    learned = learn(path, out=tmp_path / "run", on_event=lines_told.append)
    assert finite(learned).difference(NO_THREE) is None
    assert learned.verdict.sentence == (
        "rows.jsonl: a machine of 4 states, which agrees with 1,455 of 1,500 rows"
    )
    assert [each.line for each in learned.suspects] == [2 * row + 1 for row in changed]
    written = [json.loads(line) for line in (tmp_path / "run/suspects.jsonl").read_text().splitlines()]
    assert [each["line"] for each in written] == [2 * row + 1 for row in changed]
    assert written[0]["sequence"] == sequences[changed[0]]
    methods = [line.split(":")[0] for line in lines_told]
    assert methods == ["merging", "counters", "router of 32 places"]  # the last confirms the first
    manifest = json.loads((tmp_path / "run/manifest.json").read_text())
    assert "suspects.jsonl" in manifest
    run = csprop.load(tmp_path / "run")
    assert run.certificate is not None
    assert run.certificate.verdict == "agrees with 1,455 of 1,500 rows"
    assert run.predict(["0100", "1000"]) == ["1", "0"]
    assert main(["certify", str(tmp_path / "run"), "--check"]) == 0
    run.save_pretrained(tmp_path / "copy")
    copied, given = (tmp_path / name / "suspects.jsonl" for name in ("copy", "run"))
    assert copied.read_bytes() == given.read_bytes()


def test_a_machine_that_contradicts_no_row_ends_the_search() -> None:
    sequences, labels, _ = rows_of(NO_THREE, 1000, seed=1)
    learned = csprop.learn(sequences, labels)
    assert finite(learned).difference(NO_THREE) is None
    assert {each.method for each in learned.candidates} == {"merging"}
    assert (learned.suspects, learned.verdict.agreed) == ([], 1000)
    assert learned.run is not None
    assert learned.run.path is None


def test_rows_from_python_are_kept_in_the_run(tmp_path: Path) -> None:
    sequences, labels, changed = rows_of(NO_THREE, 600, seed=2, wrong=3)
    arrays = [np.array([f"t{token}" for token in sequence]) for sequence in sequences]
    learned = csprop.learn(arrays, np.array(labels) == 1, out=tmp_path / "run")
    assert learned.machine.vocab == ("t0", "t1")
    assert [each.line for each in learned.suspects] == [row + 1 for row in changed]
    again = csprop.load(tmp_path / "run")
    assert again.automaton == learned.machine
    assert len(again.task.data) == 600


def test_labels_at_every_step() -> None:
    sequences, _, _ = rows_of(NO_THREE, 60, seed=3)
    labels = [NO_THREE.run([int(token) for token in sequence]).tolist() for sequence in sequences]
    at = next(row for row, each in enumerate(sequences) if len(each) > 9)
    labels[at][8] = 1 - labels[at][8]
    learned = csprop.learn(sequences, labels)
    assert finite(learned).difference(NO_THREE) is None
    (suspect,) = learned.suspects
    assert (suspect.line, suspect.position) == (at + 1, 9)


@pytest.mark.parametrize("kind", ["rows", "copies", "steps", "copies of steps", "prefixes"])
def test_coin_flips_that_are_repeated_are_no_machine(kind: str) -> None:
    """Copies of a row, its prefixes, and labels of one row are no evidence of their own."""
    draw = random.Random(7)
    rows = sorted({"".join(draw.choices("01", k=12)) for _ in range(40)})
    flips = {row: draw.randint(0, 1) for row in rows}
    whole = rows * (20 if "copies" in kind else 1)
    ends = range(1, 13) if kind == "prefixes" else (12,)
    sequences = [row[:end] for row in whole for end in ends]
    labels = [[flips[row]] * 12 if "steps" in kind else flips[row] for row in whole for _ in ends]
    learned = csprop.learn(sequences, labels)
    assert not learned.verdict.clear
    assert (learned.run, learned.suspects) == (None, [])


@pytest.mark.parametrize("wrong", [0, 80])
def test_a_class_with_few_different_sequences_is_found(wrong: int) -> None:
    """Of the sequences of up to 16 tokens that repeat 10 there are eight."""
    machine = Machine(transitions=((2, 1), (0, 2), (2, 2)), outputs=(1, 0, 0))
    sequences, labels, changed = rows_of(machine, 1600, seed=11, wrong=wrong)
    learned = csprop.learn(sequences, labels)
    assert learned.verdict.clear
    assert finite(learned).difference(machine) is None
    assert [each.line for each in learned.suspects] == [row + 1 for row in changed]


def test_words_that_do_nothing_cost_little() -> None:
    """A lamp among a hundred other words, each of which occurs about 70 times."""
    draw = random.Random(13)
    words = [f"word{number}" for number in range(100)]
    sequences, labels = [], []
    for _ in range(1000):
        row = [draw.choice(["on", "off"] if draw.random() < 0.3 else words) for _ in range(10)]
        switched = [word for word in row if word in ("on", "off")]
        sequences.append(row)
        labels.append(switched[-1] if switched else "off")
    learned = csprop.learn(sequences, labels)
    assert len(learned.machine) == 2
    assert learned.suspects == []


def test_transitions_that_no_row_takes_are_named() -> None:
    sequences, labels, _ = rows_of(NO_THREE, 300, seed=8)
    learned = csprop.learn([*sequences, "12"], [*labels, 1])
    assert (learned.machine.start, 2) not in learned.verdict.unseen or len(learned.verdict.unseen) == 3
    assert {token for _, token in learned.verdict.unseen} == {2}
    assert "in no row: there the machine is a guess" in learned.verdict.text


def test_one_long_row_does_not_crowd_out_the_others() -> None:
    sequences, labels, _ = rows_of(NO_THREE, 600, seed=10)
    long = "01" * 150_000
    learned = csprop.learn([*sequences, long], [*labels, 1])
    assert finite(learned).difference(NO_THREE) is None
    assert learned.verdict.rows == 601
    assert learned.verdict.held_out >= 100


def test_what_was_learned_from_is_in_the_configuration() -> None:
    run = csprop.learn("tomita-1", samples=300, length=7).run
    assert run is not None
    assert (run.config.recipe.samples, run.config.recipe.length) == (300, 7)


@pytest.mark.parametrize("backend", ["torch", "reference"])
def test_without_the_kernel_the_same_machine_is_found(backend: str) -> None:
    sequences, labels, _ = rows_of(NO_THREE, 150, seed=5)
    with use_backend(backend):
        assert finite(csprop.learn(sequences, labels)).difference(NO_THREE) is None


def test_a_task_is_proven_or_refuted() -> None:
    proven = csprop.learn("tomita-7", samples=500)
    assert proven.verdict.sentence == "tomita-7: a machine of 5 states, proven for all lengths"
    refuted = csprop.learn("mod7-residue", samples=200, length=6)  # too short to come round
    assert refuted.run is not None
    assert refuted.verdict.certificate is not None
    assert "counterexample" in refuted.verdict.sentence
    assert refuted.verdict.certificate.document["counterexample"]["length"] > 6


def edsm(rows: list[list[int]], labels: list[int]) -> Oracle:
    """The machine of AALpy, which ignores a token that leads nowhere."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data = [(tuple(row), label) for row, label in zip(rows, labels, strict=True)]
        model: Any = run_EDSM(data, automaton_type="moore", print_info=False)
    return Oracle(
        2,
        model.initial_state,
        lambda state, token: state.transitions.get(token, state),
        lambda state: state.output or 0,
    )


def test_beside_aalpy_on_a_hundred_files() -> None:
    """A walk over pairs of states says which machine is right."""
    draw = np.random.default_rng(6)
    ours = theirs = 0
    for _ in range(100):
        states = int(draw.integers(2, 6))
        truth = Machine(
            transitions=tuple(map(tuple, draw.integers(0, states, (states, 2)).tolist())),
            outputs=tuple(draw.integers(0, 2, states).tolist()),
        ).minimal()
        rows = [draw.integers(0, 2, draw.integers(1, 13)).tolist() for _ in range(150)]
        labels = [truth.final(tokens) for tokens in rows]
        if len(set(labels)) < 2:
            continue
        found = finite(csprop.learn([list(map(str, row)) for row in rows], labels))
        ours += found.difference(truth) is None
        theirs += Machine.explore(edsm(rows, labels)).difference(truth) is None
    assert ours >= theirs > 0
