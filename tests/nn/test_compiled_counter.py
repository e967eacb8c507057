"""Machines that count, compiled into weights: equal to their definition at every prefix and depth."""

import random
from itertools import product

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from csprop.automata.counting import CounterMachine
from csprop.automata.machine import Machine
from csprop.cells import Router
from csprop.cells.router import lead
from csprop.errors import InputError
from csprop.nn import compile as compiling
from csprop.nn.compile import WIDEST, compile_counter
from csprop.nn.model import CSP
from tests.helpers.counters import LANGUAGES, brackets, plain


def draw(seed: int, counters: int, window: int, tokens: int = 3, states: int = 4) -> CounterMachine:
    """Return a random machine. Most of its states depend on earlier counts."""
    dice = random.Random(f"counter machine {seed}")
    symbols = tokens * (2 * window + 1) ** counters
    rows = tuple(tuple(dice.randrange(states) for _ in range(symbols)) for _ in range(states))
    control = Machine(transitions=rows, outputs=tuple(dice.randrange(3) for _ in range(states)))
    increments = tuple(tuple(dice.randint(-3, 3) for _ in range(counters)) for _ in range(tokens))
    return CounterMachine(increments=increments, window=window, control=control)


def deep(machine: CounterMachine, dice: random.Random, length: int) -> list[int]:
    """Return a sequence of long runs of one token: counts go far from zero and come back."""
    row: list[int] = []
    while len(row) < length:
        row += [dice.randrange(machine.symbols)] * dice.choice((1, 1, 2, 30))
    return row[:length]


@torch.no_grad()
def answers(model: CSP, rows: list[list[int]]) -> list[list[int]]:
    return model(torch.tensor(rows)).argmax(dim=2).tolist()


@pytest.mark.parametrize("name", LANGUAGES)
def test_languages_on_every_short_input(name: str) -> None:
    language = LANGUAGES[name]
    tokens = language.machine.symbols
    rows = list(product(range(tokens), repeat={2: 9, 3: 6, 4: 5}[tokens]))
    said = answers(compile_counter(language.machine, 3), [list(row) for row in rows])
    for row, each in zip(rows, said, strict=True):
        assert each == [language.truth(row[:end]) for end in range(1, len(row) + 1)]


@pytest.mark.parametrize("window", [1, 2, 3, 4])
@pytest.mark.parametrize("counters", [1, 2])
def test_random_machines_on_every_short_input_and_deep_ones(counters: int, window: int) -> None:
    machine, dice = draw(0, counters, window), random.Random(0)
    model = compile_counter(machine, 3)
    rows = [list(row) for row in product(range(3), repeat=5)]
    assert answers(model, rows) == [plain(machine, tuple(row)) for row in rows]
    rows = [deep(machine, dice, 400) for _ in range(4)]
    assert answers(model, rows) == [plain(machine, tuple(row)) for row in rows]
    stream = model.stream()
    assert [int(stream.step(token).argmax()) for token in rows[0]] == plain(machine, tuple(rows[0]))


@given(
    seed=st.integers(0, 2**31), counters=st.integers(0, 2), window=st.integers(0, 5),
    tokens=st.integers(1, 9), states=st.integers(1, 9),
)  # fmt: skip
def test_any_small_machine(seed: int, counters: int, window: int, tokens: int, states: int) -> None:
    machine = draw(seed, counters, window, tokens, states)
    row = deep(machine, random.Random(seed), 120)
    assert answers(compile_counter(machine, 3), [row]) == [plain(machine, tuple(row))]


@pytest.mark.parametrize(
    ("counters", "window"),
    [(1, 1), (1, 2), (1, 4), (1, WIDEST), (2, 1), (2, 3)],
)
def test_every_pair_of_a_token_and_a_view_leads_clearly_at_any_count(
    counters: int, window: int
) -> None:
    """The keys of all pairs, from states of the counters that are set by hand."""

    def state(at: int, token: int, counts: tuple[int, ...]) -> int:
        digits = [count + window for count in (token, *counts)]
        return (at + sum((place + 2) * digit**2 for place, digit in enumerate(digits))) % 53

    tokens = ((1, 0), (-1, 1), (0, -1), (0, 0)) if counters == 2 else ((1,), (-1,), (0,))
    machine = CounterMachine.explore(tokens, 0, state, lambda at, counts: int(at == 0), window)
    assert machine.reduce().window == window
    model = compile_counter(machine, 2)
    small = machine.reduce()
    counter, router = model.layers
    near = [*range(-window - 2, window + 3), 10**6, -(10**6), 2**24, -(2**24)]
    least = torch.inf
    for counts in product(near, repeat=counters):
        h = torch.zeros(small.symbols, 1, 2, model.config.width)
        h[:, :, 1] = 1
        h[:, :, 0, :counters] = torch.tensor(counts).float()
        scores, _ = router.transition(counter.finish(h, model.embedding.detach()[:, None]))
        view = 0
        for count in counts:
            view = view * (2 * window + 1) + max(-window, min(window, count)) + window
        wanted = [token * small.views + view for token in range(small.symbols)]
        assert scores.argmax(dim=2).flatten().tolist() == wanted
        least = min(least, float(lead(scores.detach(), 2).min()))
    assert least > 0.99


def test_counts_are_exact_to_2_to_the_24_and_refused_beyond() -> None:
    million = 10**6
    machine = CounterMachine.explore(
        ((million,), (-million,), (-1,)), 0, lambda *_: 0, lambda _, counts: counts[0] + 1
    )
    model = compile_counter(machine, 3)
    row = [0] * 16 + [1] * 16 + [2, 0] + [1]
    assert answers(model, [row]) == [plain(machine, tuple(row))]
    assert plain(machine, tuple(row))[-4:] == [1, 0, 2, 0]
    with pytest.raises(InputError, match="a count is not exact: float32 holds whole numbers up to"):
        answers(model, [[0] * 17])


def test_a_depth_of_65_536() -> None:
    model, half = compile_counter(brackets(), 2), 1 << 16
    said = answers(model, [[0] * half + [1] * half + [0, 1, 1, 0]])[0]
    assert [place for place, answer in enumerate(said) if answer] == [2 * half - 1, 2 * half + 1]


def test_a_hundred_tokens_are_told_apart() -> None:
    """Token 37 opens, 64 closes, and the others do nothing."""
    increments = tuple((int(token == 37) - int(token == 64),) for token in range(100))
    machine = CounterMachine.explore(
        increments, 0, lambda *_: 0, lambda _, counts: int(counts[0] > 0), 1
    )
    dice = random.Random(0)
    row = [dice.choice((37, 64, dice.randrange(100))) for _ in range(500)]
    depths = [row[:end].count(37) - row[:end].count(64) for end in range(1, 501)]
    assert answers(compile_counter(machine, 2), [row]) == [[int(depth > 0) for depth in depths]]


def test_a_machine_is_reduced_first() -> None:
    wide = compile_counter(brackets(window=5, scale=3), 2)
    assert wide.config.layers[1] == Router(maps=6)
    assert wide.embedding[:, 0, 0].tolist() == [1.0, -1.0]


def threshold(window: int) -> CounterMachine:
    return CounterMachine.explore(
        ((1,), (-1,)), 0, lambda *_: 0, lambda _, counts: int(counts[0] >= window), window
    )


def test_a_machine_that_is_too_large_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    row = [0] * (WIDEST + 3) + [1] * 5
    assert answers(compile_counter(threshold(WIDEST), 2), [row]) == [
        plain(threshold(WIDEST), tuple(row))
    ]
    with pytest.raises(InputError, match=r"counts from −33 to 33 apart.* may be 32 wide"):
        compile_counter(threshold(33), 2)
    many = CounterMachine.explore(
        ((2**20 + 1,), (-1,)), 0, lambda *_: 0, lambda _, counts: int(counts[0] > 0)
    )
    with pytest.raises(InputError, match="a token adds more than 1,048,576"):
        compile_counter(many, 2)
    monkeypatch.setattr(compiling, "MOST_WEIGHTS", 50)
    with pytest.raises(InputError, match="2 tokens with 3 views of the counts take 54 weights"):
        compile_counter(brackets(), 2)
