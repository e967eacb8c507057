"""Machines of other libraries, files, documents: each becomes the automaton that answers as it does."""

import copy
import json
import random
from pathlib import Path
from typing import Any

import pytest
from aalpy.automata import Dfa, DfaState, MealyMachine, MealyState, MooreMachine, MooreState
from aalpy.utils import generate_random_deterministic_automata
from automata.fa.dfa import DFA
from automata.fa.nfa import NFA
from hypothesis import given

import csprop
from csprop import Automaton
from csprop.automata.automaton import AnyAutomaton, automaton_from_json
from csprop.automata.machine import Machine
from csprop.automata.sources import to_automaton
from csprop.errors import InputError
from tests.automata.test_automaton import parity
from tests.automata.test_counter_automaton import brackets
from tests.automata.test_counting import counter_automata
from tests.helpers.machines import automata


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


PARITY = parity().to_json()
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
    "a field misspelt": (
        {"answer" if k == "answers" else k: v for k, v in PARITY.items()},
        "has no 'answers', but 'answer': did you mean 'answers'?",
    ),
    "no class": (PARITY | {"answers": [0, 2]}, "there are only 2 classes"),
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


# Documents.


FINITE: dict[Any, list[Any]] = {
    "format": ["csprop automaton 2", None],
    "vocab": [
        *([], "01", ["0", "0"], ["0", ""], ["0", 1], ["0", "\ud800"], ["0"], ["0", "1", "2"], None),
        {"0": 0, "1": 1},
    ],
    "classes": [[], ["even"], ["even", "even"], [["even"], "odd"]],
    "words": [0, "no", None],
    "start": [2, -1, 0.0, True, None, "0", []],
    "transitions": [
        *([], None, 5, [[[0, 1]]], [[0, 1], [1, 2]], [[0, 1], [1, -1]], [[0, 1], [1]]),
        *([[0, 1], [1, 0, 0]], [[0, 1], [1, 0.0]], [[0, 1], [1, False]], [[0, 1], [1, None]]),
        *([[0, 1], [1, [0]]], [[0, 1], 3], ["01", "10"], {"0": [0, 1]}, [[0, 1], [1, 2**70]]),
    ],
    "answers": [
        *([0], [0, 1, 0], [0, 2], [0, -1], [], [None, 1], [0, "1"], [0, True], [0, 1.0], [0, [1]]),
        *(None, "01"),
    ],
    "extra": [1],
    7: [1],
}
COUNTING: dict[Any, list[Any]] = {
    "format": ["csprop automaton 1", "csprop automaton 3", None],
    "vocab": [[], "()", ["(", "("], ["(", 1], ["("], ["(", ")", "x"], None],
    "classes": [[], ["no"], ["no", "no"], [["no"], "yes"]],
    "words": [0, "no", None],
    "increments": [
        *([], None, 5, "11", [1, -1], [[1], -1], [[1]], [[1], [-1], [0]], [[1], [-1, 0]], [[], []]),
        *([[1], [0.5]], [[1], [True]], [[1], [None]], [[1], ["1"]], [[1], [2**40]], {"0": [1]}),
        [[1, 0], [-1, 0]],
    ],
    "window": [-1, 0, 2, 1.0, True, None, "1", 2**80],
    "start": [3, -1, 0.0, True, None, "0", []],
    "transitions": [
        *([], None, 5, [[0, 1, 2]], [[[0, 0, 0], [1, 2, 0]]], [[[0, 0], [0, 0]]] * 3),
        *([[0, 0, 0, 1, 2, 0]] * 3, [[[0, 0, 0], [1, 2]]] * 3, [[[0, 0, 0], [1, 2, 3]]] * 3),
        *([[[0, 0, 0]]] * 3, [[[0, 0, 0], [1, 2, 0.0]]] * 3, [[[0, 0, 0], [1, 2, None]]] * 3),
        *([[[0, 0, 0], 5]] * 3, [[[0, 0, 0], "120"]] * 3, [[]] * 3, {"0": []}),
        [[[0, 0], [0, 1, 2, 0]]] * 3,
    ],
    "answers": [
        *([0, 0], [0, 0, 1, 1], [0, 0, 2], [0, 0, -1], [], [None, 0, 1], [0, 0, "1"], None, "001"),
    ],
    "extra": [1],
    7: [1],
}
MADE = {"finite": parity(), "counting": brackets()}


@given(automata() | counter_automata())
def test_a_document_is_read_as_the_same_automaton(automaton: AnyAutomaton) -> None:
    assert automaton_from_json(json.loads(json.dumps(automaton.to_json()))) == automaton


@pytest.mark.parametrize(
    ("kind", "field", "value"),
    [
        (kind, field, value)
        for kind, fields in (("finite", FINITE), ("counting", COUNTING))
        for field, values in fields.items()
        for value in values
    ],
    ids=lambda value: ascii(value)[:40],
)
def test_malformed_documents(kind: str, field: Any, value: Any) -> None:
    automaton = MADE[kind]
    document = copy.deepcopy(automaton.to_json())
    document[field] = value
    with pytest.raises(InputError, match=r"^(automaton|machine|counter machine): ") as caught:
        type(automaton).from_json(document)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", MADE)
def test_other_values_and_missing_fields_are_refused(kind: str) -> None:
    whole = MADE[kind].to_json()
    lacking = [{name: whole[name] for name in whole if name != each} for each in whole]
    for document in (None, [], "x", 3, {}, True, *lacking):
        with pytest.raises(InputError, match=r"^automaton: "):
            type(MADE[kind]).from_json(document)
