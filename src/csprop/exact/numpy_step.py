"""One step of a locked model in NumPy and float64, for the checker. Nothing of csprop.nn is used."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray


class Rejected(Exception):
    """What is wrong with a certificate."""


def demand(condition: bool, complaint: str) -> None:
    if not condition:
        raise Rejected(complaint)


def check_weights(stored: dict[str, Array], options: dict[str, Any], counts: bool) -> None:
    """That the tensors are those of a model with these options, and no others: NumPy would stretch one
    that is too small. A model that counts has no codes."""
    for name, value in stored.items():
        kind = np.bool_ if name == "kept" else np.float32
        demand(value.dtype == kind, "its weights are not in float32")
    shapes = {name: value.shape for name, value in stored.items()}
    codes = [] if counts else [shapes.pop(f"codes_{layer}") for layer in range(options["depth"])]
    state = (options["order"], options["width"])
    fits = all(len(each) == 3 and each[0] > 0 and each[1:] == state for each in codes)
    due = shapes_of(options)
    if counts:
        del due["kept"]
    demand(fits and shapes == due, "its weights are not those of such a model")


ROTOR = {
    "rotate": "state", "rotation": "per_channel", "angle": "free", "decay": "switch",
    "gate": "per_channel", "activation": "none", "norm": "none", "h0": "learned",
    "places": 0, "maps": 0, "enter": "input",
}  # fmt: skip
ROUTER = {
    "rotate": "none", "decay": "none", "activation": "none", "skip": False, "recall": False,
    "norm": "none", "h0": "place", "enter": "input",
}  # fmt: skip
COUNTER = {
    "rotate": "none", "decay": "count", "activation": "none", "skip": True, "recall": False,
    "norm": "complex", "h0": "line", "places": 0, "maps": 0, "enter": "input",
}  # fmt: skip
SWITCH = {
    "rotate": "none", "decay": "switch", "gate": "per_channel", "activation": "none", "skip": True,
    "recall": False, "norm": "none", "h0": "learned", "places": 0, "maps": 0, "enter": "point",
}  # fmt: skip


def _of_layer(options: dict[str, Any], layer: int) -> dict[str, Any]:
    """The options of a layer: its kind decides some of them."""
    kinds = options.get("kinds")
    if not kinds:
        return {"places": 0, "maps": 0, "enter": "input"} | options
    router = ROUTER | {"places": options["places"] or options["width"]}
    known = {"rotor": ROTOR, "router": router, "counter": COUNTER, "switch": SWITCH}
    return options | known[kinds[layer]]


def shapes_of(options: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    """Of every tensor but the codes, by its name."""
    order, width, classes = options["order"], options["width"], options["num_classes"]
    features = width if options["decoder"] in ("complex", "phase") else order * width
    decoder = {"linear.weight": (classes, features), "linear.bias": (classes,)}
    if options["decoder"] == "complex":
        decoder = {"linear.weight": (classes, features), "projection": (2, classes), "bias": (classes,)}
    links, rank = options["depth"] - 1, options["coupling_rank"]
    links = 0 if rank == 0 else 1 if options["coupling"] == "shared" else links
    pairs = [(link, name) for link in range(links) for name in "uv"]
    return {
        "kept": (options["depth"], width),
        "network.embedding": (options["vocab_size"], order, width),
        **{f"network.couplings.{link}.{name}": (width, rank) for link, name in pairs},
        **{f"network.decoder.{name}": shape for name, shape in decoder.items()},
        **{
            f"network.blocks.{layer}.{name}": shape
            for layer in range(options["depth"])
            for name, shape in _block_shapes(_of_layer(options, layer)).items()
        },
    }


def _block_shapes(options: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    order, width, places = options["order"], options["width"], options["places"]
    whole, gates = order * width, width if options["gate"] == "per_channel" else 1
    turns = width if options["rotation"] == "per_channel" else 1
    block: dict[str, tuple[int, ...]] = {}
    if options["decay"] not in ("none", "count"):
        block |= {"gate.weight": (gates, whole), "gate.bias": (gates,)}
    if places:
        maps = options["maps"] or options["vocab_size"]
        block |= {"maps": (maps, width // places, places, places)}
        block |= {"keys.weight": (maps, whole), "keys.bias": (maps,)}
    if options["rotate"] != "none" and options["angle"] == "tanh":
        block["angle.weight"] = (turns, width)
    elif options["rotate"] != "none":
        angles = turns * order * (order - 1) // 2
        block |= {"angle.weight": (angles, whole), "angle.bias": (angles,)}
    block |= {name: (width,) for name in ("skip", "recall") if options[name]}
    block |= {"h0": (order, width)} if options["h0"] == "learned" else {}
    block |= {"point": (order, width)} if options["enter"] == "point" else {}
    if options["norm"] == "layer":
        block |= {"norm.weight": (whole,), "norm.bias": (whole,)}
    return block


def nearest(h: Array, codes: Array) -> tuple[int, float]:
    apart = np.sqrt(((h - codes) ** 2).sum(axis=1).max(axis=1))  # (S,)
    demand(bool(np.isfinite(apart).all()), "a state is not a finite number")
    return int(apart.argmin()), float(apart.min())


def _linear(weight: Array, x: Array, bias: Array | float = 0.0) -> Array:
    """Computed here in float64, in use in float32: large terms that cancel would not agree."""
    largest = np.max(np.abs(weight) @ np.abs(x) + np.abs(bias))
    demand(bool(largest * 2.0**-23 < 1e-4), "weights are so large that float32 cannot be relied on")
    return weight @ x + bias


def _first(scores: Array, what: str) -> tuple[int, float]:
    """The largest of some scores, with no other near it, and its lead over the next."""
    best = int(scores.argmax())
    lead = float(scores[best] - np.delete(scores, best).max(initial=-np.inf))
    demand(lead >= 0.99e-3, f"rounding could choose another {what}")
    return best, lead


def _sigmoid(x: Array) -> Array:
    return 0.5 * (1 + np.tanh(x / 2))


def _softplus(x: Array) -> Array:
    return np.logaddexp(0, x)


def _unit(h: Array, epsilon: float) -> Array:
    return h / (np.sqrt((h**2).sum(axis=0) + 1e-30) + epsilon)


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
    """One step of the model, as docs/paper.md has the equations; a state is (M, D), no batch."""

    def __init__(self, tensors: dict[str, Array], config: dict[str, Any]) -> None:
        self.tensors, self.options = tensors, config
        self.depth, self.order = config["depth"], config["order"]
        self.layers = [_of_layer(config, layer) for layer in range(self.depth)]
        self.kept = tensors["kept"] != 0
        self.codes = [tensors[f"codes_{layer}"] for layer in range(self.depth)]
        self.start = [self._start(layer) for layer in range(self.depth)]
        self.gates: dict[int, float] = {}

    def _start(self, layer: int) -> Array:
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
        z = self.tensors["network.embedding"][token]  # (M, D)
        where, near = [], []
        self.gates = {}
        for layer in range(self.depth):
            before = self.codes[layer][place[layer]]
            step = self._route if self.layers[layer]["places"] else self._recur
            h = step(layer, z, before)
            h = np.where(self.kept[layer], h, self.start[layer])
            number, distance = nearest(h, self.codes[layer])
            where.append(number)
            near.append(distance)
            z = self._finish(layer, self.codes[layer][number], z, before)
        return Move(where, near, self._decode(z), self.gates)

    def _route(self, layer: int, z: Array, h: Array) -> Array:
        """What is in a place turns, and moves to where the logit of its column is largest."""
        own = self._own(layer)
        scores = _linear(own("keys.weight"), z.ravel(), own("keys.bias"))
        chosen, lead = _first(scores, f"map of layer {layer + 1}")
        leads = [lead]
        h = self._turn(layer, z)(h) if self.layers[layer]["rotate"] == "state" else h
        moved, places = np.zeros_like(h), self.layers[layer]["places"]
        for channel in np.flatnonzero((h != 0).any(axis=0)):
            group, source = divmod(channel, places)
            logits = own("maps")[chosen, group, :, source]
            target, lead = _first(logits, f"place in layer {layer + 1}")
            moved[:, group * places + target] += h[:, channel]
            leads.append(lead)
        self.gates[layer] = min(leads)
        return moved

    def _recur(self, layer: int, z: Array, h: Array) -> Array:
        options, own = self.layers[layer], self._own(layer)
        delta = np.zeros(1)
        if options["decay"] not in ("none", "count"):
            delta = _linear(own("gate.weight"), z.ravel(), own("gate.bias"))
        replacing = _unit(own("point"), 0.0) if options["enter"] == "point" else _unit(z, 1e-8)
        if options["decay"] == "none":
            alpha, gamma, entering = np.ones(1), np.zeros(1), z
        elif options["decay"] == "count":
            alpha, gamma, entering = np.ones(1), np.ones(1), self._whole(layer, z)
        elif options["decay"] == "switch":
            used = np.broadcast_to(np.abs(delta), self.kept[layer].shape)[self.kept[layer]]
            demand(bool((used >= 0.99e-3).all()), f"rounding could turn a gate of layer {layer + 1}")
            self.gates[layer] = float(used.min(initial=np.inf))
            alpha, gamma, entering = delta > 0, delta <= 0, replacing
        elif options["decay"] == "reset":
            alpha, gamma, entering = _sigmoid(delta), _sigmoid(-delta), replacing
        else:
            gamma, entering = _softplus(delta), z
            alpha = {"softplus": gamma, "exp": np.exp(-gamma), "unit": np.ones_like(gamma)}[
                options["decay"]
            ]
        turned = self._turn(layer, z)
        u = gamma * (turned(entering) if options["rotate"] == "input" else entering)
        if layer and options["coupling_rank"]:
            link = 0 if options["coupling"] == "shared" else layer - 1
            factors = [self.tensors[f"network.couplings.{link}.{name}"] for name in "vu"]
            u = u + z @ factors[0] @ factors[1].T
        h = alpha * (turned(h) if options["rotate"] == "state" else h) + u
        if options["decay"] == "count":
            demand(bool((np.abs(h) <= 2.0**24).all()), "float32 does not hold its counts exactly")
        h = h / np.maximum(np.sqrt(((h / 2.0**60) ** 2).sum(axis=0)), 1)
        return h * _sigmoid(h) if options["activation"] == "step" else h

    def _whole(self, layer: int, z: Array) -> Array:
        """What a counter adds: Re z rounded, halves to even numbers."""
        added = np.rint(z[0])
        sure = np.abs(z[0] - added) <= 0.499
        demand(bool(sure[self.kept[layer]].all()), f"rounding could turn a count of layer {layer + 1}")
        return np.stack([added, np.zeros_like(added)])

    def _turn(self, layer: int, z: Array) -> Callable[[Array], Array]:
        """The rotation of this step, as a function of (M, D)."""
        options, own = self.layers[layer], self._own(layer)
        if options["rotate"] == "none":
            return lambda h: h
        if options["angle"] == "tanh":
            angles = np.pi * np.tanh(_linear(own("angle.weight"), z[0]))[None]
        else:
            angles = _linear(own("angle.weight"), z.ravel(), own("angle.bias"))
            angles = angles.reshape(self.order * (self.order - 1) // 2, -1)
        skew = np.zeros((angles.shape[1], self.order, self.order))
        rows, columns = np.triu_indices(self.order, 1)
        skew[:, columns, rows], skew[:, rows, columns] = angles.T, -angles.T
        values, vectors = np.linalg.eigh(1j * skew)  # i times a skew matrix is Hermitian
        phases = np.exp(-1j * values)[:, None, :]
        matrices = np.real((vectors * phases) @ vectors.conj().transpose(0, 2, 1))
        matrices = np.broadcast_to(matrices, (options["width"], self.order, self.order))
        return lambda h: np.einsum("dij,jd->id", matrices, h)

    def _finish(self, layer: int, h: Array, z: Array, before: Array) -> Array:
        options, own = self.layers[layer], self._own(layer)
        if options["activation"] == "boundary":
            h = h * _sigmoid(h)
        if options["skip"]:
            h = h + _sigmoid(own("skip")) * z
        if options["recall"]:
            h = h + own("recall") * before
        if options["norm"] == "complex":
            return _unit(h, 1e-8)
        h = h / np.maximum(np.sqrt(((h / 2.0**20) ** 2).sum(axis=0)), 1)
        if options["norm"] == "layer":
            flat = h.ravel()
            flat = (flat - flat.mean()) / np.sqrt(flat.var() + 1e-5)
            h = (flat * own("norm.weight") + own("norm.bias")).reshape(h.shape)
        return h

    def _decode(self, h: Array) -> Array:
        own = self._own("decoder")
        if self.options["decoder"] == "complex":
            seen = h @ own("linear.weight").T  # (2, V)
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
