"""One step of a locked model in NumPy and float64, for the checker. Nothing of csprop.nn is used."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from csprop.proof.check_shapes import demand, of_layer

Array = np.ndarray
DOUBT = 0.99e-3
"""Nothing may be nearer to a tie."""


def nearest(h: Array, codes: Array) -> tuple[int, float]:
    apart = np.sqrt(((h - codes) ** 2).sum(axis=1).max(axis=1))  # (S,)
    demand(bool(np.isfinite(apart).all()), "a state is not a finite number")
    return int(apart.argmin()), float(apart.min())


def gap(codes: Array) -> float:
    """The least distance between two codes."""
    others = (nearest(code, codes[i + 1 :])[1] for i, code in enumerate(codes[:-1]))
    return min(others, default=float("inf"))


def _linear(weight: Array, x: Array, bias: Array | float = 0.0) -> Array:
    """Computed here in float64, in use in float32: large terms that cancel would not agree."""
    largest = np.max(np.abs(weight) @ np.abs(x) + np.abs(bias))
    demand(bool(largest * 2.0**-23 < 1e-4), "weights are so large that float32 cannot be relied on")
    return weight @ x + bias


def _first(scores: Array) -> tuple[Array, Array]:
    """The largest of the scores along the last axis, and its lead over the next."""
    ordered = np.sort(scores, axis=-1)
    lead = np.diff(ordered[..., -2:], axis=-1).max(axis=-1, initial=-np.inf)
    return scores.argmax(axis=-1), lead if scores.shape[-1] > 1 else np.full_like(lead, np.inf)


def _sigmoid(x: Array) -> Array:
    return 0.5 * (1 + np.tanh(x / 2))


def _softplus(x: Array) -> Array:
    return np.logaddexp(0, x)


def _unit(h: Array, epsilon: float, under: float = 1e-30) -> Array:
    return h / (np.sqrt((h**2).sum(axis=0) + under) + epsilon)


def _turned(x: Array, theta: Array) -> Array:
    """e^{iθ} x of two planes."""
    cos, sin = np.cos(theta), np.sin(theta)
    return np.stack([cos * x[0] - sin * x[1], sin * x[0] + cos * x[1]])


class Move(NamedTuple):
    """What a token does."""

    where: list[int]
    """The code of each layer to which it leads."""
    near: list[float]
    """How far from them the states were."""
    scores: Array
    gates: dict[int, float]
    """In layers that round, how far the nearest decision is from a tie."""


class Network:
    """One step of the model, as docs/paper.md has the equations; a state is (M, D), no batch.

    Its first planes, as many as the order, are h. Where angles are summed, cos Θ and sin Θ follow;
    where a state is a sum over all steps, the product of all decays so far. Options that older files
    lack have the defaults that `of_layer` gives them.

    Args:
        tensors: of the file, in float64.
        config: the options of the model.
        gaps: lower bounds of the distances between the codes of each layer; else they are measured.
        doubt: no decision may be nearer to a tie.
    """

    def __init__(
        self,
        tensors: dict[str, Array],
        config: dict[str, Any],
        gaps: list[float] | None = None,
        doubt: float = DOUBT,
    ) -> None:
        self.tensors, self.options, self.doubt = tensors, config, doubt
        self._maps: dict[tuple[int, int], tuple[Array, Array]] = {}
        self._rotations: dict[tuple[int, bytes], Array] = {}
        self.depth = config["depth"]
        self.layers = [of_layer(config, layer) for layer in range(self.depth)]
        self.order = self.layers[0]["order"]
        self.kept = tensors["kept"] != 0
        self.codes = [tensors[f"codes_{layer}"] for layer in range(self.depth)]
        self.start = [self._start(layer) for layer in range(self.depth)]
        self.gates: dict[int, float] = {}
        self.gaps = [gap(codes) for codes in self.codes] if gaps is None else gaps
        self._flat = [codes.reshape(len(codes), -1) for codes in self.codes]
        self._squares = [(flat**2).sum(axis=1) for flat in self._flat]

    def _start(self, layer: int) -> Array:
        options = self.layers[layer]
        ones = np.ones((1, options["width"]))
        turned = [ones, 0 * ones] if options["angle"] == "accumulated" else []
        product = [ones] if options["recurrence"] == "cumulative" else []
        return np.concatenate([self._h0(layer), *turned, *product])

    def _h0(self, layer: int) -> Array:
        options = self.layers[layer]
        if options["h0"] != "learned":
            start = np.zeros((self.order, options["width"]))
            if options["h0"] == "place":
                start[0, :: options["places"]] = 1
            if options["h0"] == "line":
                start[1] = 1
            return start
        h0 = self.tensors[f"network.blocks.{layer}.h0"]
        return _unit(h0, 0.0) if options["decay"] in ("reset", "switch") else h0

    def move(self, place: Sequence[int], token: int) -> Move:
        """From codes, by a token."""
        z = self._enter(token)
        where, near = [], []
        self.gates = {}
        for layer in range(self.depth):
            before = self.codes[layer][place[layer]]
            step = self._route if self.layers[layer]["places"] else self._recur
            h = step(layer, z, before)
            h = np.where(self.kept[layer], h, self.start[layer])
            number, distance = self._nearest(layer, h)
            where.append(number)
            near.append(distance)
            z = self._finish(layer, self.codes[layer][number], z, before)
        return Move(where, near, self._decode(z), self.gates)

    def _enter(self, token: int) -> Array:
        """What a token enters the first layer as, (order, D)."""
        kind, row = self.layers[0]["embedding"], self.tensors["network.embedding"][token]
        if kind == "complex":
            return row
        own = self._own("widen")
        wide = _linear(own("weight"), row, own("bias"))
        wide = np.tanh(wide) if kind == "scalar" else wide
        return np.stack([wide, np.zeros_like(wide)])

    def _nearest(self, layer: int, h: Array) -> tuple[int, float]:
        """The nearest code: the one that is nearer than half of the gap, if there is one."""
        likely = int((self._squares[layer] - 2 * (self._flat[layer] @ h.ravel())).argmin())
        distance = nearest(h, self.codes[layer][likely][None])[1]
        if distance < self.gaps[layer] / 2:  # then every other one is farther away
            return likely, distance
        return nearest(h, self.codes[layer])

    def _route(self, layer: int, z: Array, h: Array) -> Array:
        """What is in a place turns, and moves to where the logit of its column is largest."""
        own = self._own(layer)
        scores = _linear(own("keys.weight"), z.ravel(), own("keys.bias"))
        chosen, lead = _first(scores)
        demand(bool(lead >= self.doubt), f"rounding could choose another map of layer {layer + 1}")
        h = self._turn(layer, z)(h) if self.layers[layer]["rotate"] == "state" else h
        targets, leads = self._columns(layer, int(chosen))
        held = np.flatnonzero((h != 0).any(axis=0))
        least = leads[held].min(initial=np.inf)
        demand(bool(least >= self.doubt), f"rounding could choose another place in layer {layer + 1}")
        self.gates[layer] = float(min(lead, least))
        moved = np.zeros_like(h)
        np.add.at(moved.T, targets[held], h[:, held].T)
        return moved

    def _columns(self, layer: int, chosen: int) -> tuple[Array, Array]:
        """To which channel a map sends each channel, and by how much that target leads, (D,) each."""
        if (layer, chosen) not in self._maps:
            maps = self._own(layer)("maps")[chosen]  # (groups, target, source)
            target, lead = _first(maps.transpose(0, 2, 1))
            first = np.arange(len(maps))[:, None] * maps.shape[1]
            self._maps[layer, chosen] = (first + target).ravel(), lead.ravel()
        return self._maps[layer, chosen]

    def _recur(self, layer: int, z: Array, before: Array) -> Array:
        options, own, h = self.layers[layer], self._own(layer), before[: self.order]
        summed = self._summed(layer, z, before) if options["angle"] == "accumulated" else None
        turned = self._turn(layer, z) if summed is None else lambda x: _turned(x, summed)
        x = self._entering(layer, z)
        x = turned(x) if options["rotate"] == "input" else x
        if options["input_map"] != "none":
            bias = own("map.bias")[:, None] if options["input_map"] == "affine" else 0.0
            x = _linear(own("map.weight"), x.T, bias).T
        alpha, u = self._gate(layer, z, x, h)
        others = [] if summed is None else [np.cos(summed), np.sin(summed)]
        if options["recurrence"] == "cumulative":
            product = np.maximum(before[-1, : len(alpha)], 1e-30)
            u = alpha * product / (product + 1e-9) * u
            others.append(alpha * product)
        if layer and options["coupling_rank"]:
            link = 0 if options["coupling"] == "shared" else layer - 1
            factors = [self.tensors[f"network.couplings.{link}.{name}"] for name in "vu"]
            u = u + _linear(factors[1], _linear(factors[0].T, z.T)).T
        h = alpha * (turned(h) if options["rotate"] == "state" else h) + u
        if options["decay"] == "count":
            demand(bool((np.abs(h) <= 2.0**24).all()), "float32 does not hold its counts exactly")
        h = h / np.maximum(np.sqrt(((h / 2.0**60) ** 2).sum(axis=0)), 1)
        h = h * _sigmoid(h) if options["activation"] == "step" else h
        return np.stack([*h, *(np.broadcast_to(each, h.shape[1:]) for each in others)])

    def _entering(self, layer: int, z: Array) -> Array:
        """What enters, before it is turned, and before a gate lets it in."""
        options = self.layers[layer]
        if options["decay"] == "count":
            return self._whole(layer, z)
        if options["enter"] == "point":
            return _unit(self._own(layer)("point"), 0.0)
        return _unit(z, 1e-8) if options["decay"] in ("reset", "switch") else z

    def _gate(self, layer: int, z: Array, x: Array, h: Array) -> tuple[Array, Array]:
        """α, and what a gate lets in of what enters, x."""
        options, own = self.layers[layer], self._own(layer)
        if options["decay"] == "none":
            return np.ones(1), np.zeros_like(x)
        if options["decay"] == "count":
            return np.ones(1), x

        def seen(name: str, planes: Array) -> Array:
            return _linear(own(f"{name}.weight"), planes.ravel(), own(f"{name}.bias"))

        input_of_all = x if options["gate_input"] == "entering" else z
        delta = seen("gate", z + h if options["gate_input"] == "state" else input_of_all)
        if options["decay"] == "switch":
            used = np.broadcast_to(np.abs(delta), self.kept[layer].shape)[self.kept[layer]]
            demand(bool((used >= self.doubt).all()), f"rounding could turn a gate of layer {layer + 1}")
            self.gates[layer] = float(used.min(initial=np.inf))
            return delta > 0, (delta <= 0) * x
        if options["decay"] == "reset":
            return _sigmoid(delta), _sigmoid(-delta) * x
        u = _softplus(delta) * x
        if options["entrance"] == "sine":
            u = (1 + np.sin(seen("entrance", input_of_all))) / 2 * x
        if options["recurrence"] == "cumulative" and options["gate_input"] == "entering":
            delta = seen("gate", u)
        decays = {
            "softplus": _softplus(delta), "exp": np.exp(-_softplus(delta)), "unit": np.ones_like(delta)
        }  # fmt: skip
        return decays[options["decay"]], u

    def _whole(self, layer: int, z: Array) -> Array:
        """What a counter adds: Re z rounded, halves to even numbers."""
        added = np.rint(z[0])
        sure = np.abs(z[0] - added) <= 0.499
        demand(bool(sure[self.kept[layer]].all()), f"rounding could turn a count of layer {layer + 1}")
        return np.stack([added, np.zeros_like(added)])

    def _turn(self, layer: int, z: Array) -> Callable[[Array], Array]:
        """The rotation of this step, as a function of (M, D)."""
        if self.layers[layer]["rotate"] == "none":
            return lambda h: h
        key = layer, z.tobytes()  # a first layer has one for each token
        if key not in self._rotations:
            self._rotations[key] = self._matrices(layer, z)
        return lambda h: np.einsum("dij,jd->id", self._rotations[key], h)

    def _angles(self, layer: int, z: Array) -> Array:
        """Those of this step, one for each pair of planes: (pairs, 1 or D)."""
        options, own = self.layers[layer], self._own(layer)
        if options["angle"] == "free":
            angles = _linear(own("angle.weight"), z.ravel(), own("angle.bias"))
            return angles.reshape(self.order * (self.order - 1) // 2, -1)
        if options["projection"] == "tanh":
            return np.pi * np.tanh(_linear(own("angle.weight"), z[0]))[None]
        if options["projection"] == "affine":
            return np.pi * np.tanh(_linear(own("angle.weight"), z.ravel(), own("angle.bias")))[None]
        x, y = np.tanh(_linear(own("angle.weight"), z.ravel())).reshape(2, 1, -1)
        return np.arctan2(y, np.where(x**2 + y**2 < 1e-30, 1.0, x))

    def _summed(self, layer: int, z: Array, before: Array) -> Array:
        """The sum of all angles so far, (1 or D,)."""
        angles = self._angles(layer, z)[0]
        cos, sin = before[self.order : self.order + 2, : len(angles)]
        return angles + np.arctan2(sin, cos)

    def _matrices(self, layer: int, z: Array) -> Array:
        """The rotation of each channel, (D, M, M)."""
        options, angles = self.layers[layer], self._angles(layer, z)
        skew = np.zeros((angles.shape[1], self.order, self.order))
        rows, columns = np.triu_indices(self.order, 1)
        skew[:, columns, rows], skew[:, rows, columns] = angles.T, -angles.T
        values, vectors = np.linalg.eigh(1j * skew)  # i times a skew matrix is Hermitian
        phases = np.exp(-1j * values)[:, None, :]
        matrices = np.real((vectors * phases) @ vectors.conj().transpose(0, 2, 1))
        return np.broadcast_to(matrices, (options["width"], self.order, self.order))

    def _finish(self, layer: int, h: Array, z: Array, before: Array) -> Array:
        options, own = self.layers[layer], self._own(layer)
        h, before = h[: self.order], before[: self.order]
        if options["activation"] == "boundary":
            h = h * _sigmoid(h)
        if options["skip"]:
            h = h + _sigmoid(own("skip")) * z
        if options["recall"]:
            h = h + own("recall") * before
        if options["norm"] == "complex":
            return _unit(h, 1e-8)
        if options["norm"] == "root":
            return _unit(h, 0.0, 1e-8)
        h = h / np.maximum(np.sqrt(((h / 2.0**20) ** 2).sum(axis=0)), 1)
        if options["norm"] == "layer":
            flat = h.ravel()
            flat = (flat - flat.mean()) / np.sqrt(flat.var() + 1e-5)
            h = (flat * own("norm.weight") + own("norm.bias")).reshape(h.shape)
        return h

    def _decode(self, h: Array) -> Array:
        own = self._own("decoder")
        if self.options["decoder"] == "complex":
            seen = _linear(own("linear.weight"), h.T).T  # (2, V)
            return (seen * own("projection")).sum(axis=0) + own("bias")
        if self.options["decoder"] == "phase":
            nowhere = (h**2).sum(axis=0) < 1e-30
            features = np.arctan2(h[1], np.where(nowhere, 1.0, h[0]))
        elif self.options["decoder"] == "cos_sin" and self.layers[-1]["norm"] != "complex":
            features = _unit(h, 0.0).ravel()
        else:
            features = h.ravel()
        return _linear(own("linear.weight"), features, own("linear.bias"))

    def _own(self, part: int | str) -> Callable[[str], Array]:
        prefix = f"network.blocks.{part}" if isinstance(part, int) else f"network.{part}"
        return lambda name: self.tensors[f"{prefix}.{name}"]
