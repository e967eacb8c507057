"""Options of a model, drawn at random: what is there to draw, and what goes together."""

from typing import Any, get_args, get_type_hints

from csprop.nn.config import ModelOptions

HINTS = get_type_hints(ModelOptions)
SIZES = {
    "width": [6],
    "depth": [1, 2],
    "order": [2, 3],
    "coupling_rank": [0, 2],
    "places": [0, 0, 3],
    "maps": [0, 2],
    "kinds": [(), (), ("rotor", "router"), ("router", "rotor"), ("counter", "switch")],
}


PRINTED: dict[str, Any] = {"input_map": "none", "entrance": "softplus", "gate_input": "input"}
PRINTED |= {"recurrence": "sequential"}
RELEASED: dict[str, Any] = {"kinds": (), "places": 0, "order": 2, "decay": "exp"}
"""Where this is fixed, every part of the authors' code is drawn."""


def choices() -> dict[str, list[Any]]:
    """Every option with its values, read off the configuration; a new one is drawn, or has none."""
    values = {
        name: [True, False] if hint is bool else list(get_args(hint)) for name, hint in HINTS.items()
    }
    return values | SIZES


def sensible(options: dict[str, Any]) -> dict[str, Any]:
    """With what `ModelOptions` refuses replaced, and what is chaotic: there rounding errors grow."""
    changed = dict(options)
    if changed["kinds"]:
        changed |= {"depth": 2, "places": 3, "order": 2, "coupling_rank": 0}
    elif changed["places"]:
        changed |= {"decay": "none", "rotate": "state", "activation": "none", "h0": "place"}
        changed |= {"order": 2, "coupling_rank": 0}
    else:
        changed |= {"maps": 0, "h0": "zero" if changed["h0"] == "place" else changed["h0"]}
        if changed["decay"] == "count":
            changed |= {"rotate": "none", "order": 2, "coupling_rank": 0, "activation": "none"}
            changed["h0"] = "line"
    if changed["decay"] not in ("switch", "reset"):
        changed["enter"] = "input"
    changed |= going_together(changed)
    if changed["order"] > 2:
        changed |= {"rotate": "state", "angle": "free", "decoder": "linear"}
    if changed["depth"] == 1:
        changed["coupling_rank"] = 0
    if not changed["coupling_rank"]:
        changed["coupling"] = "shared"
    if changed["norm"] == "none" and changed["decay"] == "softplus":
        changed["decay"] = "exp"
    return changed


def going_together(options: dict[str, Any]) -> dict[str, Any]:
    """What to change for parts of the authors' code: they are as printed where another recurrence than
    the paper's is drawn; where it is that one, what does not go with them is replaced."""
    other = options["kinds"] or options["places"] or options["order"] > 2
    changed: dict[str, Any] = {}
    if other or options["decay"] == "count":
        changed |= {"embedding": "complex"}
    if other or options["decay"] not in ("softplus", "exp", "unit"):
        changed |= PRINTED | ({"angle": "tanh"} if options["angle"] == "accumulated" else {})
    found = options | changed
    if (
        found["gate_input"] == "state"
    ):  # other decays would grow with the state that they are decided by
        changed |= {"recurrence": "sequential", "decay": "exp"}
    elif found["recurrence"] == "cumulative":
        changed |= {"decay": "exp", "entrance": "sine", "recall": False}
    found = options | changed
    if found["entrance"] == "sine" and found["decay"] == "unit":
        changed |= {"decay": "exp"}
    if found["gate_input"] == "state" or found["recurrence"] == "cumulative":
        changed |= {"coupling_rank": 0}
        changed |= {"activation": "boundary"} if found["activation"] == "step" else {}
        changed |= {"rotate": "input"} if found["rotate"] == "state" else {}
    if found["angle"] == "accumulated":
        changed |= {"rotate": "input"}
    found = options | changed
    if found["angle"] == "free" or found["rotate"] == "none" or found["kinds"] or found["order"] > 2:
        changed |= {"projection": "tanh"}
    return changed
