"""From a network of trackers to the machine that it is.

In evaluation each head that the network uses has a discrete state: an element of a finite group, a
place, a whole number, or the input before. What a token adds to a counter of the first layer depends
on the token alone, and the network sees a count c cut to ±w. So it is a machine with these counters,
whose control holds the states of all other heads. It is read by a walk: from each state, with each
token and each view of the counts after it, the network itself takes a step.
"""

from collections.abc import Sequence
from itertools import product
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from csprop.automata.counting import CounterMachine
from csprop.automata.forms import Ranges, Values, primitive
from csprop.automata.machine import Machine
from csprop.automata.walk import Endless, Walk
from csprop.cells.heads import WINDOW, Counts
from csprop.cells.tracker import SparseHeads
from csprop.proof.limits import NotFinite
from csprop.training.pruned import all_heads

MOST_STATES = 1 << 14
MOST_COUNTERS = 4
BATCH = 64  # states of the walk whose moves are computed together
GRAIN = 1e-3
"""States that differ by less, because of rounding, are one."""
Place = tuple[bytes, Values]
"""A state of all heads but the counters, and the counts as the window shows them."""


@torch.no_grad()
def read_machine(model: Any, symbols: int) -> Machine | CounterMachine:
    """Return the machine of a network of trackers in evaluation; raise NotFinite if it is not one."""
    layers = all_heads(model)
    before = [float(layer.hard) for layer in layers]
    try:
        return _Reading(model, symbols).run()
    finally:
        for layer, hard in zip(layers, before, strict=True):
            layer.hard.fill_(hard)


def has_heads_alone(model: Any) -> bool:
    """Return True if trackers hold the whole state of a model."""
    if not isinstance(model, nn.Module) or not (layers := all_heads(model)):
        return False
    state: Tensor = cast(Any, model).initial_state()
    return len(layers) == state.shape[1]


class _Reading:
    """A walk through a network whose places are made whole."""

    def __init__(self, model: Any, symbols: int) -> None:
        self.model = model
        self.layers: list[SparseHeads] = all_heads(model)
        if any((layer.drifting & layer.followed.used).any() for layer in self.layers):
            raise NotFinite("it uses a rotation that has no finite group")
        for layer in self.layers:
            layer.hard.fill_(1)
        self.start: Tensor = model.initial_state()[0]  # (L, 1, K)
        first = self.layers[0]
        tokens = torch.arange(symbols)
        after, _ = self._step(self.start.expand(len(tokens), *self.start.shape), tokens)
        self.counts = _places(first, Counts)
        added = (after - self.start)[:, 0, 0, self.counts].round().to(torch.int64)
        made = [primitive(column) for column in added.T.tolist()]
        self.forms = tuple(dict.fromkeys(form for factor, form in made if factor))
        if len(self.forms) > MOST_COUNTERS:
            raise NotFinite(f"it has {len(self.forms)} different counters")
        size = len(self.forms)
        # What each counter of the network is of each of these: count = forms @ factors.
        self.factors = torch.zeros(size, len(made))
        for column, (factor, form) in enumerate(made):
            if factor:
                self.factors[self.forms.index(form), column] = factor
        self.added = torch.tensor(self.forms).reshape(size, len(tokens)).T
        self.ranges = Ranges(self.forms, (WINDOW - 1,) * size, (1,) * size)
        self.used = [layer.followed.states for layer in self.layers]
        self.states: dict[bytes, Tensor] = {}
        self.decided: dict[tuple[bytes, int, Values], tuple[bytes, int]] = {}

    def _step(self, states: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
        return self.model.step(states, tokens, lambda layer, h: h)

    def run(self) -> Machine | CounterMachine:
        start = self._keys(self.start[None])[0], (0,) * len(self.forms)
        try:
            Walk(start).run(self._leaving, MOST_STATES, BATCH)
        except Endless:
            raise NotFinite("its heads have too many states: one may count, or drift") from None
        machine = self._made(start[0]).reduce()
        return machine if machine.counters else machine.control

    def _leaving(self, places: Sequence[Place]) -> list[list[tuple[int, Place]]]:
        moves = [
            [
                (token, values)
                for token in range(len(self.added))
                for values in self.ranges.after(seen, token)
            ]
            for _, seen in places
        ]
        self._decide(
            {(key, *move) for (key, _), mine in zip(places, moves, strict=True) for move in mine}
        )
        return [
            [(token, (self.decided[key, token, values][0], values)) for token, values in mine]
            for (key, _), mine in zip(places, moves, strict=True)
        ]

    def _decide(self, moves: set[tuple[bytes, int, Values]]) -> None:
        """Let the network take steps, to these views of the counts."""
        new = sorted(moves - self.decided.keys())
        if not new:
            return
        tokens = torch.tensor([token for _, token, _ in new])
        states = torch.stack([self.states[key] for key, _, _ in new])
        values = torch.tensor([values for _, _, values in new], dtype=torch.int64)
        before = (values - self.added[tokens]).to(self.factors) @ self.factors
        states[:, 0, 0, self.counts] = before.to(states)
        after, scores = self._step(states, tokens)
        for move, key, answer in zip(
            new, self._keys(after), scores.argmax(dim=1).tolist(), strict=True
        ):
            self.decided[move] = key, answer

    def _keys(self, states: Tensor) -> list[bytes]:
        """Return a name for each state without the counts, and remember the state."""
        states = states.clone()
        states[:, 0, 0, self.counts] = 0
        used = torch.cat([states[:, layer, 0, mine] for layer, mine in enumerate(self.used)], dim=1)
        keys = [row.tobytes() for row in np.round(used.numpy() / GRAIN).astype(np.int32)]
        for key, state in zip(keys, states, strict=True):
            self.states.setdefault(key, state)
        return keys

    def _made(self, start: bytes) -> CounterMachine:
        """Return the machine; moves that no input can reach are arbitrary."""
        seen = [list(range(-WINDOW, WINDOW + 1))] * len(self.forms)
        symbols = {
            (token, values): number
            for number, (token, values) in enumerate(product(range(len(self.added)), product(*seen)))
        }
        nodes: dict[tuple[bytes, int | None], int] = {(start, None): 0}
        rows: dict[bytes, dict[int, int]] = {}
        for (key, token, values), after in self.decided.items():
            number = nodes.setdefault(after, len(nodes))
            rows.setdefault(key, {})[symbols[token, values]] = number
        transitions = []
        for key, _ in nodes:
            unmet = next(iter(rows[key].values()))
            transitions.append(tuple(rows[key].get(symbol, unmet) for symbol in range(len(symbols))))
        control = Machine(transitions=tuple(transitions), outputs=tuple(answer for _, answer in nodes))
        increments = tuple(tuple(row) for row in self.added.tolist())
        return CounterMachine(increments=increments, window=WINDOW, control=control.minimal())


def _places(layer: SparseHeads, kind: type) -> Tensor:
    """Return the numbers of a state that belong to the heads of a kind that are followed."""
    followed, first, end = layer.followed, 0, 0
    for head in layer.heads:
        first, end = end, end + head.stored
        if isinstance(head, kind):
            break
    states = followed.states
    return states[(states >= first) & (states < end)]
