"""The text of an automaton says exactly what the automaton does: it is read back, arrow by arrow."""

import itertools

import pytest
from hypothesis import given
from rich.cells import cell_len

from csprop.automata.automaton import Automaton, CounterAutomaton
from csprop.automata.export import to_text
from tests.helpers import counters, machines

Moves = dict[tuple[int, str], int]
NAMES = ("0", "1", "ok", "fail", "漢字", "é")
CLASSES = ("no", "yes", "not yet", "不")


def cells(text: str) -> list[list[str]]:
    """Return the cells of a terminal; the second one of a wide character is empty."""
    rows = []
    for line in text.splitlines():
        row: list[str] = []
        for character in line:
            row += [character, *[""] * (cell_len(character) - 1)]
        rows.append(row)
    width = max(map(len, rows))
    return [row + [" "] * (width - len(row)) for row in rows]


def drawn(text: str) -> tuple[Moves, dict[int, str], int]:
    """Return a drawing read back, as a person would: from one line along an arrow to another."""
    grid = cells(text.rpartition("→ start")[0])
    first = next((n for n, row in enumerate(grid) if {"├", "┤"} & {*row}), len(grid))
    edge = [c for c, each in enumerate(grid[0]) if each.isdigit() and grid[0][c - 1] == " "]
    moves: Moves = {}
    answers: dict[int, str] = {}
    for left, right in itertools.pairwise([*edge, len(grid[0]) + 2]):
        name, *stays = ("".join(row[left : right - 2]).strip() for row in grid[:first])
        number, _, answer = name.partition(" ")
        answers[int(number)] = answer
        loops = " ".join(filter(None, stays)).removeprefix("↻ ")
        moves |= {(int(number), token): int(number) for token in loops.split(", ") if token}
    for row in grid[first:]:
        ((tail, to_right),) = ((c, each == "├") for c, each in enumerate(row) if each in ("├", "┤"))
        head = row.index("▶") + 1 if to_right else row.index("◀") - 1
        low, high = sorted((tail, head))
        label = "".join(row[low + 1 : high]).strip("─┼▶◀ ")
        for token in label.split(", "):
            assert (edge.index(tail), token) not in moves
            moves[edge.index(tail), token] = edge.index(head)
    return moves, answers, edge.index(grid[0].index("→") + 2)


def listed(text: str) -> tuple[Moves, dict[int, str], int]:
    """Return a list of moves read back."""
    moves: Moves = {}
    answers: dict[int, str] = {}
    state = start = there = -1
    grid = cells(text)
    columns = ["".join(grid[0]).index(name) for name in ("state", "answer", "next", "on")]
    for row in grid[1:]:
        number, answer, leads, label = (
            "".join(row[begin:end]).strip() for begin, end in itertools.pairwise([*columns, None])
        )
        if number:
            state, answers[int(number)] = int(number), answer
            start = state if row[0] == "→" else start
        there = int(leads) if leads else there
        for token in filter(None, label.rstrip(",").split(", ")):
            moves[state, token] = there
    return moves, answers, start


def expected(automaton: Automaton) -> tuple[Moves, dict[int, str], int]:
    moves = {
        (state, automaton.vocab[token]): there
        for state, row in enumerate(automaton.transitions)
        for token, there in enumerate(row)
    }
    answers = {
        state: "" if output is None else automaton.classes[output]
        for state, output in enumerate(automaton.outputs)
    }
    return moves, answers, automaton.start


@given(machines.automata(NAMES, CLASSES, words=True))
def test_what_is_drawn_is_what_the_automaton_does(automaton: Automaton) -> None:
    text = to_text(automaton)
    assert (drawn(text) if "→ start" in text else listed(text)) == expected(automaton)
    assert max(map(cell_len, text.splitlines())) <= 80


@given(machines.automata(NAMES[:4], CLASSES, 5))
def test_lines_in_ascii_have_the_same_places(automaton: Automaton) -> None:
    plain = machines.automaton(
        tuple("abcd"[: automaton.symbols]), ("no", "yes", "maybe", "ok"), False,
        automaton.start, automaton.transitions, automaton.outputs,
    )  # fmt: skip
    text, ascii = to_text(plain), to_text(plain, ascii=True)
    assert ascii.isascii()
    assert ascii == text.translate(str.maketrans("─│├┤┼▶◀→↻", "-|||+><>@"))


def ring(states: int) -> Automaton:
    rows = tuple((state, (state + 1) % states) for state in range(states))
    return machines.automaton(("0", "1"), ("no", "yes"), False, 0, rows, (1, *[0] * (states - 1)))


def test_small_machines_are_drawn_and_large_ones_listed() -> None:
    assert [states for states in range(2, 20) if "▶" in to_text(ring(states))] == [*range(2, 11)]
    large = ring(300)
    assert listed(to_text(large)) == expected(large)


@pytest.mark.parametrize("tokens", [1, 40])
def test_many_tokens_are_listed_in_lines_that_fit(tokens: int) -> None:
    vocab = tuple(f"token{number}" for number in range(tokens))
    automaton = machines.automaton(vocab, ("x",), True, 0, ((1,) * tokens, (0,) * tokens), (0, 0))
    text = to_text(automaton)
    assert ("▶" in text) == (tokens == 1)
    assert max(map(len, text.splitlines())) <= 80
    assert (drawn if tokens == 1 else listed)(text) == expected(automaton)


def test_counters_have_their_conditions_and_an_explanation() -> None:
    automaton = CounterAutomaton.from_machine(counters.brackets(), ("(", ")"), ("no", "yes"))
    text, ascii = to_text(automaton), to_text(automaton, ascii=True)
    assert "c: ( +1, ) −1\nif: the counts after the token\n" in text
    assert ascii.isascii()
    for condition in ("c = 0", "c < 0", "c > 0"):
        assert condition in text
        assert condition in ascii
