"""A model that counts, as a machine with counters.

A layer of the kind `counter` adds whole numbers, so nothing has to be rounded when it is locked: each
of its channels is a counter, c_j = λ_j n for one of a few primitive linear forms n of the tokens read.
What a channel passes on is the point (c_j + x, y) divided by its modulus, where x and y follow from the
last token. A switch above it compares a linear function of these points with 0, and so does the decoder
with each difference of two scores.

Near zero, up to a window w, all counts are tried. Beyond, a point lies between its value at w and its
limit, ±1 on the real axis, in both planes: |c + x| grows with |c|, and both |y| / |(c + x, y)| and
1 − |c + x| / |(c + x, y)| fall as it does. So each linear function lies between two bounds, and what it
decides is decided for all counts beyond the window at once if both bounds are on the same side of 0.
What is left is a machine whose control sees the counts through the window.

The bounds are computed in float64, for a network that runs in float32. Each of its operations errs by
2^−24 of its result at most, so a sum of n products errs by about n · 2^−24 of the sum of their sizes.
The bounds are wider by twice as much. The file has over 300 lines because it has both kinds of control.
"""

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from csprop.automata.counting import CounterMachine
from csprop.automata.forms import Ranges, Values, primitive
from csprop.automata.machine import Machine
from csprop.automata.walk import Endless, Walk
from csprop.proof.certificate import CountingTable
from csprop.proof.limits import DOUBT, NotFinite

WINDOWS = (1, 2, 4, 8, 16, 32, 64)  # the windows that are tried, the smallest first
MOST_VIEWS = 1 << 19  # pairs of a token and a view
MOST_PLACES = 1 << 18  # states of the control with counts as the window shows them
MOST = 2.0**20  # size of a weight, far below where squares overflow, and of an increment
EPSILON = 2.0**-23  # twice the relative error of one operation in float32
SURE = 0.499
"""Distance of an increment, as it is in the embedding, from the whole number to which it is rounded."""
LEAST_MODULUS = 0.01  # the smallest modulus of a number whose phase is taken
CLEAR = 1e3  # the largest distance from a tie that a certificate states
POINTS = ("start", "replaced")
"""The points of each switch on the unit circle, before and after it is replaced."""
Reals = NDArray[np.float64]
Weights = Mapping[str, NDArray[np.float32]]
"""The weights of the network, by their names in its file; and of switches, `POINTS`."""
Box = tuple[Reals, Reals]  # the least and the largest values of some numbers
State = tuple[int, ...]
"""The content of the layer above the counters: which switches have replaced their state, or where each
group of a router has its content."""


@dataclass(frozen=True)
class Counting:
    """A model as a machine, and how far its decisions are from a tie."""

    machine: CounterMachine
    states: list[State]  # the content of the layer above the counters in each state of the control
    table: CountingTable  # the decisions, as a certificate has them
    gate: float
    """The least distance of a gate from 0, or the least lead of a map or a place that is chosen."""
    lead: float  # the least distance of the best score from the second


def tabulate(weights: Weights) -> Counting:
    """Return the machine of a model that counts, with the smallest window that decides everything."""
    failure = NotFinite("there are too many different counters")
    for window in WINDOWS:
        attempt = _Tabulation(weights, window)
        if attempt.views * len(attempt.counters.tokens) > MOST_VIEWS:
            break
        try:
            return attempt.run()
        except NotFinite as reason:
            failure = reason
    raise failure


class _Tabulation:
    """One attempt to decide everything with a window."""

    def __init__(self, weights: Weights, window: int) -> None:
        self.window, self.counters = window, _Counters(weights)
        self.box = cache(self.counters.box)
        self.control = (_Routes if "blocks.1.maps" in weights else _Switches)(weights)
        self.scores = _Functions.of(weights, "decoder.linear")
        self.gate = self.lead = CLEAR
        size = len(self.counters.forms)
        self.views = (2 * window + 1) ** size
        self.ranges = Ranges(self.counters.forms, (window - 1,) * size, (1,) * size)
        self.decided: dict[tuple[State, int, Values], tuple[State, int]] = {}

    def run(self) -> Counting:
        """Walk through all states of the control, with all counts as the window shows them."""

        def leaving(place: tuple[State, Values]) -> list[tuple[int, tuple[State, Values]]]:
            return [
                (token, (self._decide(place[0], token, values)[0], values))
                for token in self.counters.tokens
                for values in self.ranges.after(place[1], token)
            ]

        try:
            Walk((self.control.start, (0,) * len(self.counters.forms))).run(
                lambda places: map(leaving, places), MOST_PLACES
            )
        except Endless:
            raise NotFinite("the control has too many different states") from None
        return self._made()

    def _decide(self, state: State, token: int, values: Values) -> tuple[State, int]:
        """Return the state after a token and the answer, if they are the same for all counts meant."""
        key = (state, token, values)
        if key not in self.decided:
            try:
                box = self.box(token, values, self.window)
                after, gate = self.control.move(state, box)
                self.decided[key] = after, self._answer(after, box)
            except NotFinite as reason:
                raise NotFinite(f"with a window of {self.window}, {reason}") from None
            self.gate = min(self.gate, gate)
        return self.decided[key]

    def _answer(self, state: State, box: Box) -> int:
        held, weights, own = self.control.held(state), self.scores.weights, self.scores
        sizes = np.abs(weights) @ np.abs(held) + own.sizes
        scores = _Functions(weights * self.control.skip, weights @ held + own.constants, sizes)
        best, lead = scores.largest(box)
        if not lead >= DOUBT:
            raise NotFinite("an answer is not decided")
        self.lead = min(self.lead, lead)
        return best

    def _made(self) -> Counting:
        nodes: dict[tuple[State, int | None], int] = {(self.control.start, None): 0}
        rows: dict[State, dict[int, int]] = defaultdict(dict)
        for (state, token, values), after in self.decided.items():
            symbol = token
            for value in values:
                symbol = symbol * (2 * self.window + 1) + value + self.window
            rows[state][symbol] = nodes.setdefault(after, len(nodes))
        tokens, symbols = self.counters.tokens, range(len(self.counters.tokens) * self.views)
        transitions = []
        for state, _ in nodes:  # what no input meets is as good as anything
            row, unmet = rows[state], next(iter(rows[state].values()))
            transitions.append(tuple(row.get(symbol, unmet) for symbol in symbols))
        control = Machine(transitions=tuple(transitions), outputs=tuple(said for _, said in nodes))
        increments = tuple(tuple(form[token] for form in self.counters.forms) for token in tokens)
        states = [state for state, _ in nodes]
        numbers = {state: number for number, state in enumerate(dict.fromkeys(states))}
        table = CountingTable(
            unit=int(np.abs(self.counters.factors).max(initial=1)),
            increments=increments,
            window=self.window,
            holds=tuple(numbers),
            decisions=tuple(
                (numbers[state], token, values, numbers[after], answer)
                for (state, token, values), (after, answer) in self.decided.items()
            ),
        )
        machine = CounterMachine(increments=increments, window=self.window, control=control)
        return Counting(machine, states, table, self.gate, self.lead)


class _Counters:
    """The first layer: what its channels pass on, as far as the counts are known, in float64."""

    def __init__(self, weights: Weights) -> None:
        if not all((np.abs(each) <= MOST).all() for each in weights.values()):
            raise NotFinite(f"a weight is beyond ±{MOST:,.0f}, or not a number")
        embedding = weights["embedding"].astype(np.float64)  # (V, 2, D)
        increments = np.round(embedding[:, 0]).astype(int)
        if not np.abs(embedding[:, 0] - increments).max() <= SURE:
            raise NotFinite("an increment is so near a half that rounding could change it")
        self.skipped = _sigmoid(weights["blocks.0.skip"]) * embedding  # (V, 2, D)
        made = [primitive(column) for column in increments.T.tolist()]
        self.forms = tuple(dict.fromkeys(form for factor, form in made if factor))
        self.factors = np.array([factor for factor, _ in made])  # (D,)
        self.form_of = np.array([self.forms.index(form) if factor else 0 for factor, form in made])
        self.tokens = range(len(embedding))

    def box(self, token: int, values: Values, window: int) -> Box:
        """Return bounds of each number passed on after a token, (2 D,) each.

        A value of a form at the edge of the window stands for all beyond it.
        """
        of_channel = np.array((*values, 0))[self.form_of]  # where nothing is counted, its factor is 0
        counts = self.factors * of_channel
        state = np.stack([counts, np.ones_like(counts)])
        point = state + self.skipped[token]
        modulus = np.sqrt(np.square(point).sum(axis=0))
        if not modulus.min() >= LEAST_MODULUS:
            raise NotFinite("a phase is taken of a number near 0")
        error = 4 * EPSILON * (np.abs(state) + np.abs(self.skipped[token])).max(axis=0) / modulus
        outward = np.sign(point[0])
        edge = (np.abs(of_channel) == window) & (self.factors != 0)
        if (outward != np.sign(counts))[edge].any():
            raise NotFinite(f"a count of {window} may be outweighed by the last token")
        near = point / modulus
        far = np.where(edge, [outward, np.zeros_like(outward)], near)
        low, high = np.minimum(near, far) - error, np.maximum(near, far) + error
        return low.ravel(), high.ravel()


@dataclass(frozen=True)
class _Functions:
    """Linear functions of what the counters pass on, as float32 computes them."""

    weights: Reals  # (F, 2 D)
    constants: Reals  # (F,)
    sizes: Reals  # (F,): how large the terms of each constant are together

    @classmethod
    def of(cls, weights: Weights, layer: str) -> "_Functions":
        """Return the functions of a linear layer."""
        factors, biases = (weights[f"{layer}.{name}"].astype(np.float64) for name in ("weight", "bias"))
        return cls(factors, biases, np.abs(biases))

    def errors(self, box: Box) -> Reals:
        """Return the largest error of rounding in each function."""
        sizes = np.abs(self.weights) @ np.maximum(*map(np.abs, box)) + self.sizes
        return (self.weights.shape[1] + 2) * EPSILON * sizes

    def between(self, box: Box) -> Box:
        """Return the least and the largest value of each."""
        up, down, error = np.maximum(self.weights, 0), np.minimum(self.weights, 0), self.errors(box)
        low, high = up @ box[0] + down @ box[1], up @ box[1] + down @ box[0]
        return low + self.constants - error, high + self.constants + error

    def largest(self, box: Box) -> tuple[int, float]:
        """Return the number of the largest, everywhere in a box, and by how much it leads at least."""
        best = int((self.weights @ (box[0] + box[1]) / 2 + self.constants).argmax())
        apart, error = self.weights[best] - self.weights, self.errors(box)
        low = np.maximum(apart, 0) @ box[0] + np.minimum(apart, 0) @ box[1]
        lead = low + self.constants[best] - self.constants - error - error[best]
        return best, float(np.delete(lead, best).min(initial=CLEAR))


class _Switches:
    """The second layer as switches: which of them have replaced their state."""

    def __init__(self, weights: Weights) -> None:
        self.gates = _Functions.of(weights, "blocks.1.gate")
        self.start: State = (0,) * len(self.gates.constants)
        points = [weights[name].ravel() for name in POINTS]
        self.points = np.stack(points).astype(np.float64)  # (2, 2 D)
        self.skip = np.tile(_sigmoid(weights["blocks.1.skip"]), 2)

    def move(self, state: State, box: Box) -> tuple[State, float]:
        low, high = self.gates.between(box)
        replaced = np.array(state, bool)  # and if it is replaced again, then by the same point
        distance = np.where(replaced, math.inf, np.maximum(low, -high))
        if not distance.min() >= DOUBT:
            raise NotFinite(f"the gate of switch {int(distance.argmin()) + 1} is not decided")
        return tuple((replaced | (high < 0)).astype(int).tolist()), float(distance.min())

    def held(self, state: State) -> Reals:
        return self.points[np.tile(np.array(state), 2), np.arange(self.points.shape[1])]


class _Routes:
    """The second layer as a router: the place of each group that holds something."""

    def __init__(self, weights: Weights) -> None:
        self.keys = _Functions.of(weights, "blocks.1.keys")
        self.maps = weights["blocks.1.maps"].astype(np.float64)  # (K, G, m, m)
        self.start: State = (0,) * self.maps.shape[1]
        self.skip = np.zeros(self.keys.weights.shape[1])

    def move(self, state: State, box: Box) -> tuple[State, float]:
        best, gate = self.keys.largest(box)
        after = []
        for group, place in enumerate(state):
            logits = self.maps[best, group, :, place]
            after.append(int(logits.argmax()))
            gate = min(gate, float(np.diff(np.sort(logits)[-2:]).min(initial=math.inf)))
        if not gate >= DOUBT:
            raise NotFinite("the choice of a map, or of a place, is not decided")
        return tuple(after), gate

    def held(self, state: State) -> Reals:
        _, groups, places, _ = self.maps.shape
        held = np.zeros((2, groups, places))
        held[0, np.arange(groups), list(state)] = 1
        return held.ravel()


def _sigmoid(x: NDArray[np.float32]) -> Reals:
    return 0.5 * (1 + np.tanh(x.astype(np.float64) / 2))
