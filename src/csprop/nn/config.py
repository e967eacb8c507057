"""Every choice that the model offers, and which of them go together."""

from dataclasses import dataclass, replace
from typing import Any, Literal

from csprop.errors import InputError
from csprop.nn.fields import check_fields, check_ranges, check_types

Kind = Literal["rotor", "router", "counter", "switch"]

KINDS: dict[str, dict[str, Any]] = {
    "rotor": {
        "rotate": "state", "rotation": "per_channel", "angle": "free", "decay": "switch",
        "gate": "per_channel", "activation": "none", "norm": "none", "h0": "learned",
        "places": 0, "maps": 0, "enter": "input",
    },
    "router": {
        "rotate": "none", "decay": "none", "activation": "none", "skip": False, "recall": False,
        "norm": "none", "h0": "place", "places": 1, "enter": "input",
    },
    "counter": {
        "rotate": "none", "decay": "count", "activation": "none", "skip": True, "recall": False,
        "norm": "complex", "h0": "line", "places": 0, "maps": 0, "enter": "input",
    },
    "switch": {
        "rotate": "none", "decay": "switch", "gate": "per_channel", "activation": "none", "skip": True,
        "recall": False, "norm": "none", "h0": "learned", "places": 0, "maps": 0, "enter": "point",
    },
}  # fmt: skip
"""What the kind of a layer says about its options; the others are those of the model."""


@dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """The parts of the model, each changed by one option. `CSPConfig` defaults to the printed ones."""

    width: int = 64
    """Complex channels per layer, the paper's d."""

    depth: int = 3
    """Blocks stacked, the paper's L."""

    order: int = 2
    """Real numbers in a channel's state: 2 is the paper's complex number; a longer state is turned by
    rotations of SO(order), which takes rotate="state" and angle="free"."""

    rotate: Literal["input", "state", "none"] = "input"
    """What e^{iθ} multiplies: the input (printed), the state, or nothing, without an angle."""

    rotation: Literal["shared", "per_channel"] = "shared"
    """One angle for all channels of a step (printed), or one for each channel."""

    angle: Literal["tanh", "free", "accumulated"] = "tanh"
    """θ between −π and π, one a step (printed); W [Re z, Im z] + b up to ±1024; or "accumulated": the
    angle of a step is the sum of all θ so far, as in the authors' code."""

    projection: Literal["tanh", "affine", "atan2"] = "tanh"
    """Where θ comes from: π·tanh(W Re z) (printed); π·tanh(W [Re z, Im z] + b), where W and b start at
    0; or the direction of the two numbers tanh(W [Re z, Im z]). Free angles have none of these."""

    input_map: Literal["none", "linear", "affine"] = "none"
    """What is done to the input before it enters the recurrence: nothing (printed), or a real matrix,
    B x or B x + b, the same for both planes."""

    decay: Literal["softplus", "exp", "unit", "reset", "switch", "none", "count"] = "softplus"
    """α = softplus δ (printed), e^{−softplus δ}, or 1, each with γ = softplus δ; or "reset":
    α = σ(δ) and what enters is (1 − α) z/|z|, so a gate keeps the state or replaces it; or "switch":
    the same with α rounded to 0 or 1, and the gradient of σ; or "none": α = 1 and nothing enters; or
    "count": α = 1, and what enters is Re z rounded to a whole number, with the gradient of Re z."""

    enter: Literal["input", "point"] = "input"
    """What replaces a state with decay="reset" or "switch": z/|z|, or a learned point of a channel."""

    gate: Literal["shared", "per_channel"] = "shared"
    """One δ for all channels of a step (printed), or one for each channel."""

    entrance: Literal["softplus", "sine"] = "softplus"
    """γ = softplus δ (printed), or (1 + sin ε)/2 where ε is a second projection beside δ."""

    gate_input: Literal["input", "entering", "state"] = "input"
    """What δ and ε are projections of: z (printed); what enters, rotated and mapped; or δ of
    z + h_{t−1} and ε of z, which is no linear recurrence and goes step by step."""

    recurrence: Literal["sequential", "cumulative"] = "sequential"
    """h_t = α h_{t−1} + γ x (printed), or h_t = α (h_{t−1} + γ x) as the authors' "Fast" has it:
    P_t Σ γ x_s / (P_{s−1} + 1e-9), where P_t is the product of all α so far, with no gradient through
    the divisor nor through the modulus of the norm. There what enters decides on α as γ x."""

    activation: Literal["boundary", "step", "none"] = "boundary"
    """Where SiLU is applied: after the recurrence (printed), inside it at every step, or nowhere."""

    skip: bool = True
    """Add σ(g) ⊙ z to the block's output."""

    recall: bool = False
    """Add b ⊙ h_{t−1} to the block's output, b learned: the next layer sees what a reset forgets."""

    norm: Literal["complex", "root", "layer", "none"] = "complex"
    """Divide by |h| + 1e-8 (printed) or by √(|h|² + 1e-8), LayerNorm over both planes, or neither."""

    h0: Literal["zero", "learned", "place", "line"] = "zero"
    """Where a state starts: 0 (printed), a learned point for each channel, of a router ("place") 1 in
    the first place of every group, or i, so that a counter moves along a line beside 0 ("line")."""

    embedding: Literal["complex", "narrow", "scalar"] = "complex"
    """A complex number a channel for each token (printed); or real numbers W e + b from 16 numbers e of
    each token, which are not trained; or tanh(W v + b) from the number v of the token."""

    decoder: Literal["cos_sin", "phase", "complex", "linear"] = "cos_sin"
    """What the classes are read from, where φ is the phase of the state: [cos φ, sin φ] (printed), φ
    itself, a complex linear map with a real projection, or the state itself."""

    coupling_rank: int = 0
    """Rank of the coupling u vᵀ from each layer's output into the next recurrence; 0 is none."""

    coupling: Literal["shared", "per_layer"] = "shared"
    """One u vᵀ for all layers, or one for each."""

    places: int = 0
    """Places of a router: the channels form groups of this size, and a token sends the content of every
    place to one place of its group. With 0 the channels do not exchange anything; in a layer of the
    kind router, all channels are then one group."""

    maps: int = 0
    """Number of ways in which a router can send its places, of which the input chooses one; 0: one for
    each token."""

    kinds: tuple[Kind, ...] = ()
    """The kind of each layer, one word for each: rotor, router, counter or switch. Without it, all
    layers are as the other options say."""

    def of_layer(self, layer: int) -> "ModelOptions":
        """The options of one layer, first layer 0."""
        if not self.kinds:
            return self
        changes = KINDS[self.kinds[layer]]
        if changes["places"]:  # those of the options, or one group
            changes = changes | {"places": self.places or self.width}
        return replace(self, kinds=(), **changes)

    @property
    def replaces(self) -> bool:
        """Whether a gate keeps the state or replaces it by a point of the unit sphere."""
        return self.decay in ("reset", "switch")

    @property
    def gated(self) -> bool:
        """Whether a gate decides how much of the state is kept."""
        return self.decay not in ("none", "count")

    @property
    def loops(self) -> bool:
        """Whether the recurrence is a loop in Python over time, as SiLU inside of it wants."""
        return self.activation == "step"

    @property
    def summed(self) -> bool:
        """Whether the angle of a step is the sum of all so far; not in layers of a kind."""
        return self.angle == "accumulated" and not self.kinds

    @property
    def released(self) -> bool:
        """Whether a part of the recurrence is that of the authors' code: `Released` does it."""
        return self.summed or bool(self._changed("input_map", "entrance", "gate_input", "recurrence"))

    @property
    def planes(self) -> int:
        """Real numbers of a channel's state: h, then e^{iΘ} of a summed angle, then the product P."""
        if self.kinds:  # no layer of a kind has such parts, whatever angle the others would have
            return self.order
        return self.order + 2 * self.summed + (self.recurrence == "cumulative")

    def _changed(self, *names: str) -> set[str]:
        """Those of the options that are not at their default."""
        # The class has the defaults; torch.compile reads them there, not from the fields.
        return {name for name in names if getattr(self, name) != getattr(ModelOptions, name)}

    @property
    def beyond_kernel(self) -> set[str]:
        """The names of options that have values which the kernel of a block does not know."""
        beyond = {
            "order": self.order > 2,
            "recall": self.recall,
            "activation": self.loops,
            "decay": not self.gated,
            "enter": self.enter == "point",
            "angle": self.summed,
            "norm": self.norm == "root",
        }
        others = self._changed("projection", "input_map", "entrance", "gate_input", "recurrence")
        return others | {name for name, is_beyond in beyond.items() if is_beyond}

    def __post_init__(self) -> None:
        if isinstance(self.kinds, list):  # as JSON has it
            object.__setattr__(self, "kinds", tuple(self.kinds))
        check_types(self)
        check_ranges(
            self, width=(1, 65_536), depth=(1, 1024), order=(2, 16), places=(0, 65_536), maps=(0, 10**6)
        )
        if self.kinds:
            self._check_kinds()
            return
        if self.order > 2 and (self.rotate != "state" or self.angle != "free"):
            raise InputError(
                f"order={self.order} turns the state by free angles: write rotate='state' and "
                "angle='free', or order=2"
            )
        if self.order > 2 and self.decoder in ("phase", "complex"):
            raise InputError(
                f"decoder={self.decoder!r} reads complex numbers: write decoder='linear' or 'cos_sin', "
                "or order=2"
            )
        if not 0 <= self.coupling_rank <= self.width:
            raise InputError(
                f"coupling_rank={self.coupling_rank} does not fit: write 0 (no coupling) "
                f"to {self.width} (the width)"
            )
        if self.coupling_rank and self.depth < 2:
            raise InputError(
                f"coupling_rank={self.coupling_rank} joins neighbouring layers: write depth=2 or more, "
                "or coupling_rank=0"
            )
        if self.coupling == "per_layer" and not self.coupling_rank:
            raise InputError(
                "coupling='per_layer' needs a rank: write coupling_rank=1 or more, or coupling='shared'"
            )
        if self.enter == "point" and not self.replaces:
            raise InputError(
                "enter='point' is what replaces a state: write decay='switch' or 'reset', or "
                "enter='input'"
            )
        if self.decay == "count":
            self._check_only(
                "decay='count'", "a counter only adds whole numbers", "another `decay`",
                order=(2,), rotate=("none",), coupling_rank=(0,), activation=("none", "boundary"),
                h0=("line", "zero"),
            )  # fmt: skip
        self._check_released()
        self._check_places()

    def _check_released(self) -> None:
        if self.projection != "tanh" and (self.angle == "free" or self.rotate == "none"):
            raise InputError(
                f"projection={self.projection!r} is that of a bounded angle: write rotate='input' or "
                "'state' and angle='tanh' or 'accumulated', or projection='tanh'"
            )
        if self.embedding != "complex":
            self._check_only(
                f"embedding={self.embedding!r}", "its imaginary plane is 0, the real one is trained",
                "embedding='complex'", order=(2,), places=(0,),
                decay=("softplus", "exp", "unit", "reset", "switch", "none"),
            )  # fmt: skip
        plain: dict[str, tuple[Any, ...]] = {
            "order": (2,), "places": (0,), "decay": ("softplus", "exp", "unit"), "enter": ("input",),
        }  # fmt: skip
        for name in sorted(self._changed("input_map", "entrance", "gate_input")):
            why, needed = "it is a part of the paper's recurrence", plain
            if name == "entrance":
                needed = plain | {"decay": ("softplus", "exp")}
                why = "nothing would be left for δ to decide" if self.decay == "unit" else why
            instead = f"{name}={getattr(ModelOptions, name)!r}"
            self._check_only(f"{name}={getattr(self, name)!r}", why, instead, **needed)
        whole = {"rotate": ("input", "none"), "activation": ("boundary", "none"), "coupling_rank": (0,)}
        if self.gate_input == "state":
            why = "every step waits for the one before"
            self._check_only("gate_input='state'", why, "another `gate_input`", **whole)
        if self.recurrence == "cumulative":
            self._check_only(
                "recurrence='cumulative'", "it is a sum over all steps", "recurrence='sequential'",
                **plain | whole | {"decay": ("exp",), "entrance": ("sine",), "recall": (False,)},
                gate_input=("input", "entering"),
            )  # fmt: skip
        if self.summed:
            self._check_only(
                "angle='accumulated'", "it is the input that a summed angle turns", "angle='tanh'",
                **plain | {"rotate": ("input",)},
            )  # fmt: skip

    def _check_only(self, choice: str, why: str, instead: str, **needed: tuple[Any, ...]) -> None:
        """Reject an option that does not go with a choice."""
        for name, values in needed.items():
            if getattr(self, name) not in values:
                raise InputError(
                    f"{name}={getattr(self, name)!r} does not go with {choice}: {why}; write "
                    f"{name}={' or '.join(map(repr, values))}, or {instead}"
                )

    def _check_kinds(self) -> None:
        if len(self.kinds) != self.depth:
            raise InputError(
                f"`kinds` names {len(self.kinds)} layers, but depth={self.depth}: write one kind for "
                "each layer"
            )
        for layer in range(self.depth):
            try:
                self.of_layer(layer)
            except InputError as error:
                raise InputError(f"layer {layer + 1}, a {self.kinds[layer]}: {error}") from None

    def _check_places(self) -> None:
        if not self.places:
            if self.h0 == "place":
                raise InputError("h0='place' is where a router starts: write `places`, or another `h0`")
            if self.maps:
                raise InputError(f"maps={self.maps} are those of a router: write `places`, or maps=0")
            return
        if self.width % self.places:
            raise InputError(
                f"places={self.places} does not divide the channels into groups: write a divisor of "
                f"width={self.width}"
            )
        self._check_only(
            f"places={self.places}", "a router only moves and turns what it holds", "places=0",
            order=(2,), decay=("none",), rotate=("none", "state"), coupling_rank=(0,),
            activation=("none", "boundary"), h0=("place", "learned"),
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class CSPConfig(ModelOptions):
    """A whole model: the options, and what goes in and comes out."""

    vocab_size: int
    """How many different tokens there are."""

    num_classes: int
    """How many answers there are."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_ranges(self, vocab_size=(1, 10**6), num_classes=(2, 10**6))

    @property
    def least_weights(self) -> int:
        """Numbers that a model has at least: a file with fewer is none of it, however wide it says."""
        layers = sum(self._least_of(self.of_layer(layer)) for layer in range(self.depth))
        rows = self.vocab_size * self.order if self.embedding == "complex" else 1
        return self.width * (rows + self.num_classes + layers)

    def _least_of(self, options: ModelOptions) -> int:
        """Those of a layer, by channel."""
        gates = self.width if options.gate == "per_channel" else 1
        turns = self.width if options.rotation == "per_channel" else 1
        angles = 0 if options.rotate == "none" else turns * self.order * (self.order - 1) // 2
        if options.places:
            return angles + (options.maps or self.vocab_size) * (options.places + self.order)
        return angles + (gates * self.order if options.gated else 0)

    def as_rotor(self, width: int) -> "CSPConfig":
        """The layer of rotors that a model with summed angles is locked as: see exact/frames.py."""
        sizes = {"vocab_size": self.vocab_size, "num_classes": self.num_classes, "width": width}
        return CSPConfig(**sizes, depth=1, skip=False, decoder="linear", **KINDS["rotor"])

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "CSPConfig":
        """The inverse of `dataclasses.asdict`; an option that was added later may be missing."""
        check_fields(cls, values, FIRST_OPTIONS)
        return cls(**values)


FIRST_OPTIONS = frozenset(
    [
        "width",
        "depth",
        "order",
        "rotate",
        "rotation",
        "angle",
        "decay",
        "gate",
        "activation",
        "skip",
        "recall",
        "norm",
        "h0",
        "decoder",
        "coupling_rank",
        "coupling",
        "vocab_size",
        "num_classes",
    ]
)
"""Those that every saved configuration has. An option that is added later stays out of this set."""
