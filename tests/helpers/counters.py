"""Languages that need counters: a machine for each, and its definition in plain Python."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from csprop.automata.counting import CounterMachine

Sequence = tuple[int, ...]


@dataclass(frozen=True)
class Language:
    machine: CounterMachine
    truth: Callable[[Sequence], int]


def brackets(window: int = 1, scale: int = 1, bad: int = 0) -> CounterMachine:
    """0 opens, 1 closes; `bad` is the answer once too many are closed."""
    return CounterMachine.explore(
        ((scale,), (-scale,)),
        "good",
        lambda state, token, counts: "bad" if state == "bad" or counts[0] * scale < 0 else "good",
        lambda state, counts: bad if state == "bad" else int(counts[0] == 0),
        window,
    )


def in_order(
    increments: tuple[tuple[int, ...], ...],
    good: Callable[[tuple[int, ...]], bool] = lambda counts: not any(counts),
) -> CounterMachine:
    """a's, then b's, and so on, some of each, such that the counts are good: by default, all 0."""
    last = len(increments) - 1

    def step(state: int, token: int, counts: tuple[int, ...]) -> int:
        return token if token in (state, state + 1) and state <= last else last + 1

    # In the state −1 nothing was read; the answer is yes only in the state of the last letter.
    return CounterMachine.explore(
        increments, -1, step, lambda state, counts: int(state == last and good(counts))
    )


def said_of_brackets(sequence: Sequence) -> int:
    """0 if some are open, 1 if balanced, 2 once too many are closed."""
    depth = 0
    for token in sequence:
        depth += 1 - 2 * token
        if depth < 0:
            return 2
    return int(depth == 0)


def balanced(sequence: Sequence) -> int:
    return int(said_of_brackets(sequence) == 1)


def runs(sequence: Sequence, letters: int) -> tuple[int, ...]:
    """Return the number of each letter; nothing unless they are in order, and some of each."""
    counts = tuple(sequence.count(letter) for letter in range(letters))
    return counts if list(sequence) == sorted(sequence) and all(counts) else ()


def interleaved(sequence: Sequence) -> int:
    """0 and 2 open, 1 and 3 close."""
    kinds = [[token % 2 for token in sequence if token // 2 == kind] for kind in (0, 1)]
    return int(all(balanced(tuple(kind)) or not kind for kind in kinds))


def proportions(letters: int, good: Callable[..., bool]) -> Callable[[Sequence], int]:
    return lambda sequence: int((counts := runs(sequence, letters)) != () and good(*counts))


LANGUAGES = {
    "parenthesis": Language(brackets(), balanced),
    "too many": Language(brackets(bad=2), said_of_brackets),
    "a^n b^n": Language(in_order(((1,), (-1,))), proportions(2, lambda a, b: a == b)),
    "a^n b^2n": Language(in_order(((2,), (-1,))), proportions(2, lambda a, b: 2 * a == b)),
    "a^n b^n c^n": Language(
        in_order(((1, 0), (-1, 1), (0, -1))), proportions(3, lambda a, b, c: a == b == c)
    ),
    "a^n b^m c^n+m": Language(
        in_order(((1,), (1,), (-1,))), proportions(3, lambda a, b, c: a + b == c)
    ),
    "majority": Language(
        CounterMachine.explore(
            ((1,), (-1,)), 0, lambda state, token, counts: 0, lambda state, counts: int(counts[0] > 0)
        ),
        lambda sequence: int(sequence.count(0) > sequence.count(1)),
    ),
    "interleaved": Language(
        CounterMachine.explore(
            ((1, 0), (-1, 0), (0, 1), (0, -1)),
            "good",
            lambda state, token, counts: "bad" if state == "bad" or min(counts) < 0 else "good",
            lambda state, counts: int(state == "good" and counts == (0, 0)),
        ),
        interleaved,
    ),
}


def plain(machine: CounterMachine, sequence: Sequence) -> list[int | None]:
    """Return the answers, by definition."""
    state, counts, said = machine.control.start, [0] * machine.counters, []
    for token in sequence:
        state, counts = plain_step(machine, state, counts, token)
        said.append(machine.control.outputs[state])
    return said


def plain_step(
    machine: CounterMachine, state: int, counts: list[int], token: int
) -> tuple[int, list[int]]:
    counts = [count + more for count, more in zip(counts, machine.increments[token], strict=True)]
    return look_up(machine, state, token, counts), counts


def look_up(machine: CounterMachine, state: int, token: int, counts: list[int]) -> int:
    """Return the next state of the control, from the counts after a token."""
    symbol, window = token, machine.window
    for count in counts:
        symbol = symbol * (2 * window + 1) + sorted((-window, count, window))[1] + window
    return machine.control.transitions[state][symbol]


def shortest_difference(one: CounterMachine, two: CounterMachine, most: int) -> int | None:
    """Return the length of the shortest input of up to `most` tokens with different answers."""
    start = (one.control.start, (0,) * one.counters, two.control.start, (0,) * two.counters)
    queue, seen = deque([(start, 0)]), {start}
    while queue:
        (p, counts, q, others), length = queue.popleft()
        if length == most:
            continue
        for token in range(one.symbols):
            here, now = plain_step(one, p, list(counts), token)
            there, then = plain_step(two, q, list(others), token)
            if one.control.outputs[here] != two.control.outputs[there]:
                return length + 1
            after = (here, tuple(now), there, tuple(then))
            if after not in seen:
                seen.add(after)
                queue.append((after, length + 1))
    return None


def widened(machine: CounterMachine, window: int) -> CounterMachine:
    return rebuilt(machine, machine.increments, window, lambda counts: counts)


def rebuilt(
    machine: CounterMachine,
    increments: tuple[tuple[int, ...], ...],
    window: int,
    seen: Callable[[list[int]], list[int]],
    lost: int | None = None,
    far: int | None = None,
) -> CounterMachine:
    """Return the machine with other counters, from which its own are seen.

    Where the first count is `far`, the state becomes `lost`; without such a state, the answer is wrong.
    """

    def step(state: int, token: int, counts: tuple[int, ...]) -> int:
        if far is not None and lost is not None and counts[0] == far:
            return lost
        return look_up(machine, state, token, seen(list(counts)))

    def answer(state: int, counts: tuple[int, ...]) -> int:
        wrong = far is not None and lost is None and counts[0] == far
        return (machine.control.outputs[state] or 0) + wrong

    return CounterMachine.explore(increments, machine.control.start, step, answer, window)
