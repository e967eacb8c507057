"""The verbs on a run that counts: what they say of it, and that deep brackets are right."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

import csprop
from csprop.automata.automaton import CounterAutomaton
from csprop.proof.locked_counter import LockedCounter
from csprop.runs.run import Run
from tests.cli.conftest import Shell, strings
from tests.cli.test_exact_cli import answers, program
from tests.helpers.counters import balanced

STRINGS = strings("()", 8)
HALF = 2**19
DEEP = ["(" * HALF + ")" * HALF, "(" * HALF + ")" * (HALF - 1), "(" * (HALF - 1) + ")" * (HALF + 1)]


def truth(text: str) -> str:
    return ("no", "yes")[balanced(tuple("()".index(each) for each in text))]


def test_certify_says_what_is_counted(brackets: Path, shell: Shell) -> None:
    # Certifying again gives the certificate that the run has, without the search.
    shell.monkeypatch.setattr(Run, "certify", lambda self, **options: self.certificate)
    said = shell("certify", brackets).out
    assert said.startswith(f"{brackets}: proven for all lengths and depths\n")
    document: dict[str, Any] = json.loads((brackets / "certificate.json").read_text())
    control = csprop.load(brackets).locked
    assert isinstance(control, LockedCounter)
    held = f"the network has {len(control.machine)} states and 1 counter"
    assert f"\nmachine    3 states and 1 counter; {held}\n" in said
    assert "\ncounter c  ( +1, ) −1\n" in said
    window = document["counting"]["window"]
    assert "counts are seen from −1 to 1, and beyond as these; in the network" in said
    assert f"from −{window} to {window}\n" in said
    assert f"each gate is at least {document['gate']:.2f} from" in said
    assert f"leads the next by at least {document['margin']:.2f}\n" in said
    assert "\nexact      counts up to 2^62; in the network's own float32, up to 2^21\n" in said
    assert max(len(line) for line in said.splitlines() if str(brackets) not in line) <= 80
    assert "Next, one of" not in said
    table = shell("certify", brackets, brackets).out
    assert table.count("1 counter") == 2
    assert max(map(len, table.splitlines())) <= 80


def test_a_depth_is_refused_because_every_depth_is_proven(brackets: Path, shell: Shell) -> None:
    said = shell.refuse("certify", brackets, "--depth", 4)
    assert "a model that counts is proven at every depth: leave out the depth" in said


def test_predictions_are_certain(brackets: Path, shell: Shell) -> None:
    found = shell.json("predict", brackets, typed="(()\n()\n")["predictions"]
    chances = [each["probabilities"] for each in found]
    assert chances == [{"no": 1.0, "yes": 0.0}, {"no": 0.0, "yes": 1.0}]
    (found,) = shell.json("predict", brackets, "--as-trained", typed="()\n")["predictions"]
    assert 0.5 < found["probabilities"]["yes"] < 1


def test_eval_counts_no_error(brackets: Path, shell: Shell) -> None:
    every = shell.json("eval", brackets, "--exhaustive", "--lengths", "2,8")
    assert [(row["count"], row["wrong"]) for row in every["scores"]] == [(4, 0), (256, 0)]
    assert every["locked"] is True
    sample = shell.json("eval", brackets, "--lengths", "16,4096")
    assert [row["wrong"] for row in sample["scores"]] == [0, 0]


@pytest.mark.parametrize("format", ["json", "dot", "python", "c"])
def test_every_format_says_what_predict_says(format: str, brackets: Path, shell: Shell) -> None:
    want = list(map(truth, STRINGS))
    said = shell("automaton", brackets, "--format", format)
    assert said.err == f"{brackets}: proven for all lengths and depths; 3 states and 1 counter\n"
    if format == "json":
        assert shell.predict(brackets, STRINGS) == want
        machine = CounterAutomaton.from_json(json.loads(said.out))
        tokens = [["()".index(symbol) for symbol in each] for each in STRINGS]
        assert [machine.classes[machine.run(each)[-1]] for each in tokens] == want
    elif format == "dot":
        assert '[label=") if c = 0"];' in said.out
    else:
        assert answers(program(format, said.out, shell.folder), STRINGS) == want


def test_a_million_tokens_half_a_million_deep(brackets: Path, shell: Shell) -> None:
    want = ["yes", "no", "no"]
    assert shell.predict(brackets, DEEP) == want
    run = csprop.load(brackets)
    assert run.predict(DEEP) == want
    stream = run.stream()
    for token in [0] * 1000 + [1] * 999:
        assert int(stream.step(token).argmax()) == 0
    assert int(stream.step(1).argmax()) == 1
    source = shell("automaton", brackets, "--format", "c").out
    assert answers(program("c", source, shell.folder), DEEP) == want


def test_the_tasks_that_count_are_listed(shell: Shell) -> None:
    marked = re.findall(r"^  (\S+) \*  ", shell("tasks").out, flags=re.MULTILINE)
    assert marked == [task.name for task in csprop.tasks.catalogue() if task.counting is not None]
    assert "parenthesis" in marked
