"""Machines that count, beside their definitions in plain Python."""

import itertools

from csprop.automata.counting import CounterMachine

BRACKETS = CounterMachine.explored(
    ((1,), (-1,)),
    "good",
    lambda state, token, counts: "bad" if state == "bad" or counts[0] < 0 else "good",
    lambda state, counts: int(state == "good" and counts[0] == 0),
)


def balanced(sequence: tuple[int, ...]) -> int:
    """Whether 0 opens and 1 closes a bracket."""
    depth = 0
    for token in sequence:
        depth += 1 - 2 * token
        if depth < 0:
            return 0
    return int(depth == 0)


def test_brackets_are_counted() -> None:
    assert len(BRACKETS.control) <= 3
    for length in range(1, 11):
        for sequence in itertools.product((0, 1), repeat=length):
            said = BRACKETS.run(list(sequence))
            assert said.tolist() == [balanced(sequence[: n + 1]) for n in range(length)]


def test_two_counters_and_the_oracle_agree() -> None:
    machine = CounterMachine.explored(
        ((1, 0), (-1, 1), (0, -1)),  # a, b, c: as many a as b, and as many b as c
        0,
        lambda state, token, counts: 3 if token < state else token if state < 3 else 3,
        lambda state, counts: int(state < 3 and counts == (0, 0)),
    )
    oracle = machine.oracle
    for sequence in itertools.product(range(3), repeat=6):
        state = oracle.start
        for token in sequence:
            state = oracle.step(state, token)
        right = int(
            list(sequence) == sorted(sequence) and len({sequence.count(i) for i in range(3)}) == 1
        )
        assert oracle.answer(state) == machine.run(list(sequence))[-1] == right
