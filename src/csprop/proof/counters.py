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
"""

from collections import defaultdict
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np

from csprop.automata.counting import CounterMachine
from csprop.automata.forms import Ranges, Values
from csprop.automata.machine import Machine
from csprop.automata.walk import Endless, Walk
from csprop.cells.options import Counter, Router, Switch
from csprop.nn.config import CSPConfig
from csprop.proof.bounds import CLEAR, Box, Counters, Functions, Routes, State, Switches, Weights
from csprop.proof.certificate import CountingTable
from csprop.proof.limits import DOUBT, NotFinite

KINDS = ((Counter, Switch), (Counter, Router))
WINDOWS = (1, 2, 4, 8, 16, 32, 64)
"""The windows that are tried, the smallest first."""
MOST_VIEWS = 1 << 19
"""Pairs of a token and a view."""
MOST_PLACES = 1 << 18
"""States of the control with counts as the window shows them."""


def counts(config: CSPConfig) -> bool:
    """Return True for a layer of counters below switches or a router, with a linear decoder."""
    return tuple(map(type, config.layers)) in KINDS and config.decoder == "linear"


@dataclass(frozen=True)
class Counting:
    """A model as a machine, and how far its decisions are from a tie."""

    machine: CounterMachine
    states: list[State]
    """The content of the layer above the counters in each state of the control: which switches have
    replaced their state, or where each group of a router has its content."""
    decided: dict[tuple[State, int, Values], tuple[State, int]]
    """The content after a token, and the answer, by the content before, the token, and the counts
    after it as the window shows them."""
    unit: int
    """The increment of the network for an increment of 1, in the channel with the largest numbers."""
    gate: float
    """The least distance of a gate from 0, or the least lead of a map or a place that is chosen."""
    lead: float
    """The least distance of the best score from the second."""

    @property
    def table(self) -> CountingTable:
        """The decisions, as a certificate has them."""
        holds = list(dict.fromkeys(self.states))  # one of them may have several answers
        numbers = {state: number for number, state in enumerate(holds)}
        return CountingTable(
            unit=self.unit,
            increments=self.machine.increments,
            window=self.machine.window,
            holds=tuple(holds),
            decisions=tuple(
                (numbers[state], token, values, numbers[after], answer)
                for (state, token, values), (after, answer) in self.decided.items()
            ),
        )


def tabulate(weights: Weights) -> Counting:
    """The machine of a model that counts, with the smallest window that decides everything.

    Raises:
        NotFinite: a gate or an answer is not decided at some count, or there are too many.
    """
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
        self.window, self.counters = window, Counters(weights)
        self.control = (Routes if "blocks.1.maps" in weights else Switches)(weights)
        self.scores = Functions.of(weights, "decoder.linear")
        self.gate = self.lead = CLEAR
        size = len(self.counters.forms)
        self.ranges = Ranges(self.counters.forms, (window - 1,) * size, (1,) * size)
        self.decided: dict[tuple[State, int, Values], tuple[State, int]] = {}

    @cached_property
    def views(self) -> int:
        """The number of views of all counts."""
        return (2 * self.window + 1) ** len(self.counters.forms)

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
        """The state after a token and the answer, if they are the same for all counts meant."""
        key = (state, token, values)
        if key not in self.decided:
            try:
                box = self._box(token, values)
                after, gate = self.control.move(state, box)
                self.decided[key] = after, self._answer(after, box)
            except NotFinite as reason:
                raise NotFinite(f"with a window of {self.window}, {reason}") from None
            self.gate = min(self.gate, gate)
        return self.decided[key]

    @cache  # noqa: B019 - an attempt is short
    def _box(self, token: int, values: Values) -> Box:
        return self.counters.box(token, values, self.window)

    def _answer(self, state: State, box: Box) -> int:
        held, weights, own = self.control.held(state), self.scores.weights, self.scores
        sizes = np.abs(weights) @ np.abs(held) + own.sizes
        scores = Functions(weights * self.control.skip, weights @ held + own.constants, sizes)
        best, lead = scores.largest(box)
        if not lead >= DOUBT:
            raise NotFinite("an answer is not decided")
        self.lead = min(self.lead, lead)
        return best

    def _made(self) -> Counting:
        nodes: dict[tuple[State, int | None], int] = {(self.control.start, None): 0}
        symbol_of = {}
        for state, token, values in self.decided:
            view = 0
            for value in values:
                view = view * (2 * self.window + 1) + value + self.window
            symbol_of[state, token, values] = token * self.views + view
        rows: dict[State, dict[int, int]] = defaultdict(dict)
        for key, after in self.decided.items():
            rows[key[0]][symbol_of[key]] = nodes.setdefault(after, len(nodes))
        symbols = range(len(self.counters.tokens) * self.views)
        transitions = []
        for state, _ in nodes:  # what no input meets is as good as anything
            row, unmet = rows[state], next(iter(rows[state].values()))
            transitions.append(tuple(row.get(symbol, unmet) for symbol in symbols))
        control = Machine(transitions=tuple(transitions), outputs=tuple(said for _, said in nodes))
        increments = tuple(
            tuple(form[token] for form in self.counters.forms) for token in self.counters.tokens
        )
        machine = CounterMachine(increments=increments, window=self.window, control=control)
        states = [state for state, _ in nodes]
        unit = int(np.abs(self.counters.factors).max(initial=1))
        return Counting(machine, states, self.decided, unit, self.gate, self.lead)
