"""The options of the authors' released model, and their three uploads."""

from dataclasses import dataclass, replace
from typing import Any, Literal

from csprop.errors import InputError
from csprop.tasks import Task
from csprop.training.presets import Recipe


@dataclass(frozen=True, kw_only=True)
class ReleasedConfig:
    """The options in which the authors' three uploads differ from the printed model, the default."""

    vocab_size: int
    num_classes: int
    width: int = 64
    depth: int = 3

    angle: Literal["tanh", "accumulated"] = "tanh"
    """The angle of a step is θ_t, or the sum of all θ so far."""

    projection: Literal["tanh", "affine", "atan2"] = "tanh"
    """θ is π·tanh(W Re z); π·tanh(W [Re z, Im z] + b), where W and b start at 0; or the direction of
    the two numbers tanh(W [Re z, Im z])."""

    input_map: Literal["none", "linear", "affine"] = "none"
    """A real matrix that is applied to the rotated input: none, B x, or B x + b."""

    decay: Literal["softplus", "exp"] = "softplus"
    """α = softplus δ, or e^{−softplus δ}."""

    entrance: Literal["softplus", "sine"] = "softplus"
    """γ = softplus δ, or (1 + sin ε)/2, where ε is a second projection."""

    gate_input: Literal["input", "entering", "state"] = "input"
    """δ and ε are projections of z; of what enters; or δ of z + h_{t−1} and ε of z."""

    recurrence: Literal["sequential", "cumulative"] = "sequential"
    """h_t = α h_{t−1} + γ x, or the sum over all steps of the variant that the authors call Fast."""

    norm: Literal["complex", "root"] = "complex"
    """Divide by |h| + 1e-8, or by √(|h|² + 1e-8)."""

    embedding: Literal["complex", "narrow", "scalar"] = "complex"
    """A complex number for each channel and token; real numbers W e + b from 16 numbers e of each
    token, which are not trained; or tanh(W v + b) from the number v of the token."""

    def __post_init__(self) -> None:
        fits = (self.decay, self.entrance) == ("exp", "sine") and self.gate_input != "state"
        if self.recurrence == "cumulative" and not fits:
            raise InputError(
                "recurrence='cumulative' needs decay='exp', entrance='sine' and "
                "gate_input='input' or 'entering'"
            )


LAST: dict[str, Any] = {
    "width": 32, "angle": "accumulated", "projection": "atan2", "input_map": "linear", "decay": "exp",
    "entrance": "sine", "gate_input": "entering", "norm": "root", "embedding": "narrow",
}  # fmt: skip
UPLOADS: dict[str, dict[str, Any]] = {
    "released": LAST,
    "released-fast": LAST | {"recurrence": "cumulative"},
    "released-first": {
        "projection": "affine", "input_map": "affine", "decay": "exp", "entrance": "sine",
        "gate_input": "state", "norm": "root", "embedding": "scalar",
    },
}  # fmt: skip
"""The authors' last upload, which they call Vanilla; its variant Fast; and their first upload, which
sums no angles and whose decay depends on the state."""


def upload(name: str, task: Task) -> tuple[ReleasedConfig, Recipe]:
    """Return the model of an upload for a task, and the authors' training."""
    sizes: dict[str, Any] = {"vocab_size": len(task.vocab), "num_classes": len(task.classes)}
    recipe = Recipe(length=task.length, samples=10_000, lr=1e-4)
    if name == "released-first":
        recipe = replace(recipe, loss=task.loss, weight_decay=1e-4, schedule="cosine")
    else:
        recipe = replace(recipe, supervise="every", weight_decay=1e-7, schedule="fixed")
    return ReleasedConfig(**sizes, **UPLOADS[name]), recipe
