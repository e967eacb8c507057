"""The checker's step of a network that counts: in NumPy and float64, for many counts at once.

Nothing is shared with the prover. What a channel passes on at all counts beyond a window lies between
its value at the window and its limit, so that every linear function of it lies between two bounds. They
are wider by what float32, in which the network runs, may round.
"""

import math

import numpy as np

from csprop.proof.check_shapes import demand
from csprop.proof.numpy_step import Array

DOUBT = 0.99e-3
"""Nothing may be nearer to a tie."""
Values = tuple[int, ...]


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
