"""One step of a locked model in NumPy and float64, for the verifier: nothing of csprop.cells is used.

The model is given by its JSON: width, depth, decoder, and the kind and the options of the cell of each
layer. A state is (M, D), without a batch. The file has over 300 lines because
it has a step for every kind of cell.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray
DOUBT, RATIO = 1e-3, 5.0
"""Differences below DOUBT are not trusted; a gap must be RATIO times the snapping distance."""
TIE = 0.99 * DOUBT  # decisions that are nearer to a tie are refused; the rest is for rounding
TOLERANCE = 1e-3
"""Relative tolerance of stated distances, which another processor computes a little differently."""
DEFAULTS: dict[str, dict[str, Any]] = {
    "paper": {
        "rotate": "input", "rotation": "shared", "decay": "softplus", "gate": "shared",
        "activation": "boundary", "skip": True, "norm": "complex", "h0": "zero", "coupling_rank": 0,
        "coupling": "shared",
    },
    "rotor": {"order": 2, "skip": True, "recall": False, "parts": 0},
    "router": {"places": 0, "maps": 0},
    "counter": {},
    "switch": {},
    "tracker": {},  # only as trained: its machine is certified as a model of another kind
}  # fmt: skip
"""The options of each kind of cell, and their defaults."""


class Rejected(Exception):
    """The reason why a certificate does not hold."""


def demand(condition: object, complaint: str) -> None:
    if not condition:
        raise Rejected(complaint)


def close(measured: float | None, stated: float | None, least: float = 1.0) -> bool:
    """Return True if a stated number is what was measured, relative to it or to `least`."""
    if measured is None or stated is None:
        return measured is stated
    return abs(stated - measured) <= TOLERANCE * max(least, abs(measured))


def complete(model: dict[str, Any]) -> dict[str, Any]:
    """Return the options of a model with the defaults of those that are missing."""
    cells = []
    for cell in model["cells"]:
        demand(cell["kind"] in DEFAULTS, f"cells of the kind {cell['kind']!r} cannot be verified")
        cells.append(DEFAULTS[cell["kind"]] | cell)
    demand(len(cells) == model["depth"], "its model has another depth than cells")
    return model | {"cells": cells}


def planes(model: dict[str, Any]) -> int:
    """Return the number of real numbers in the state of a channel."""
    return max(cell.get("order", 2) for cell in model["cells"])


# The tensors that a model must have.


def check_weights(stored: dict[str, Array], model: dict[str, Any], counts: bool) -> None:
    """Demand exactly the tensors of a locked model: NumPy would broadcast one that is too small.

    A model that counts has neither codes nor a mask of channels.
    """
    for name, value in stored.items():
        kind = np.bool_ if name == "kept" else np.float32
        demand(value.dtype == kind, "its weights are not in float32")
    shapes = {name: value.shape for name, value in stored.items()}
    if not counts:
        state = (planes(model), model["width"])
        codes = [shapes.pop(f"codes_{layer}") for layer in range(model["depth"])]
        fits = all(len(each) == 3 and each[0] > 0 and each[1:] == state for each in codes)
        demand(fits and shapes.pop("kept") == (model["depth"], model["width"]), "its codes do not fit")
    expected = {f"network.{name}": shape for name, shape in network_shapes(model).items()}
    demand(shapes == expected, "its weights do not fit such a model")


def network_shapes(model: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    """Return the shape of every parameter of a model, by its name."""
    order, width, classes = planes(model), model["width"], model["num_classes"]
    features = width if model["decoder"] in ("complex", "phase") else order * width
    shapes: dict[str, tuple[int, ...]] = {"embedding": (model["vocab_size"], order, width)}
    shapes |= {"decoder.linear.weight": (classes, features)}
    if model["decoder"] == "complex":
        shapes |= {"decoder.projection": (2, classes), "decoder.bias": (classes,)}
    else:
        shapes |= {"decoder.linear.bias": (classes,)}
    first = model["cells"][0]
    if rank := first.get("coupling_rank", 0):
        links = 1 if first["coupling"] == "shared" else model["depth"] - 1
        shapes |= {f"couplings.{link}.{name}": (width, rank) for link in range(links) for name in "uv"}
    for layer, cell in enumerate(model["cells"]):
        own = _cell_shapes(cell, order, width, model["vocab_size"])
        shapes |= {f"blocks.{layer}.{name}": shape for name, shape in own.items()}
    return shapes


def _cell_shapes(
    cell: dict[str, Any], order: int, width: int, tokens: int
) -> dict[str, tuple[int, ...]]:
    def linear(name: str, outputs: int) -> dict[str, tuple[int, ...]]:
        return {f"{name}.weight": (outputs, order * width), f"{name}.bias": (outputs,)}

    kind, skip, point = cell["kind"], {"skip": (width,)}, (order, width)
    if kind == "counter":
        return skip
    if kind == "router":
        places, maps = cell["places"] or width, cell["maps"] or tokens
        return linear("keys", maps) | {"maps": (maps, width // places, places, places)}
    if kind == "switch":
        return linear("gate", width) | skip | {"h0": point, "point": point}
    shapes = skip if cell["skip"] else {}
    if kind == "rotor":
        shapes = shapes | linear("angle", width * order * (order - 1) // 2) | linear("gate", width)
        shapes = shapes | ({"parts": (width,)} if cell["parts"] and order == 2 else {})
        return shapes | {"h0": point} | ({"recall": (width,)} if cell["recall"] else {})
    turns, gates = (width if cell[name] == "per_channel" else 1 for name in ("rotation", "gate"))
    shapes = shapes | linear("gate", gates)
    shapes |= {} if cell["rotate"] == "none" else {"angle.weight": (turns, width)}
    shapes |= {"h0": point} if cell["h0"] == "learned" else {}
    if cell["norm"] == "layer":
        shapes |= {"norm.weight": (order * width,), "norm.bias": (order * width,)}
    return shapes


# The step.


def nearest(h: Array, codes: Array) -> tuple[int, float]:
    """Return the number of the nearest code, and its distance: the largest over the channels."""
    apart = np.sqrt(((h - codes) ** 2).sum(axis=1).max(axis=1))  # (S,)
    demand(np.isfinite(apart).all(), "a state is not a finite number")
    return int(apart.argmin()), float(apart.min())


def code_gap(codes: Array) -> float:
    """Return the smallest distance between two codes."""
    others = (nearest(code, codes[i + 1 :])[1] for i, code in enumerate(codes[:-1]))
    return min(others, default=float("inf"))


def linear(weight: Array, x: Array, bias: Array | float = 0.0) -> Array:
    """Return W x + b. It runs in float32 elsewhere, so large terms that cancel are refused."""
    largest = np.max(np.abs(weight) @ np.abs(x) + np.abs(bias))
    demand(largest * 2.0**-23 < 1e-4, "weights are so large that float32 cannot be relied on")
    return weight @ x + bias


def best(scores: Array) -> tuple[Array, Array]:
    """Return the index of the largest score along the last axis, and its lead over the next."""
    ordered = np.sort(scores, axis=-1)
    lead = np.diff(ordered[..., -2:], axis=-1).max(axis=-1, initial=-np.inf)
    return scores.argmax(axis=-1), lead if scores.shape[-1] > 1 else np.full_like(lead, np.inf)


def sigmoid(x: Array) -> Array:
    return 0.5 * (1 + np.tanh(x / 2))


def unit(h: Array, epsilon: float = 0.0) -> Array:
    """Return h / (|h| + ε) for each channel; 0 stays 0."""
    return h / (np.sqrt((h**2).sum(axis=0) + 1e-30) + epsilon)


class Move(NamedTuple):
    """The effect of a token."""

    place: tuple[int, ...]  # the code of each layer after it
    snaps: list[float]  # the distance of each layer's state from that code
    scores: Array
    gates: dict[int, float]  # in layers that round, the distance of the nearest decision from a tie


class Network:
    """A locked model: its tensors in float64, and its options.

    Decisions that are nearer to a tie than `tie` are rejected.
    """

    def __init__(self, tensors: dict[str, Array], model: dict[str, Any], tie: float = TIE) -> None:
        self.tensors, self.model, self.tie = tensors, model, tie
        self.cells, self.depth, self.order = model["cells"], model["depth"], planes(model)
        self.kept = tensors["kept"] != 0
        self.codes = [tensors[f"codes_{layer}"] for layer in range(self.depth)]
        self.start = [self._start(layer) for layer in range(self.depth)]
        self._gates: dict[int, float] = {}
        self._targets: dict[tuple[int, int], tuple[Array, Array]] = {}
        self._rotations: dict[tuple[int, bytes], Array] = {}

    def _own(self, layer: int, name: str) -> Array:
        return self.tensors[f"network.blocks.{layer}.{name}"]

    def _linear(self, layer: int, name: str, z: Array) -> Array:
        return linear(self._own(layer, f"{name}.weight"), z.ravel(), self._own(layer, f"{name}.bias"))

    def _start(self, layer: int) -> Array:
        cell, start = self.cells[layer], np.zeros((self.order, self.model["width"]))
        if cell["kind"] == "router":
            start[0, :: cell["places"] or self.model["width"]] = 1
        elif cell["kind"] == "counter":
            start[1] = 1
        elif cell["kind"] in ("rotor", "switch"):
            return unit(self._own(layer, "h0"))
        elif cell["h0"] == "learned":
            return self._own(layer, "h0")
        return start

    def move(self, place: Sequence[int], token: int, after: Sequence[int] | None = None) -> Move:
        """Return the effect of a token in the state with these codes.

        If the codes to which it leads are given, each must be a nearest one, up to rounding.
        """
        z = self.tensors["network.embedding"][token]
        reached, snaps, self._gates = [], [], {}
        for layer, cell in enumerate(self.cells):
            before = self.codes[layer][place[layer]]
            h = getattr(self, f"_{cell['kind']}")(layer, z, before)
            h = h / np.maximum(np.sqrt(((h / 2.0**60) ** 2).sum(axis=0)), 1)
            if cell.get("activation") == "step":
                h = h * sigmoid(h)
            h = np.where(self.kept[layer], h, self.start[layer])
            number, distance = nearest(h, self.codes[layer])
            if after is not None and after[layer] != number:
                number, nearer = after[layer], distance
                distance = nearest(h, self.codes[layer][number][None])[1]
                demand(distance <= nearer + TIE, "a token leads elsewhere")
            reached.append(number)
            snaps.append(distance)
            z = self._output(layer, self.codes[layer][number], z, before)
        return Move(tuple(reached), snaps, self._decode(z), self._gates)

    def _paper(self, layer: int, z: Array, h: Array) -> Array:
        """α h + γ e^{iθ} z, or with e^{iθ} at h."""
        cell, x = self.cells[layer], z
        if cell["rotate"] != "none":
            theta = np.pi * np.tanh(linear(self._own(layer, "angle.weight"), z[0]))
            (a, b), cos, sin = h if cell["rotate"] == "state" else z, np.cos(theta), np.sin(theta)
            turned = np.stack([cos * a - sin * b, sin * a + cos * b])
            h, x = (turned, z) if cell["rotate"] == "state" else (h, turned)
        gamma = np.logaddexp(0, self._linear(layer, "gate", z))  # softplus
        alpha = {"softplus": gamma, "exp": np.exp(-gamma), "unit": 1.0}[cell["decay"]]
        entering = gamma * x
        if layer and cell["coupling_rank"]:
            link = 0 if cell["coupling"] == "shared" else layer - 1
            v, u = (self.tensors[f"network.couplings.{link}.{name}"] for name in "vu")
            entering = entering + linear(u, linear(v.T, z.T)).T
        return alpha * h + entering

    def _rotor(self, layer: int, z: Array, h: Array) -> Array:
        """The state turned, or replaced by z / |z|, as the gate of each channel decides."""
        kept = self._kept_by_gate(layer, z)
        h = np.where(kept, self._turn(layer, z, h), unit(z, 1e-8))
        if f"network.blocks.{layer}.parts" not in self.tensors:
            return h
        start = self.start[layer]
        phase = np.angle((h[0] + 1j * h[1]) * (start[0] - 1j * start[1]))
        whole = np.exp(1j * self._whole(layer, phase)) * (start[0] + 1j * start[1])
        return np.where(self._own(layer, "parts") > 0, np.stack([whole.real, whole.imag]), h)

    def _whole(self, layer: int, angles: Array) -> Array:
        """Return the nearest whole multiples of 2π/k; where k is 0, the angles themselves."""
        parts = self._own(layer, "parts")
        turns = angles * parts / (2 * np.pi)
        used = (0.5 - abs(turns - np.rint(turns)))[..., self.kept[layer] & (parts > 0)]
        demand((used >= self.tie).all(), f"rounding could turn an angle of layer {layer + 1}")
        self._gates[layer] = min(self._gates[layer], float(used.min(initial=np.inf)))
        return np.where(parts > 0, 2 * np.pi * np.rint(turns) / np.maximum(parts, 1), angles)

    def _switch(self, layer: int, z: Array, h: Array) -> Array:
        return np.where(self._kept_by_gate(layer, z), h, unit(self._own(layer, "point")))

    def _kept_by_gate(self, layer: int, z: Array) -> Array:
        delta = self._linear(layer, "gate", z)
        used = np.abs(delta)[self.kept[layer]]
        demand((used >= self.tie).all(), f"rounding could turn a gate of layer {layer + 1}")
        self._gates[layer] = float(used.min(initial=np.inf))
        return delta > 0

    def _counter(self, layer: int, z: Array, h: Array) -> Array:
        """The counts after Re z is added, rounded with halves to even numbers."""
        added = np.rint(z[0])
        sure = np.abs(z[0] - added) <= 0.499
        demand(sure[self.kept[layer]].all(), f"rounding could turn a count of layer {layer + 1}")
        counts = h + np.stack([added, np.zeros_like(added)])
        demand((np.abs(counts) <= 2.0**24).all(), "float32 does not hold its counts exactly")
        return counts

    def _router(self, layer: int, z: Array, h: Array) -> Array:
        """The content of each place moves to where the logit of its column is largest."""
        chosen, lead = best(self._linear(layer, "keys", z))
        demand(lead >= self.tie, f"rounding could choose another map of layer {layer + 1}")
        targets, leads = self._columns(layer, int(chosen))
        held = np.flatnonzero((h != 0).any(axis=0))
        least = leads[held].min(initial=np.inf)
        demand(least >= self.tie, f"rounding could choose another place in layer {layer + 1}")
        self._gates[layer] = float(min(lead, least))
        moved = np.zeros_like(h)
        np.add.at(moved.T, targets[held], h[:, held].T)
        return moved

    def _columns(self, layer: int, chosen: int) -> tuple[Array, Array]:
        """Return the channel to which a map sends each channel, and the lead of that target."""
        if (layer, chosen) not in self._targets:
            maps = self._own(layer, "maps")[chosen]  # (groups, target, source)
            target, lead = best(maps.transpose(0, 2, 1))
            first = np.arange(len(maps))[:, None] * maps.shape[1]
            self._targets[layer, chosen] = (first + target).ravel(), lead.ravel()
        return self._targets[layer, chosen]

    def _turn(self, layer: int, z: Array, h: Array) -> Array:
        """Return the state turned by a rotation of SO(M) for each channel."""
        key = layer, z.tobytes()  # the first layer has one for each token
        if key not in self._rotations:
            angles = self._linear(layer, "angle", z).reshape(-1, self.model["width"])  # (pairs, D)
            if f"network.blocks.{layer}.parts" in self.tensors:
                angles = self._whole(layer, angles)
            skew = np.zeros((angles.shape[1], self.order, self.order))
            rows, columns = np.triu_indices(self.order, 1)
            skew[:, columns, rows], skew[:, rows, columns] = angles.T, -angles.T
            values, vectors = np.linalg.eigh(1j * skew)  # i times a skew matrix is Hermitian
            phases = np.exp(-1j * values)[:, None, :]
            self._rotations[key] = np.real((vectors * phases) @ vectors.conj().transpose(0, 2, 1))
        return np.einsum("dij,jd->id", self._rotations[key], h)

    def _output(self, layer: int, h: Array, z: Array, before: Array) -> Array:
        """Return the output of a layer from its new state, its input and its old state."""
        cell = self.cells[layer]
        if cell.get("activation") == "boundary":
            h = h * sigmoid(h)
        if cell["kind"] in ("counter", "switch") or cell.get("skip"):
            h = h + sigmoid(self._own(layer, "skip")) * z
        if cell.get("recall"):
            h = h + self._own(layer, "recall") * before
        if self._norm(layer) == "complex":
            return unit(h, 1e-8)
        h = h / np.maximum(np.sqrt(((h / 2.0**20) ** 2).sum(axis=0)), 1)
        if self._norm(layer) == "layer":
            flat = h.ravel()
            flat = (flat - flat.mean()) / np.sqrt(flat.var() + 1e-5)
            flat = flat * self._own(layer, "norm.weight") + self._own(layer, "norm.bias")
            return flat.reshape(h.shape)
        return h

    def _norm(self, layer: int) -> str:
        cell = self.cells[layer]
        return "complex" if cell["kind"] == "counter" else cell.get("norm", "none")

    def _decode(self, h: Array) -> Array:
        def own(name: str) -> Array:
            return self.tensors[f"network.decoder.{name}"]

        decoder = self.model["decoder"]
        if decoder == "complex":
            seen = linear(own("linear.weight"), h.T).T  # (2, V)
            return (seen * own("projection")).sum(axis=0) + own("bias")
        features = h.ravel()
        if decoder == "phase":
            nowhere = (h**2).sum(axis=0) < 1e-30
            features = np.arctan2(h[1], np.where(nowhere, 1.0, h[0]))
        elif decoder == "cos_sin" and self._norm(-1) != "complex":
            features = unit(h).ravel()
        return linear(own("linear.weight"), features, own("linear.bias"))
