"""Machines of other libraries, and files: each becomes the automaton that answers as it does."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
from aalpy.automata import Dfa, DfaState, MealyMachine, MealyState, MooreMachine, MooreState
from aalpy.utils import generate_random_deterministic_automata
from automata.fa.dfa import DFA
from automata.fa.nfa import NFA

import csprop
from csprop import Automaton
from csprop.automata.machine import Machine
from csprop.automata.sources import read_automaton, to_automaton
from csprop.errors import InputError
from tests.helpers import machines


def finite(machine: Any) -> Automaton:
    """One that does not count."""
    found = to_automaton(machine)
    assert isinstance(found, Automaton)
    return found


def strings(alphabet: list[str], seed: int) -> list[list[str]]:
    dice = random.Random(seed)
    return [[dice.choice(alphabet) for _ in range(dice.randint(1, 30))] for _ in range(50)]


def said(automaton: Automaton, sequence: list[str]) -> list[str]:
    tokens = [automaton.vocab.index(each) for each in sequence]
    return [automaton.classes[each] for each in automaton.run(tokens).tolist()]


@pytest.mark.parametrize("kind", ["dfa", "moore", "mealy"])
@pytest.mark.parametrize("seed", range(5))
def test_aalpy_machines_answer_alike(kind: str, seed: int) -> None:
    random.seed(seed)  # which AALpy draws from
    theirs: Any = generate_random_deterministic_automata(kind, 8, 3, 4)
    run = csprop.compile(theirs)
    assert run.certificate is not None
    assert run.certificate.proven
    ours = finite(theirs)
    assert list(ours.vocab) == sorted(theirs.get_input_alphabet())
    for sequence in strings(theirs.get_input_alphabet(), seed):
        want = theirs.execute_sequence(theirs.initial_state, sequence)
        if kind == "dfa":
            want = ["accept" if each else "reject" for each in want]
        assert said(ours, sequence) == want
        assert run.predict([sequence]) == [want[-1]]


def partial_dfa() -> DFA:
    """Of a's and b's, a b at most as the last; there is no transition after it."""
    return DFA(
        states={"a's", "b"}, input_symbols={"b", "a"}, initial_state="a's", final_states={"b"},
        transitions={"a's": {"a": "a's", "b": "b"}, "b": {}}, allow_partial=True,
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(5))
def test_automata_lib_s_dfas_answer_alike(seed: int) -> None:
    dice = random.Random(seed)
    states = {f"q{number}" for number in range(7)}
    paths = {s: {token: dice.choice(sorted(states)) for token in "xyz"} for s in sorted(states)}
    dfa = DFA(
        states=states, input_symbols=set("xyz"), transitions=paths, initial_state="q0",
        final_states=set(dice.sample(sorted(states), 3)),
    )  # fmt: skip
    ours = finite(dfa)
    assert (ours.vocab, ours.classes, ours.words) == (("x", "y", "z"), ("reject", "accept"), False)
    for sequence in strings(list("xyz"), seed):
        assert said(ours, sequence)[-1] == (
            "accept" if dfa.accepts_input("".join(sequence)) else "reject"
        )


def test_an_incomplete_dfa_rejects_what_it_has_no_transition_for() -> None:
    dfa, b = partial_dfa(), DfaState("b", is_accepting=True)
    a = DfaState("a's", is_accepting=False)
    a.transitions = {"a": a, "b": b}
    for theirs in (dfa, Dfa(a, [a, b])):
        run = csprop.compile(theirs)
        assert run.certificate is not None
        assert run.certificate.proven
        for text in ("a", "b", "ab", "aab", "ba", "bb", "abaab", "abb"):
            assert run.predict([text]) == ["accept" if dfa.accepts_input(text) else "reject"], text


def test_incomplete_moore_and_mealy_machines_are_refused() -> None:
    here, there = MooreState("here", "low"), MooreState("there", "high")
    here.transitions, there.transitions = {"up": there, "down": here}, {"down": here}
    with pytest.raises(InputError, match="no transition from 'there' for 'up': complete it"):
        csprop.compile(MooreMachine(here, [here, there]))
    first, second = MealyState("first"), MealyState("second")
    first.transitions, first.output_fun = {"x": second, "y": first}, {"x": 1, "y": 2}
    second.transitions, second.output_fun = {"x": first}, {"x": 1}
    with pytest.raises(InputError, match="no transition from 'second' for 'y'"):
        csprop.compile(MealyMachine(first, [first, second]))


def test_outputs_that_are_numbers_are_in_their_order() -> None:
    states = [MooreState(f"s{number}", 10 - number) for number in range(3)]
    for number, state in enumerate(states):
        state.transitions = {token: states[(number + token) % 3] for token in (0, 1, 10)}
    ours = finite(MooreMachine(states[0], states))
    assert (ours.vocab, ours.classes, ours.words) == (("0", "1", "10"), ("8", "9", "10"), True)
    assert said(ours, ["1", "1", "1", "10"]) == ["9", "8", "10", "9"]


def test_a_machine_without_names_gets_numbers() -> None:
    ours = finite(Machine(transitions=((0, 1), (1, 0)), outputs=(0, 0)))
    assert (ours.vocab, ours.classes) == (("0", "1"), ("0", "1"))


def test_what_else_is_given_is_refused() -> None:
    nfa = NFA(states={"q"}, input_symbols={"a"}, transitions={"q": {}}, initial_state="q",
              final_states=set())  # fmt: skip
    for other in (nfa, 3, None, [[0, 1]], {"transitions": []}):
        with pytest.raises(InputError, match="cannot be compiled: give an Automaton") as refused:
            csprop.compile(other)
        assert "\n" not in str(refused.value)
    one = MooreState("only", "ok")
    one.transitions = {"a": one}
    with pytest.raises(InputError, match="every answer is 'ok': there must be at least two classes"):
        csprop.compile(MooreMachine(one, [one]))


PARITY = machines.automaton("01", ("even", "odd"), False, 0, ((0, 1), (1, 0)), (0, 1)).to_json()
BAD: dict[str, tuple[Any, str]] = {
    "nothing": (
        b"",
        "is not JSON: expecting value at column 1: write what `csprop automaton RUN --format json` "
        "prints",
    ),
    "half": (
        b'{"format":\n 1,, ',
        "is not JSON: expecting property name enclosed in double quotes at line 2, ",
    ),
    "no text": (b'["\xff"]', "is not JSON: byte 2 is not UTF-8 text"),
    "deep": (b"[" * 100_000, "is not JSON: it is nested too deeply"),
    "a list": ([], "this is not a document of the format"),
    "another format": (PARITY | {"format": "dot"}, "the format is 'dot': write 'csprop automaton 1'"),
    "a field less": (
        {k: v for k, v in PARITY.items() if k != "words"},
        "has no 'words'; it has 'format', ",
    ),
    "a field misspelt": (
        {"answer" if k == "answers" else k: v for k, v in PARITY.items()},
        "has no 'answers', but 'answer': did you mean 'answers'?",
    ),
    "a field more": (
        PARITY | {"name": "parity"},
        "has a field 'name', which is unknown: write format, vocab,",
    ),
    "no class": (PARITY | {"answers": [0, 2]}, "there are only 2 classes"),
    "no answer": (PARITY | {"answers": [0, None]}, "it needs an output"),
    "words that are 1": (PARITY | {"words": 1}, "words must be True or False"),
    "one class": (PARITY | {"classes": ["even"], "answers": [0, 0]}, "at least two classes"),
    "a line in a name": (PARITY | {"classes": ["even", "o\ndd"]}, "unprintable characters"),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_file_is_one_sentence(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from csprop.cli.main import main

    content, complaint = BAD[kind]
    path, out = tmp_path / "machine.json", tmp_path / "run"
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    with pytest.raises(InputError):
        csprop.compile(path, out)
    assert main(["compile", str(path), "--out", str(out)]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("csprop compile: ")
    assert said.err.count("\n") == 1
    assert complaint in said.err
    assert not out.exists()


def test_what_is_no_file_is_one_sentence(tmp_path: Path) -> None:
    for path, complaint in (
        (tmp_path / "none.json", "there is no such file"),
        (tmp_path, "it is not a regular file"),
        (Path("/dev/zero"), "it is not a regular file"),
        (Path("a\0b"), "no file can have this name"),
    ):
        with pytest.raises(InputError, match=complaint):
            read_automaton(path)
