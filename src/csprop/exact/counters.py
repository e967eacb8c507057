"""A model that counts, as a machine with counters.

A layer of the kind `counter` adds whole numbers, so nothing has to be rounded when it is locked: each
of its channels is a counter, c_j = λ_j n for one of a few primitive linear forms n of the tokens read.
What a channel passes on is the point (c_j + x, y) divided by its modulus, where x and y follow from the
last token. A switch above it compares a linear function of these points with 0, and so does the decoder
with each difference of two scores.

Near zero, up to a window w, all counts are tried. Beyond, a point lies between its value at w and its
limit, ±1 on the real axis, in both planes: |c + x| grows with |c|, and both y / |(c + x, y)| and
1 − |c + x| / |(c + x, y)| fall as it does. So each linear function lies between two bounds, and what it
decides is decided for all counts beyond the window at once if both bounds are on the same side of 0.
What is left is a machine whose control sees the counts through the window.
"""

import math
from dataclasses import dataclass
from itertools import product
from typing import TypeGuard

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from csprop.automata.counting import CounterMachine
from csprop.automata.forms import Ranges, Values, Weights, primitive
from csprop.automata.machine import Machine
from csprop.automata.walk import Endless, Walk
from csprop.exact.locked import NotFinite
from csprop.exact.margins import DOUBT
from csprop.nn.model import CSP

Reals = NDArray[np.float64]
KINDS = ("counter", "switch")
WINDOWS = (1, 2, 4, 8, 16, 32, 64)
"""The windows that are tried, the smallest first."""
MOST_VIEWS = 1 << 19
"""Pairs of a token and a view."""
MOST_STATES = 1 << 12
"""States of the control, each with all counts as the window shows them."""


def is_counter(model: object) -> TypeGuard[CSP]:
    """Whether a model is a layer of counters below a layer of switches, with a linear decoder."""
    return isinstance(model, CSP) and model.config.kinds == KINDS and model.config.decoder == "linear"


@dataclass(frozen=True)
class Counting:
    """A model as a machine, and how far its decisions are from a tie."""

    machine: CounterMachine
    flags: list[tuple[bool, ...]]
    """Of each state of the control, which switches have replaced their state."""
    gate: float
    """The least distance of a gate from 0."""
    lead: float
    """The least distance of the best score from the second."""


def tabulated(model: CSP) -> Counting:
    """The machine of a model, with the smallest window that decides everything.

    Raises:
        NotFinite: a gate or an answer is not decided at some count, or there are too many.
    """
    network = _Network(model)
    failure = NotFinite("there are too many different counters")
    for window in WINDOWS:
        if len(network.tokens) * (2 * window + 1) ** len(network.forms) > MOST_VIEWS:
            break
        try:
            return _Tabulation(network, window).run()
        except NotFinite as reason:
            failure = reason
    raise failure


class _Network:
    """The weights, as far as a decision depends on them, in float64.

    Decisions are linear functions of what the counters pass on: first the gates, one a channel, then
    for every pair of classes the difference of their scores.
    """

    def __init__(self, model: CSP) -> None:
        counter, switch = model.layers
        embedding = _array(model.embedding)  # (V, 2, D)
        skip = [1 / (1 + np.exp(-_array(layer.skip))) for layer in (counter, switch)]
        self.offsets = skip[0] * embedding + [[0.0], [1.0]]  # (V, 2, D): the points at count 0
        increments = np.round(embedding[:, 0]).astype(int)
        made = [primitive(column) for column in increments.T.tolist()]
        self.forms: tuple[Weights, ...] = tuple(dict.fromkeys(form for factor, form in made if factor))
        self.factors = np.array([factor for factor, _ in made])  # (D,)
        self.members = [
            np.array([bool(factor) and form == each for factor, form in made]) for each in self.forms
        ]
        self.tokens = range(len(embedding))

        answers, biases = _array(model.decoder.linear.weight), _array(model.decoder.linear.bias)
        pairs = list(product(range(len(answers)), repeat=2))
        first, second = np.array(pairs).T
        apart = answers[first] - answers[second]  # (C², 2 D)
        replaced = switch.entering(switch.start[None, None])[0, 0]
        points = [_array(each) for each in (switch.start, replaced)]
        self.of_flags = np.stack([apart * points[i].ravel() for i in range(2)])  # (2, C², 2 D)
        self.score_bias = biases[first] - biases[second]
        through = np.concatenate([_array(switch.gate.weight), apart * np.tile(skip[1], 2)])
        self.weights = through.reshape(len(through), 2, -1)  # (D + C², 2, D)
        self.gate_bias = _array(switch.gate.bias)
        self.width, self.classes = len(self.gate_bias), len(answers)

    def bounds(self, window: int) -> tuple[Reals, Reals]:
        """The least and the largest value of each function by token and view, (V, views, D + C²)."""
        at_zero = self._points(np.zeros_like(self.factors))
        low, high = (each[:, None] for each in self._sums(at_zero, at_zero, self.factors == 0))
        for members in self.members:
            tables = []
            for count in range(-window, window + 1):
                near = self._points(count * self.factors)
                far = near
                if abs(count) == window:
                    far = np.stack([np.sign(near[:, 0]), np.zeros_like(near[:, 1])], axis=1)
                    outside = np.sign(near[:, 0]) == np.sign(count * self.factors)
                    if not outside[:, members].all():
                        raise NotFinite(f"a count of {window} may be outweighed by the last token")
                tables.append(self._sums(np.minimum(near, far), np.maximum(near, far), members))
            lows, highs = (np.stack([each[i] for each in tables], axis=1) for i in range(2))
            low = (low[:, :, None] + lows[:, None]).reshape(len(self.tokens), -1, low.shape[2])
            high = (high[:, :, None] + highs[:, None]).reshape(low.shape)
        return low, high

    def _points(self, counts: NDArray[np.int64]) -> Reals:
        """What the channels pass on after each token, (V, 2, D)."""
        points = self.offsets.copy()
        points[:, 0] += counts
        return points / np.maximum(np.sqrt(np.square(points).sum(axis=1, keepdims=True)), 1e-300)

    def _sums(self, low: Reals, high: Reals, members: NDArray[np.bool_]) -> tuple[Reals, Reals]:
        """The bounds of what some channels contribute to each function, (V, D + C²) each."""
        chosen = self.weights * members
        up, down = np.maximum(chosen, 0), np.minimum(chosen, 0)
        ends = [(low, high), (high, low)]
        least, most = (
            np.einsum("kpd,vpd->vk", up, one) + np.einsum("kpd,vpd->vk", down, other)
            for one, other in ends
        )
        return least, most


class _Tabulation:
    """One attempt to decide everything with a window."""

    def __init__(self, network: _Network, window: int) -> None:
        self.network, self.window = network, window
        low, high = network.bounds(window)
        width, classes = network.width, network.classes
        self.gates = low[..., :width] + network.gate_bias, high[..., :width] + network.gate_bias
        self.scores = low[..., width:].reshape(*low.shape[:2], classes, classes)
        self.answers: dict[tuple[bool, ...], tuple[Reals, NDArray[np.int64]]] = {}
        self.gate = self.lead = math.inf
        size = len(network.forms)
        self.ranges = Ranges(network.forms, (window - 1,) * size, (1,) * size)

    def run(self) -> Counting:
        """Walk through all states of the control, with all counts as the window shows them."""
        start = (False,) * self.network.width
        table: dict[tuple[bool, ...], dict[int, tuple[tuple[bool, ...], int]]] = {}

        def leaving(place: tuple[tuple[bool, ...], Values]) -> list[tuple[int, object]]:
            flags, values = place
            made = []
            for token in self.network.tokens:
                for after in self.ranges.after(values, token):
                    view = self._view(after)
                    row = table.setdefault(flags, {})
                    symbol = token * self.gates[0].shape[1] + view
                    if symbol not in row:
                        switched = self._switched(flags, token, view)
                        row[symbol] = switched, self._answer(switched, token, view)
                    made.append((token, (row[symbol][0], after)))
            return made

        try:
            Walk((start, (0,) * len(self.network.forms))).run(
                lambda places: map(leaving, places), MOST_STATES * self.gates[0].shape[1]
            )
        except Endless:
            raise NotFinite("the switches have too many different states") from None
        return self._made(start, table)

    def _view(self, values: Values) -> int:
        number = 0
        for value in values:
            number = number * (2 * self.window + 1) + value + self.window
        return number

    def _switched(self, flags: tuple[bool, ...], token: int, view: int) -> tuple[bool, ...]:
        low, high = (each[token, view] for each in self.gates)
        distance = np.maximum(low, -high)
        open_ = ~np.array(flags)  # a state that was replaced is replaced by the same point again
        nearest = float(distance[open_].min(initial=math.inf))
        if nearest < DOUBT:
            raise NotFinite(
                f"with a window of {self.window}, the gate of switch {int(np.where(open_, distance, math.inf).argmin()) + 1} "
                f"is not decided after token {token}"
            )
        self.gate = min(self.gate, nearest)
        return tuple((np.array(flags) | (high < 0)).tolist())

    def _answer(self, flags: tuple[bool, ...], token: int, view: int) -> int:
        chosen = np.tile(np.array(flags, int), 2)
        of_flags = self.network.of_flags[chosen, :, np.arange(len(chosen))].sum(axis=0)
        classes = self.network.classes
        apart = self.scores[token, view] + (of_flags + self.network.score_bias).reshape(classes, -1)
        apart[np.arange(classes), np.arange(classes)] = math.inf
        least = apart.min(axis=1)
        best = int(least.argmax())
        if least[best] < DOUBT:
            raise NotFinite(
                f"with a window of {self.window}, the answer after token {token} is not decided"
            )
        self.lead = min(self.lead, float(least[best]))
        return best

    def _made(self, start: tuple[bool, ...], table: dict[tuple[bool, ...], dict]) -> Counting:
        states: dict[tuple[tuple[bool, ...], int | None], int] = {(start, None): 0}
        for row in table.values():
            for each in row.values():
                states.setdefault(each, len(states))
        symbols = len(self.network.tokens) * self.gates[0].shape[1]
        transitions = []
        for flags, _ in states:
            row = table.get(flags, {})
            unreached = next(iter(row.values()))
            transitions.append(tuple(states[row.get(symbol, unreached)] for symbol in range(symbols)))
        control = Machine(transitions=tuple(transitions), outputs=tuple(answer for _, answer in states))
        increments = tuple(
            tuple(form[token] for form in self.network.forms) for token in self.network.tokens
        )
        machine = CounterMachine(increments=increments, window=self.window, control=control)
        return Counting(machine, [flags for flags, _ in states], self.gate, self.lead)


def _array(tensor: Tensor) -> Reals:
    return tensor.detach().cpu().double().numpy()
