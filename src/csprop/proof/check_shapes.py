"""The tensors that a locked model must have, for the checker. Nothing of csprop.nn is used."""

from typing import Any

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
    state = (planes(options), options["width"])
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


LATER = {
    "order": 2, "skip": False, "recall": False, "coupling_rank": 0, "coupling": "shared",
    "gate": "shared", "rotation": "shared", "angle": "tanh", "places": 0, "maps": 0, "enter": "input",
    "projection": "tanh", "input_map": "none", "entrance": "softplus", "gate_input": "input",
    "recurrence": "sequential",
    "embedding": "complex",
}  # fmt: skip
PAPER = {
    "rotate": "input", "decay": "softplus", "activation": "boundary", "skip": True, "norm": "complex",
    "h0": "zero",
}  # fmt: skip


def of_layer(options: dict[str, Any], layer: int) -> dict[str, Any]:
    """The options of a layer, with those that its kind decides."""
    cell = dict(options["cells"][layer])
    kind = cell.pop("kind")
    sizes = {name: options[name] for name in ("width", "depth", "vocab_size", "num_classes", "decoder")}
    router = ROUTER | {"places": cell.get("places") or options["width"]}
    known = {"rotor": ROTOR | {"skip": True}, "router": ROUTER, "counter": COUNTER, "switch": SWITCH}
    flat = LATER | sizes | (known | {"paper": PAPER})[kind] | cell
    return flat | router if kind == "router" else flat


def planes(options: dict[str, Any]) -> int:
    """Of a state."""
    return of_layer(options, 0)["order"]


def shapes_of(options: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    """Of every tensor but the codes, by its name."""
    order, width, classes = planes(options), options["width"], options["num_classes"]
    features = width if options["decoder"] in ("complex", "phase") else order * width
    decoder = {"linear.weight": (classes, features), "linear.bias": (classes,)}
    if options["decoder"] == "complex":
        decoder = {"linear.weight": (classes, features), "projection": (2, classes), "bias": (classes,)}
    first = of_layer(options, 0)
    links, rank = options["depth"] - 1, first["coupling_rank"]
    links = 0 if rank == 0 else 1 if first["coupling"] == "shared" else links
    pairs = [(link, name) for link in range(links) for name in "uv"]
    return {
        "kept": (options["depth"], width),
        **_embedding_shapes(first),
        **{f"network.couplings.{link}.{name}": (width, rank) for link, name in pairs},
        **{f"network.decoder.{name}": shape for name, shape in decoder.items()},
        **{
            f"network.blocks.{layer}.{name}": shape
            for layer in range(options["depth"])
            for name, shape in _block_shapes(of_layer(options, layer)).items()
        },
    }


def _embedding_shapes(options: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    kind, tokens, width = options["embedding"], options["vocab_size"], options["width"]
    if kind == "complex":
        return {"network.embedding": (tokens, options["order"], width)}
    numbers = 16 if kind == "narrow" else 1
    widen = {"network.widen.weight": (width, numbers), "network.widen.bias": (width,)}
    return {"network.embedding": (tokens, numbers), **widen}


def _angle_shapes(options: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    order, width, projection = options["order"], options["width"], options["projection"]
    turns = width if options["rotation"] == "per_channel" else 1
    if options["rotate"] == "none":
        return {}
    if options["angle"] == "free":
        angles = turns * order * (order - 1) // 2
        return {"angle.weight": (angles, order * width), "angle.bias": (angles,)}
    if projection == "affine":
        return {"angle.weight": (turns, order * width), "angle.bias": (turns,)}
    return {"angle.weight": (2 * turns, order * width) if projection == "atan2" else (turns, width)}


def _block_shapes(options: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    order, width, places = options["order"], options["width"], options["places"]
    whole, gates = order * width, width if options["gate"] == "per_channel" else 1
    block = _angle_shapes(options)
    if options["decay"] not in ("none", "count"):
        block |= {"gate.weight": (gates, whole), "gate.bias": (gates,)}
    if places:
        maps = options["maps"] or options["vocab_size"]
        block |= {"maps": (maps, width // places, places, places)}
        block |= {"keys.weight": (maps, whole), "keys.bias": (maps,)}
    block |= {"map.weight": (width, width)} if options["input_map"] != "none" else {}
    block |= {"map.bias": (width,)} if options["input_map"] == "affine" else {}
    if options["entrance"] == "sine":
        block |= {"entrance.weight": (gates, whole), "entrance.bias": (gates,)}
    block |= {name: (width,) for name in ("skip", "recall") if options[name]}
    block |= {"h0": (order, width)} if options["h0"] == "learned" else {}
    block |= {"point": (order, width)} if options["enter"] == "point" else {}
    if options["norm"] == "layer":
        block |= {"norm.weight": (whole,), "norm.bias": (whole,)}
    return block
