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

import numpy as np

from csprop.exact.numpy_step import Array, demand

DOUBT = 0.99e-3
"""Nothing may be nearer to a tie."""
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


class Weights:
    """A network of counters below switches or a router, in float64, for many counts at once."""

    def __init__(self, tensors: dict[str, Array], routes: bool, window: int) -> None:
        def own(name: str) -> Array:
            return tensors[f"network.{name}"]

        self.routes, self.window = routes, window
        embedding = own("embedding")  # (V, 2, D)
        whole = np.rint(embedding[:, 0])
        demand(bool((np.abs(embedding[:, 0] - whole) <= 0.499).all()), "an increment is near a half")
        self.increments = whole.astype(int).T.tolist()  # (D, V)
        self.extra = embedding * _logistic(own("blocks.0.skip"))
        name = "keys" if routes else "gate"
        self.choosing = own(f"blocks.1.{name}.weight"), own(f"blocks.1.{name}.bias")
        self.scoring = own("decoder.linear.weight"), own("decoder.linear.bias")
        if routes:
            self.maps = own("blocks.1.maps")  # (K, G, m, m)
        else:
            self.skip = _logistic(own("blocks.1.skip"))
            self.points = [_normal(own(f"blocks.1.{name}")) for name in ("h0", "point")]

    @property
    def start(self) -> Values:
        return (0,) * (self.maps.shape[1] if self.routes else len(self.choosing[1]))

    def counters(self, known: Known) -> list[tuple[int, int]]:
        """The form of every channel, and its factor."""
        return [known.multiple(column) for column in self.increments]

    def unit(self, known: Known) -> int:
        """The largest factor."""
        return max([1, *(abs(factor) for _, factor in self.counters(known))])

    def step(
        self, held: Values, token: int, channels: list[tuple[int, int]], values: dict[int, int]
    ) -> tuple[Values, int]:
        """What is held after a token, and the answer.

        Args:
            held: which switches were replaced, or where the content of each group of a router is.
            token: the token.
            channels: the form of every channel, and its factor.
            values: of the forms after the token, at most the window; the window stands for more.
        """
        low, high = self._phases(token, channels, values)
        after = self._routed(held, low, high) if self.routes else self._switched(held, low, high)
        weights, biases = self.scoring
        state, through = self._content(after), np.zeros_like(low)
        if not self.routes:
            through = np.tile(self.skip, 2)
        sizes = np.abs(weights) @ np.abs(state) + np.abs(biases)
        scores = weights * through, weights @ state + biases, sizes
        return after, _chosen(*scores, low, high, "answer")

    def _phases(
        self, token: int, channels: list[tuple[int, int]], values: dict[int, int]
    ) -> tuple[Array, Array]:
        """Between which numbers each plane of each channel is."""
        ends, errors = [], []
        for channel, (number, factor) in enumerate(channels):
            value = values[number] if factor else 0
            along, across = self.extra[token, :, channel]
            x, y = factor * value + along, 1 + across
            length = math.hypot(x, y)
            demand(length >= 0.0099, "a phase is taken of a number near 0")
            errors.append(2.0**-21 * max(abs(factor * value) + abs(along), 1 + abs(across)) / length)
            here = (x / length, y / length)
            there = here
            if factor and abs(value) == self.window:
                demand(x * factor * value > 0, "a large count is outweighed by the last token")
                there = (math.copysign(1.0, x), 0.0)
            ends.append((here, there))
        both = np.array(ends).transpose(1, 2, 0).reshape(2, -1)  # (2, 2 D)
        wider = np.tile(errors, 2)  # by what float32 may round
        return both.min(axis=0) - wider, both.max(axis=0) + wider

    def _switched(self, held: Values, low: Array, high: Array) -> Values:
        weights, biases = self.choosing
        least, most = _between(weights, biases, np.abs(biases), low, high)
        after = []
        for channel, replaced in enumerate(held):
            sure = least[channel] >= DOUBT or most[channel] <= -DOUBT
            demand(bool(replaced or sure), f"the gate of switch {channel + 1} is not decided")
            after.append(int(replaced or most[channel] < 0))
        return tuple(after)

    def _routed(self, held: Values, low: Array, high: Array) -> Values:
        weights, biases = self.choosing
        chosen = _chosen(weights, biases, np.abs(biases), low, high, "map")
        after = []
        for group, place in enumerate(held):
            logits = self.maps[chosen, group, :, place]
            ordered = np.sort(logits)
            demand(len(logits) < 2 or ordered[-1] - ordered[-2] >= DOUBT, "a place is not decided")
            after.append(int(logits.argmax()))
        return tuple(after)

    def _content(self, held: Values) -> Array:
        if self.routes:
            _, groups, places, _ = self.maps.shape
            content = np.zeros((2, groups * places))
            for group, place in enumerate(held):
                content[0, group * places + place] = 1
            return content.ravel()
        return np.where(np.array(held) > 0, self.points[1], self.points[0]).ravel()


def _normal(points: Array) -> Array:
    return points / np.sqrt((points**2).sum(axis=0) + 1e-30)  # 0 stays 0


def _logistic(x: Array) -> Array:
    return 0.5 + 0.5 * np.tanh(x / 2)


def _rounding(weights: Array, sizes: Array, low: Array, high: Array) -> Array:
    """How much float32 may change linear functions, of n products and their constants' sizes each."""
    largest = np.maximum(np.abs(low), np.abs(high))
    return (weights.shape[1] + 2) * 2.0**-23 * (np.abs(weights) @ largest + sizes)


def _between(
    weights: Array, constants: Array, sizes: Array, low: Array, high: Array
) -> tuple[Array, Array]:
    """The least and the largest values of linear functions of numbers between two bounds."""
    centre, reach = weights @ (high + low) / 2 + constants, np.abs(weights) @ (high - low) / 2
    reach += _rounding(weights, sizes, low, high)
    return centre - reach, centre + reach


def _chosen(weights: Array, constants: Array, sizes: Array, low: Array, high: Array, what: str) -> int:
    """The largest of some scores, for all numbers between two bounds."""
    best = int((weights @ (low + high) / 2 + constants).argmax())
    rounding = _rounding(weights, sizes, low, high)
    for other in range(len(constants)):
        apart = weights[best] - weights[other]
        least = np.where(apart > 0, apart * low, apart * high).sum()
        least += constants[best] - constants[other] - rounding[best] - rounding[other]
        demand(other == best or bool(least >= DOUBT), f"a choice of {what} is not decided")
    return best


def _key(decision: Any) -> tuple[int, int, Values]:
    held, token, seen, _, _ = decision
    return held, token, tuple(seen)


def network_step(counting: dict[str, Any], weights: Weights, known: Known, tokens: int) -> Step:
    """The step of the network, which its table of decisions must have as the weights compute it."""
    holds = [tuple(each) for each in counting["holds"]]
    numbers = {held: number for number, held in enumerate(holds)}
    demand(holds[0] == weights.start and len(numbers) == len(holds), "it does not begin at the start")
    channels = weights.counters(known)
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
