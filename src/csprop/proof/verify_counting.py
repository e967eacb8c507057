"""The verifier's part for models that count. It shares no code with the prover.

A certificate has two sets of pairs, each closed under every token. In the first, a pair is what the
layer above the counters holds, a state of the automaton, and values of linear forms. In the second, it
is a state of the automaton, a state of the task's machine, and values. The network's moves are a table
of decisions. Each is computed again from the weights, for all counts that it stands for at once: the
output of a channel at all counts beyond the window lies between its value at the window and its limit,
so every linear function of it lies between two bounds. They are wider by what float32, in which the
network runs, may round.

A value v of a form with the bound N and the period m stands for v alone if |v| ≤ N, and beyond for v,
v ± m, v ± 2m, …, away from 0.

The file has over 300 lines because the walk over pairs and the network belong together.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np

from csprop.automata.automaton import CounterAutomaton
from csprop.proof.certificate import CountingProof, CountingTable, CountPairs, CountRanges, ExactCounts
from csprop.proof.verify_network import DOUBT, TIE, Array, Rejected, close, demand, sigmoid, unit
from csprop.tasks.base import Task

CLEAR = 1e3  # the largest distance from a tie that a certificate states
MOST_STATES = 1 << 16
CONTROLS = {"switch": ("trained", "made anew"), "router": ("router",)}
"""The possible origins of the weights above the counters."""
LARGEST = 2**20  # bounds, periods and windows are below this
Values = tuple[int, ...]
Step = Callable[[int, int, Values], tuple[int, int | None]]
"""(state, token, values after it) to the next state and its answer."""


def verify_counting(
    proof: CountingProof,
    automaton: CounterAutomaton,
    tensors: dict[str, Array],
    model: dict[str, Any],
    task: Task,
) -> None:
    """Verify that a network computes a machine with counters, and that it answers as the task does."""
    kinds, table, tokens = [cell["kind"] for cell in model["cells"]], proof.counting, len(task.vocab)
    fits = kinds[:1] == ["counter"] and kinds[1:] in (["switch"], ["router"])
    demand(fits and model["decoder"] == "linear", "its model is not one that counts")
    network = _Network(tensors, kinds[1] == "router", table.window)
    knowledge = _Knowledge(proof.ranges, tokens)
    largest = max([1, *(abs(knowledge.multiple(column)[1]) for column in network.increments)])
    exact = table.unit == largest and proof.exact_up_to == ExactCounts(2**24 // largest, 2**62)
    demand(exact, "its counts are exact elsewhere")
    start, step = automaton.control.start, _network_step(table, network, knowledge)
    _check_closed(proof.pairs, knowledge, tokens, (0, start), step, _machine_step(automaton, knowledge))
    stated = zip((network.gate, network.margin), (proof.gate, proof.margin), strict=True)
    same = all(close(mine, theirs, least=0.1) for mine, theirs in stated)
    demand(same and proof.doubt == DOUBT, "it has other margins than this locked model")
    sound = 0 <= proof.search.rounds < 2**31 and proof.search.control in CONTROLS[kinds[1]]
    demand(sound, "its search is malformed")
    if task.oracle is None:
        demand(proof.task_ranges is None and not proof.task_pairs, "its task has no machine")
        return
    if proof.task_ranges is None:
        raise Rejected("it has no ranges of its task")
    knowledge = _Knowledge(proof.task_ranges, tokens)
    (begin, right), left = _task_step(task, knowledge), _machine_step(automaton, knowledge)
    _check_closed(proof.task_pairs, knowledge, tokens, (start, begin), left, right)


class _Knowledge:
    """The knowledge about the values of some forms, and what follows from it."""

    def __init__(self, ranges: CountRanges, tokens: int) -> None:
        self.forms, self.bounds, self.periods = ranges.forms, ranges.bounds, ranges.periods
        self.relations = ranges.relations
        sound = len(self.forms) == len(self.bounds) == len(self.periods)
        sound = sound and all(len(form) == tokens for form in self.forms)
        sound = sound and all(0 <= bound < LARGEST for bound in self.bounds)
        sound = sound and all(1 <= period < LARGEST for period in self.periods)
        for relation in self.relations:
            sums = (_dot(relation, column) for column in zip(*self.forms, strict=True))
            sound = sound and len(relation) == len(self.forms) and not any(sums)
        demand(sound, "its ranges are malformed")

    def after(self, values: Values, token: int) -> Iterator[Values]:
        """Yield every value that can follow by a token, without those that a relation excludes."""
        following = []
        known = zip(values, self.forms, self.bounds, self.periods, strict=True)
        for value, form, bound, period in known:
            numbers = [value]
            if abs(value) > bound:  # and those that come near 0, up to where all beyond look alike
                away = 1 if value > 0 else -1
                least = (-2 * bound - 2 * period - away * (value + form[token])) // period
                steps = range(max(0, least), max(0, least) + 4 * (bound // period) + 8)
                numbers += [value + away * period * i for i in steps]
            following.append({_rough(each + form[token], bound, period) for each in numbers})
        for each in product(*following):
            if all(self._possible(each, relation) for relation in self.relations):
                yield each

    def _possible(self, values: Values, relation: Values) -> bool:
        """Return False only if the sum of the relation cannot be 0."""
        total = _dot(relation, values)
        known = zip(relation, values, self.bounds, self.periods, strict=True)
        growing = [
            factor * (period if value > 0 else -period)
            for factor, value, bound, period in known
            if factor and abs(value) > bound
        ]
        towards = any(each * total < 0 for each in growing)
        return total == 0 or (towards and total % math.gcd(*growing) == 0)

    def multiple(self, increments: Sequence[int]) -> tuple[int, int]:
        """Return the number of a form and a factor, whose product a counter is."""
        if not any(increments):
            return 0, 0
        largest = max(map(abs, increments))
        for number, form in enumerate(self.forms):
            top = max(map(abs, form), default=0)
            factor = largest // top if top else 0
            for each in (factor, -factor):
                if each and all(each * a == b for a, b in zip(form, increments, strict=True)):
                    return number, each
        raise Rejected("a counter is not a multiple of any of its forms")

    def view(self, values: Values, number: int, factor: int, window: int) -> int:
        """Return a counter as a window shows it, the same for all that a value stands for."""
        if not factor:
            return 0
        if abs(values[number]) > self.bounds[number]:
            least = abs(factor) * (self.bounds[number] + 1)
            demand(least >= window, "a bound is too small for a window")
        return min(max(factor * values[number], -window), window)


def _dot(left: Sequence[int], right: Sequence[int]) -> int:
    return sum(a * b for a, b in zip(left, right, strict=True))


def _rough(number: int, bound: int, period: int) -> int:
    if -bound <= number <= bound:
        return number
    rest = bound + 1 + (abs(number) - bound - 1) % period
    return rest if number > 0 else -rest


def _check_closed(
    pairs: CountPairs,
    knowledge: _Knowledge,
    tokens: int,
    starts: tuple[int, int],
    mine: Step,
    theirs: Step,
) -> None:
    """Demand that exactly these pairs are reached, and have equal answers after every token."""
    listed = set(pairs)
    todo: list[tuple[int, int, Values]] = [(*starts, (0,) * len(knowledge.forms))]
    seen = set(todo)
    while todo:
        left, right, values = todo.pop()
        demand((left, right, values) in listed, "the pairs are not an invariant")
        for token in range(tokens):
            for after in knowledge.after(values, token):
                (here, said), (there, meant) = mine(left, token, after), theirs(right, token, after)
                demand(said == meant, f"token {token} leads from {left} and {right} to other answers")
                if (here, there, after) not in seen:
                    seen.add((here, there, after))
                    todo.append((here, there, after))
    demand(len(pairs) == len(seen), "it lists pairs that no input reaches")


def _machine_step(machine: Any, knowledge: _Knowledge) -> Step:
    """Return the step of a machine with counters, by its tables, from values of forms."""
    window, transitions, answers = machine.window, machine.control.transitions, machine.control.outputs
    parts = [knowledge.multiple(column) for column in zip(*machine.increments, strict=True)]
    views = (2 * window + 1) ** len(parts)
    demand(len(transitions[0]) == len(machine.increments) * views, "its automaton is malformed")

    def step(state: int, token: int, values: Values) -> tuple[int, int | None]:
        symbol = token
        for part in parts:
            symbol = symbol * (2 * window + 1) + knowledge.view(values, *part, window) + window
        there = transitions[state][symbol]
        return there, answers[there]

    return step


def _task_step(task: Task, knowledge: _Knowledge) -> tuple[int, Step]:
    """Return the start and the step of the task's machine, declared or explored."""
    if task.counting is not None:
        return task.counting.control.start, _machine_step(task.counting, knowledge)
    demand(task.finite, "its task declares no machine")
    states = [task.start()]
    numbers, following = {states[0]: 0}, []
    for state in states:  # which grows
        following.append([task.step(state, token) for token in range(len(task.vocab))])
        for after in following[-1]:
            if after not in numbers:
                numbers[after] = len(states)
                states.append(after)
        demand(len(states) <= MOST_STATES, "its task has too many states")

    def step(state: int, token: int, values: Values) -> tuple[int, int | None]:
        after = following[state][token]
        return numbers[after], task.answer(after)

    return 0, step


class _Network:
    """A network of counters below switches or a router, in float64, for many counts at once.

    `gate` and `margin` are the smallest distances from a tie of all decisions so far.
    """

    def __init__(self, tensors: dict[str, Array], routes: bool, window: int) -> None:
        def own(name: str) -> Array:
            return tensors[f"network.{name}"]

        self.routes, self.window, self.gate, self.margin = routes, window, CLEAR, CLEAR
        embedding = own("embedding")  # (V, 2, D)
        whole = np.rint(embedding[:, 0])
        demand((np.abs(embedding[:, 0] - whole) <= 0.499).all(), "an increment is near a half")
        self.increments: list[list[int]] = whole.astype(int).T.tolist()  # (D, V)
        self.extra = embedding * sigmoid(own("blocks.0.skip"))
        name = "keys" if routes else "gate"
        self.choosing = own(f"blocks.1.{name}.weight"), own(f"blocks.1.{name}.bias")
        self.scoring = own("decoder.linear.weight"), own("decoder.linear.bias")
        if routes:
            self.maps, self.skip = own("blocks.1.maps"), np.zeros(embedding.shape[2])  # (K, G, m, m)
            self.start: Values = (0,) * self.maps.shape[1]
        else:
            self.skip = sigmoid(own("blocks.1.skip"))
            self.points = [unit(own(f"blocks.1.{name}")) for name in ("h0", "point")]
            self.start = (0,) * len(self.choosing[1])

    def step(
        self, held: Values, token: int, channels: list[tuple[int, int]], counts: dict[int, int]
    ) -> tuple[Values, int]:
        """Return what is held after a token, and the answer.

        What is held says which switches were replaced, or where the content of each group of a router
        is. A channel is a form and its factor; a count at the edge of the window stands for more.
        """
        low, high = self._phases(token, channels, counts)
        after = self._routed(held, low, high) if self.routes else self._switched(held, low, high)
        weights, biases = self.scoring
        state = self._content(after)
        sizes = np.abs(weights) @ np.abs(state) + np.abs(biases)
        scores = weights * np.tile(self.skip, 2), weights @ state + biases, sizes
        answer, lead = _chosen(*scores, low, high, "answer")
        self.margin = min(self.margin, lead)
        return after, answer

    def _phases(
        self, token: int, channels: list[tuple[int, int]], counts: dict[int, int]
    ) -> tuple[Array, Array]:
        """Return the bounds of each plane of each channel."""
        ends, errors = [], []
        for channel, (number, factor) in enumerate(channels):
            count = counts[number] if factor else 0
            along, across = self.extra[token, :, channel]
            x, y = factor * count + along, 1 + across
            length = math.hypot(x, y)
            demand(length >= 0.0099, "a phase is taken of a number near 0")
            errors.append(2.0**-21 * max(abs(factor * count) + abs(along), 1 + abs(across)) / length)
            here = there = (x / length, y / length)
            if factor and abs(count) == self.window:
                demand(x * factor * count > 0, "a large count is outweighed by the last token")
                there = (math.copysign(1.0, x), 0.0)
            ends.append((here, there))
        both = np.array(ends).transpose(1, 2, 0).reshape(2, -1)  # (2, 2 D)
        wider = np.tile(errors, 2)  # by what float32 may round
        return both.min(axis=0) - wider, both.max(axis=0) + wider

    def _switched(self, held: Values, low: Array, high: Array) -> Values:
        weights, biases = self.choosing
        centre, reach = weights @ (high + low) / 2 + biases, np.abs(weights) @ (high - low) / 2
        reach += _rounding(weights, np.abs(biases), low, high)
        after = []
        for channel, replaced in enumerate(held):
            if not replaced:  # and one that was is replaced by the same point
                least, most = centre[channel] - reach[channel], centre[channel] + reach[channel]
                distance = float(max(least, -most))
                demand(distance >= TIE, f"the gate of switch {channel + 1} is not decided")
                self.gate, replaced = min(self.gate, distance), int(most < 0)
            after.append(replaced)
        return tuple(after)

    def _routed(self, held: Values, low: Array, high: Array) -> Values:
        weights, biases = self.choosing
        chosen, lead = _chosen(weights, biases, np.abs(biases), low, high, "map")
        after, leads = [], [lead]
        for group, place in enumerate(held):
            logits = self.maps[chosen, group, :, place]
            after.append(int(logits.argmax()))
            leads.append(float(np.diff(np.sort(logits)[-2:]).min(initial=math.inf)))
        demand(min(leads) >= TIE, "a place is not decided")
        self.gate = min(self.gate, *leads)
        return tuple(after)

    def _content(self, held: Values) -> Array:
        if not self.routes:
            return np.where(np.array(held) > 0, self.points[1], self.points[0]).ravel()
        _, groups, places, _ = self.maps.shape
        content = np.zeros((2, groups * places))
        content[0, np.arange(groups) * places + np.array(held)] = 1
        return content.ravel()


def _network_step(table: CountingTable, network: _Network, knowledge: _Knowledge) -> Step:
    """Return the step of a network, after each of its decisions was computed again from the weights."""
    window, tokens = table.window, network.extra.shape[0]
    demand(1 <= window < LARGEST, "its window is malformed")
    numbers = {held: number for number, held in enumerate(table.holds)}
    begins = table.holds[0] == network.start and len(numbers) == len(table.holds)
    demand(begins, "it does not begin at the start")
    channels = [knowledge.multiple(column) for column in network.increments]
    used = {number for number, factor in channels if factor}
    stated = [knowledge.multiple(column) for column in zip(*table.increments, strict=True)]
    forms = [number for number, _ in stated]
    fits = {*forms} == used and len(forms) == len(used) and all(factor == 1 for _, factor in stated)
    demand(fits and len(table.increments) == tokens, "its increments differ from the weights")
    decided: dict[tuple[int, int, Values], tuple[int, int]] = {}
    for held, token, counts, there, answer in table.decisions:
        sound = 0 <= held < len(numbers) and 0 <= token < tokens and len(counts) == len(forms)
        demand(sound and all(abs(count) <= window for count in counts), "a decision is malformed")
        demand((held, token, counts) not in decided, "it decides twice")
        seen = dict(zip(forms, counts, strict=True))
        after, said = network.step(table.holds[held], token, channels, seen)
        same = (numbers.get(after), said) == (there, answer)
        demand(same, f"the weights decide otherwise at {(held, token, counts)}")
        decided[held, token, counts] = there, answer

    def step(held: int, token: int, values: Values) -> tuple[int, int]:
        key = held, token, tuple(knowledge.view(values, number, 1, window) for number in forms)
        demand(key in decided, "it leaves out a decision")
        return decided[key]

    return step


def _rounding(weights: Array, sizes: Array, low: Array, high: Array) -> Array:
    """Return how much float32 may change linear functions of n products and a constant of a size."""
    largest = np.maximum(np.abs(low), np.abs(high))
    return (weights.shape[1] + 2) * 2.0**-23 * (np.abs(weights) @ largest + sizes)


def _chosen(
    weights: Array, constants: Array, sizes: Array, low: Array, high: Array, what: str
) -> tuple[int, float]:
    """Return the largest of some scores for all numbers between two bounds, and its lead."""
    best = int((weights @ (low + high) / 2 + constants).argmax())
    rounding = _rounding(weights, sizes, low, high)
    apart = weights[best] - weights
    least = np.where(apart > 0, apart * low, apart * high).sum(axis=1)
    least += constants[best] - constants - rounding[best] - rounding
    lead = float(np.delete(least, best).min(initial=CLEAR))
    demand(lead >= TIE, f"a choice of {what} is not decided")
    return best, lead
