"""The checker's part for models that count. It shares no code with the prover.

A certificate has two sets of pairs, each closed under every token. In the first one a pair is what the
layer above the counters holds, a state of the automaton, and values of linear forms; each step of it is
computed again from the weights, for all counts that a value stands for at once. In the second one a
pair is a state of the automaton, a state of the task's machine, and values.

A value v of a form with the bound N and the period m stands for v alone if |v| ≤ N, and beyond for v,
v ± m, v ± 2m, …, away from 0.
"""

import math
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

from csprop.proof.check_network import Weights
from csprop.proof.check_shapes import demand

Values = tuple[int, ...]
Step = Callable[[int, int, Values], tuple[int, int | None]]
"""(state, token, values after it) to the next state and its answer."""


def is_whole(value: Any, least: float = -math.inf, below: float = math.inf) -> bool:
    return type(value) is int and least <= value < below


class Known:
    """What is known of the values of some forms, and what follows from it."""

    def __init__(self, ranges: dict[str, Any], tokens: int) -> None:
        self.forms = [tuple(form) for form in ranges["forms"]]
        self.bounds, self.periods = ranges["bounds"], ranges["periods"]
        size = len(self.forms)
        sound = all(len(form) == tokens and all(map(is_whole, form)) for form in self.forms)
        sound = sound and len(self.bounds) == len(self.periods) == size
        sound = sound and all(is_whole(each, 0, 2**20) for each in self.bounds)
        sound = sound and all(is_whole(each, 1, 2**20) for each in self.periods)
        self.relations = ranges["relations"]
        for relation in self.relations:
            sound = sound and len(relation) == size and all(map(is_whole, relation))
            sums = (
                sum(r * form[t] for r, form in zip(relation, self.forms, strict=True))
                for t in range(tokens)
            )
            sound = sound and not any(sums)
        demand(sound, "its ranges are no ranges")

    def after(self, values: Values, token: int) -> Iterator[Values]:
        """Every value that can follow by a token; impossible ones are left out."""
        ways = []
        for value, form, bound, period in zip(
            values, self.forms, self.bounds, self.periods, strict=True
        ):
            numbers = [value]
            if abs(value) > bound:  # and those that come near 0, up to where all beyond look alike
                away = 1 if value > 0 else -1
                least = (-2 * bound - 2 * period - away * (value + form[token])) // period
                steps = range(max(0, least), max(0, least) + 4 * (bound // period) + 8)
                numbers += [value + away * period * i for i in steps]
            ways.append({_rough(each + form[token], bound, period) for each in numbers})
        return (each for each in product(*ways) if all(self._can_be(each, r) for r in self.relations))

    def _can_be(self, values: Values, relation: list[int]) -> bool:
        """Whether the relation's sum can be 0; where this cannot be excluded, True."""
        total = sum(r * value for r, value in zip(relation, values, strict=True))
        growing = [
            r * (period if value > 0 else -period)
            for r, value, bound, period in zip(relation, values, self.bounds, self.periods, strict=True)
            if r and abs(value) > bound
        ]
        if total == 0:
            return True
        if not any(each * total < 0 for each in growing):
            return False
        return total % math.gcd(*growing) == 0

    def multiple(self, increments: Any) -> tuple[int, int]:
        """The form of which a counter is a multiple, and the factor."""
        if not any(increments):
            return 0, 0
        for number, form in enumerate(self.forms):
            top = max(map(abs, form))
            factor = max(map(abs, increments)) // top if top else 0
            for each in (factor, -factor):
                if each and all(each * a == b for a, b in zip(form, increments, strict=True)):
                    return number, each
        demand(False, "a counter is a multiple of none of its forms")
        raise AssertionError

    def seen(self, values: Values, number: int, factor: int, window: int) -> int:
        """A counter through a window, the same for all that the value stands for."""
        if not factor:
            return 0
        if abs(values[number]) > self.bounds[number]:
            least = abs(factor) * (self.bounds[number] + 1)
            demand(least >= window, "a bound is too small for a window")
        return min(max(factor * values[number], -window), window)


def _rough(number: int, bound: int, period: int) -> int:
    if -bound <= number <= bound:
        return number
    rest = bound + 1 + (abs(number) - bound - 1) % period
    return rest if number > 0 else -rest


def closed(pairs: list[Any], known: Known, tokens: int, start: int, mine: Step, theirs: Step) -> None:
    """That a set of pairs holds the start, is closed, and has equal answers after every token."""
    zeros = (0,) * len(known.forms)
    listed = {(left, right, tuple(values)) for left, right, values in pairs}
    todo: list[tuple[int, int, Values]] = [(0, start, zeros)]
    seen = set(todo)
    demand(todo[0] in listed, "it does not begin at the start")
    while todo:
        left, right, values = todo.pop()
        for token in range(tokens):
            for after in known.after(values, token):
                (here, said), (there, meant) = mine(left, token, after), theirs(right, token, after)
                demand(said == meant, f"token {token} leads from {left} and {right} to other answers")
                pair = (here, there, after)
                demand(pair in listed, f"the pair {pair} is not in the invariant")
                if pair not in seen:
                    seen.add(pair)
                    todo.append(pair)


class Table:
    """A machine that counts, given by its tables."""

    def __init__(
        self, increments: Any, window: int, start: int, transitions: Any, answers: Any, tokens: int
    ) -> None:
        counters = len(increments[0])
        self.views = (2 * window + 1) ** counters if is_whole(window, 0, 2**20) else 0
        sound = len(increments) == tokens and self.views > 0
        sound = sound and all(len(row) == counters and all(map(is_whole, row)) for row in increments)
        states = len(transitions)
        sound = sound and len(answers) == states and is_whole(start, 0, states)
        sound = sound and all(len(row) == tokens * self.views for row in transitions)
        sound = sound and all(is_whole(each, 0, states) for row in transitions for each in row)
        sound = sound and all(each is None or is_whole(each, 0) for each in answers)
        demand(sound, "its automaton is no table")
        self.columns, self.window, self.start = list(zip(*increments, strict=True)), window, start
        self.transitions, self.answers = transitions, answers

    def stepping(self, known: Known) -> Step:
        """The machine's step, seen through values of forms."""
        parts = [known.multiple(column) for column in self.columns]

        def step(state: int, token: int, values: Values) -> tuple[int, int | None]:
            return self.move(state, token, [known.seen(values, *part, self.window) for part in parts])

        return step

    def move(self, state: int, token: int, seen: list[int]) -> tuple[int, int | None]:
        view = 0
        for each in seen:
            view = view * (2 * self.window + 1) + each + self.window
        there = self.transitions[state][token * self.views + view]
        return there, self.answers[there]

    def answers_of(self, tokens: list[int]) -> Iterator[int | None]:
        """The answer after every token of a sequence."""
        state, counts = self.start, [0] * len(self.columns)
        for token in tokens:
            counts = [c + column[token] for c, column in zip(counts, self.columns, strict=True)]
            seen = [min(max(c, -self.window), self.window) for c in counts]
            state, answer = self.move(state, token, seen)
            yield answer


def _key(decision: Any) -> tuple[int, int, Values]:
    held, token, seen, _, _ = decision
    return held, token, tuple(seen)


def unit(weights: Weights, known: Known) -> int:
    """The largest factor of a channel."""
    return max([1, *(abs(known.multiple(column)[1]) for column in weights.increments)])


def network_step(counting: dict[str, Any], weights: Weights, known: Known, tokens: int) -> Step:
    """The step of the network, which its table of decisions must have as the weights compute it."""
    holds = [tuple(each) for each in counting["holds"]]
    numbers = {held: number for number, held in enumerate(holds)}
    demand(holds[0] == weights.start and len(numbers) == len(holds), "it does not begin at the start")
    channels = [known.multiple(column) for column in weights.increments]
    used = sorted({number for number, factor in channels if factor})
    window = weights.window
    columns = [
        [row[i] for row in counting["increments"]] for i in range(len(counting["increments"][0]))
    ]
    stated = [known.multiple(column) for column in columns]
    fits = sorted(number for number, _ in stated) == used and all(f == 1 for _, f in stated)
    demand(
        fits and len(counting["increments"]) == tokens, "its increments are not those of the weights"
    )
    demand(len(set(map(_key, counting["decisions"]))) == len(counting["decisions"]), "it decides twice")
    table = {
        (held, token, tuple(seen)): (there, said)
        for held, token, seen, there, said in counting["decisions"]
    }
    found: dict[tuple[int, int, Values], tuple[int, int]] = {}

    def step(held: int, token: int, values: Values) -> tuple[int, int]:
        seen = {number: known.seen(values, number, 1, window) for number in used}
        key = (held, token, tuple(seen[number] for number, _ in stated))
        if key not in found:
            after, said = weights.step(holds[held], token, channels, seen)
            demand(after in numbers, "it leaves out something that the network can hold")
            found[key] = numbers[after], said
            demand(table.get(key) == found[key], f"the weights decide otherwise at {key}")
        return found[key]

    return step
