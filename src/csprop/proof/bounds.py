"""The decisions of the layers of a model that counts, for many counts at once.

The bounds are computed in float64, for a network that runs in float32. Each of its operations errs by
2^−24 of its result at most, so a sum of n products errs by about n · 2^−24 of the sum of their sizes.
The bounds are wider by twice as much.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from csprop.automata.forms import Values, primitive
from csprop.proof.limits import DOUBT, NotFinite

Reals = NDArray[np.float64]
Weights = Mapping[str, NDArray[np.float32]]
"""Those of the network, by their names in its file; and of switches, `POINTS`."""
POINTS = ("start", "replaced")
"""The points of each switch on the unit circle, before and after it is replaced."""
Box = tuple[Reals, Reals]
"""The least and the largest values of some numbers."""
State = tuple[int, ...]
"""The content of the layer above the counters."""
MOST = 2.0**20
"""Size of a weight, far below where squares overflow, and of an increment."""
EPSILON = 2.0**-23
"""Twice the relative error of one operation in float32."""
SURE = 0.499
"""Distance of an increment, as it is in the embedding, from the whole number to which it is rounded."""
LEAST_MODULUS = 0.01
"""The smallest modulus of a number whose phase is taken."""
CLEAR = 1e3
"""The largest distance from a tie that a certificate states."""


class Counters:
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
        """The least and the largest of each number passed on after a token, (2 D,) each.

        Args:
            token: the last token.
            values: of the forms; one at the edge of the window stands for all beyond it.
            window: the window.
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
class Functions:
    """Linear functions of what the counters pass on, as float32 computes them."""

    weights: Reals  # (F, 2 D)
    constants: Reals  # (F,)
    sizes: Reals  # (F,): how large the terms of each constant are together

    @classmethod
    def of(cls, weights: Weights, layer: str) -> "Functions":
        """Those of a linear layer."""
        factors, biases = (weights[f"{layer}.{name}"].astype(np.float64) for name in ("weight", "bias"))
        return cls(factors, biases, np.abs(biases))

    def errors(self, box: Box) -> Reals:
        """Return the largest error of rounding in each function."""
        sizes = np.abs(self.weights) @ np.maximum(*map(np.abs, box)) + self.sizes
        return (self.weights.shape[1] + 2) * EPSILON * sizes

    def between(self, box: Box) -> Box:
        """The least and the largest value of each."""
        low, high = _span(self.weights, box)
        error = self.errors(box)
        return low + self.constants - error, high + self.constants + error

    def largest(self, box: Box) -> tuple[int, float]:
        """The number of the largest, everywhere in a box, and by how much it leads at least."""
        best = int((self.weights @ (box[0] + box[1]) / 2 + self.constants).argmax())
        low, _ = _span(self.weights[best] - self.weights, box)
        error = self.errors(box)
        lead = low + self.constants[best] - self.constants - error - error[best]
        return best, float(np.delete(lead, best).min(initial=CLEAR))


def _span(weights: Reals, box: Box) -> Box:
    """The least and the largest values of sums of products, (F,) each."""
    up, down = np.maximum(weights, 0), np.minimum(weights, 0)
    return up @ box[0] + down @ box[1], up @ box[1] + down @ box[0]


class Switches:
    """The second layer as switches: which of them have replaced their state."""

    def __init__(self, weights: Weights) -> None:
        self.gates = Functions.of(weights, "blocks.1.gate")
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


class Routes:
    """The second layer as a router: the place of each group that holds something."""

    def __init__(self, weights: Weights) -> None:
        self.keys = Functions.of(weights, "blocks.1.keys")
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
