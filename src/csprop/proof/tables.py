"""Locked models without torch: their machines as tables, computed from the weights in NumPy.

The steps of a finite one are those of `exact.numpy_step`, in float64. What rounding could change there
is refused, so that torch computes the same machine from the same weights.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from csprop.automata.automaton import Automaton, CounterAutomaton
from csprop.automata.counting import MOST_COUNT
from csprop.automata.machine import tabulate
from csprop.automata.walk import Endless
from csprop.errors import InputError
from csprop.proof import counters
from csprop.proof.bounds import POINTS
from csprop.proof.limits import BLUR, DOUBT, MOST_LOCKED, MachineMoves, NotFinite, Tightness
from csprop.proof.numpy_step import Array, Move, Network, nearest

DRAWS = 4
"""Random changes under which a machine must stay the same."""

_Node = tuple[tuple[int, ...], int | None]
"""The code of each layer, and the last answer."""


class Tables:
    """A network whose state snaps to codes, as a machine.

    Args:
        tensors: of its file, in float64.
        options: of its model.

    Raises:
        NotFinite: the codes combine to too many states.
        Rejected: rounding could change a step.
    """

    def __init__(self, tensors: dict[str, Array], options: dict[str, Any]) -> None:
        self.tensors, self.options, self.symbols = tensors, options, options["vocab_size"]
        self.kept: NDArray[np.bool_] = tensors["kept"] != 0  # (L, D)
        self.network = Network(tensors, options)
        self._known: dict[tuple[tuple[int, ...], int], Move] = {}
        starts = zip(self.network.start, self.network.codes, strict=True)
        self._starts = [nearest(start, codes) for start, codes in starts]
        try:
            self.machine, nodes = tabulate(
                (tuple(number for number, _ in self._starts), None),
                lambda nodes: map(self._following, nodes),
                lambda node: node[1],
                MOST_LOCKED,
            )
        except Endless:
            raise NotFinite(f"the codes combine to more than {MOST_LOCKED:,} states") from None
        self.places = np.array([place for place, _ in nodes])  # (S, L)
        moves = [[self._move(place, token) for token in range(self.symbols)] for place, _ in nodes]
        self.scores = np.array([[move.scores for move in row] for row in moves])  # (S, V, classes)

    def _move(self, place: tuple[int, ...], token: int) -> Move:
        if (place, token) not in self._known:
            self._known[place, token] = self.network.move(place, token)
        return self._known[place, token]

    def _following(self, node: _Node) -> Iterator[tuple[int, _Node]]:
        for token in range(self.symbols):
            move = self._move(node[0], token)
            yield token, (tuple(move.where), int(move.scores.argmax()))

    def automaton(self, vocab: Sequence[str], classes: Sequence[str], words: bool) -> Automaton:
        """The machine, with names for its tokens and classes."""
        return Automaton.from_machine(self.machine, vocab, classes, words)

    def tightness(self, moves: MachineMoves) -> list[Tightness]:
        """The distances in each layer, over some transitions."""
        taken = [self._move(tuple(self.places[state].tolist()), token) for state, token in moves]
        measured = []
        for layer, codes in enumerate(self.network.codes):
            gates = [move.gates[layer] for move in taken if layer in move.gates]
            gate = min(gates, default=np.inf)
            near = [self._starts[layer][1], *(move.near[layer] for move in taken)]
            measured.append(
                Tightness(
                    codes=len(codes),
                    gap=self.network.gaps[layer] if len(codes) > 1 else None,
                    snap=max(near),
                    size=float(np.abs(codes).max()),
                    gate=None if gate == np.inf else gate,
                )
            )
        return measured

    def settled(self, moves: MachineMoves) -> float:
        """The margin of the scores, if nothing that the model does depends on rounding.

        Raises:
            NotFinite: something does.
        """
        states, tokens = np.array(moves).T
        scores = self.scores[states, tokens]
        best = np.sort(scores, axis=1)[:, -2:]
        lead = float(((best[:, 1] - best[:, 0]) / np.abs(scores).max(axis=1).clip(min=1)).min())
        if not lead >= DOUBT:
            raise NotFinite(f"two scores lie {lead:.1g} apart: rounding could decide the answer")
        if not self._steady({(tuple(self.places[state].tolist()), token) for state, token in moves}):
            raise NotFinite("its behaviour depends on the last digits of its weights")
        return lead

    def _steady(self, moves: set[tuple[tuple[int, ...], int]]) -> bool:
        """Whether moves and answers stay the same under small random changes of weights and codes."""
        source = np.random.default_rng(0)
        for _ in range(DRAWS):
            blurred = {
                name: exact + BLUR * np.abs(exact).clip(min=1) * source.standard_normal(exact.shape)
                for name, exact in self.tensors.items()
                if name != "kept"
            }
            gaps, blurred["kept"] = self._gaps(blurred), self.tensors["kept"]
            other = Network(blurred, self.options, gaps, doubt=0.0)
            for place, token in moves:
                here, there = self._known[place, token], other.move(place, token)
                if here.where != there.where or here.scores.argmax() != there.scores.argmax():
                    return False
        return True

    def _gaps(self, blurred: dict[str, Array]) -> list[float]:
        """Lower bounds of the gaps between codes that were moved a little."""
        moved = (blurred[f"codes_{layer}"] - codes for layer, codes in enumerate(self.network.codes))
        most = [2 * float(np.sqrt((each**2).sum(axis=1)).max()) for each in moved]
        return [gap - shift for gap, shift in zip(self.network.gaps, most, strict=True)]

    def initial_state(self, batch: int) -> NDArray[np.int64]:
        """The start of the machine, for each row."""
        return np.full(batch, self.machine.start)

    def run(
        self, tokens: NDArray[np.int64], state: NDArray[np.int64]
    ) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """The scores after every token of rows (N, T), and the states after the last."""
        visited = np.concatenate([state[:, None], self.machine.visit(tokens, state)], axis=1)
        return self.scores[visited[:, :-1], tokens], visited[:, -1]


class CountingTables:
    """A network that counts, as a machine with counters.

    Raises:
        NotFinite: some decision of the network is not the same for all counts beyond a window.
    """

    def __init__(self, weights: dict[str, NDArray[np.float32]]) -> None:
        self.routes = "blocks.1.maps" in weights
        if not self.routes:
            points = (weights[f"blocks.1.{name}"] for name in ("h0", "point"))
            weights = weights | dict(zip(POINTS, map(_unit, points), strict=True))
        self.counting = counters.tabulated(weights)
        self.machine = self.counting.machine
        self.classes = len(weights["decoder.linear.bias"])

    def automaton(self, vocab: Sequence[str], classes: Sequence[str], words: bool) -> CounterAutomaton:
        """The machine, with names for its tokens and classes."""
        return CounterAutomaton.from_machine(self.machine, vocab, classes, words)

    def initial_state(self, batch: int) -> NDArray[np.int64]:
        """The start of the control and counts of 0, for each row."""
        state = np.zeros((batch, 1 + self.machine.counters), np.int64)
        state[:, 0] = self.machine.control.start
        return state

    def run(
        self, tokens: NDArray[np.int64], state: NDArray[np.int64]
    ) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """After every token of rows (N, T), 1 for the answer and 0 for other classes; the last states.

        Raises:
            InputError: a count could become too large.
        """
        machine, control = self.machine, self.machine.control
        increments = np.array(machine.increments, np.int64).reshape(machine.symbols, -1)
        most = tokens.shape[1] * int(np.abs(increments).max(initial=0))
        if most + int(np.abs(state[:, 1:]).max(initial=0)) > MOST_COUNT:
            raise InputError("the sequence is so long that a count could exceed 2^62")
        counts = state[:, None, 1:] + increments[tokens].cumsum(axis=1)  # (N, T, k)
        visited = control.visit(tokens * machine.views + machine.view(counts), state[:, 0])
        said = np.array([each or 0 for each in control.outputs])[visited]
        return np.eye(self.classes)[said], np.concatenate([visited[:, -1:], counts[:, -1]], axis=1)


def _unit(points: NDArray[np.float32]) -> NDArray[np.float32]:
    """Points (2, D) on the unit circle; 0 stays 0."""
    return points / np.sqrt(np.square(points).sum(axis=0) + np.float32(1e-30))
