"""A job: one run of the study, and everything that its numbers depend on."""

import json
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from typing import Any

from csprop.files import digest
from csprop.nn.config import CSPConfig
from csprop.tasks import get
from csprop.training.config import configure
from csprop.training.presets import Recipe
from csprop_lab.layers.frame import FrameConfig
from csprop_lab.layers.plain import PeerConfig
from csprop_lab.signals.networks import NetworkKind
from csprop_lab.signals.sequences import DataName

MODELS: dict[str, type] = {"peer": PeerConfig, "frame": FrameConfig}
"""By family, the class of a model's options; the family csp has `CSPConfig`."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """A model, how it is trained, and what is measured besides the held-out accuracy."""

    task: str
    family: str
    """"csp", "peer" for a model of nn/peers/plain.py, or "frame" for a layer in nn/peers/frame.py."""
    model: dict[str, Any]
    """All of its options."""
    recipe: Recipe
    seed: int
    test_lengths: tuple[int, ...] = ()
    """Lengths at which to measure the accuracy."""
    every_input: bool = False
    """Whether to try all inputs of the trained length."""
    lock: bool = False
    """Whether to lock the model and prove it."""
    positions: bool = False
    """Whether the accuracy at a length is over the answers after all tokens, not the last alone."""
    test_tasks: tuple[str, ...] = ()
    """Tasks of the same tokens on which the accuracy at the last of the lengths is measured, too."""
    follow: float = 0.0
    """A length is tested only if the accuracy at the one before it is at least this."""

    @cached_property
    def key(self) -> str:
        """The hash of all of the above, by which a row is recognised as that of this job."""
        return key_of(asdict(self))

    @cached_property
    def group(self) -> str:
        """Equal for jobs that differ only in their seed, which can be trained together."""
        return replace(self, seed=0).key

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "Job":
        """A job from a row in results/."""
        read: dict[str, Any] = {"recipe": Recipe(**values["recipe"])}
        for name in ("test_lengths", "test_tasks"):
            read[name] = tuple(values.get(name, ()))
        return cls(**values | read)


@dataclass(frozen=True, kw_only=True)
class FileJob:
    """A method that learns from the labelled rows of a language, as from a user's file."""

    language: str
    """Its name in languages.py."""
    rows: int
    wrong: float
    """The share of wrong labels."""
    method: str
    """As in learners.py."""
    options: dict[str, Any]
    """What else the method depends on."""
    seed: int
    family: str = "file"

    @cached_property
    def key(self) -> str:
        """As that of a `Job`."""
        return key_of(asdict(self))

    @cached_property
    def group(self) -> str:
        """Equal for all methods on the same rows, of which some take as long as another one did."""
        return replace(self, method="", options={}).key

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "FileJob":
        """A job from a row in results/."""
        return cls(**values)


@dataclass(frozen=True, kw_only=True)
class LayerJob:
    """A network around one layer of features, trained on sequences of training/sequences.py."""

    data: DataName
    kind: NetworkKind
    features: int
    width: int
    """Complex channels of csprop's layer; 0 for the others."""
    lr: float
    steps: int
    batch_size: int
    seed: int
    family: str = "layer"

    @cached_property
    def key(self) -> str:
        """As that of a `Job`."""
        return key_of(asdict(self))

    @cached_property
    def group(self) -> str:
        """As that of a `Job`."""
        return replace(self, seed=0).key

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "LayerJob":
        """A job from a row in results/."""
        return cls(**values)


AnyJob = Job | FileJob | LayerJob


def key_of(job: dict[str, Any]) -> str:
    """Return the key of a job as JSON has it: a hash of what differs from the defaults.

    So a field or an option can be added at any time, and all stored rows stay valid.
    """
    if job["family"] == "file":
        return _digest(_changes(job, FileJob))
    if job["family"] == "layer":
        return _digest(_changes(job, LayerJob))
    if job["family"] == "csp":
        model = CSPConfig.from_json(job["model"]).to_digest()
    else:
        model = _changes(job["model"], MODELS[job["family"]])
    return _digest(_changes(job, Job) | {"model": model, "recipe": _changes(job["recipe"], Recipe)})


def _changes(values: dict[str, Any], cls: type) -> dict[str, Any]:
    """Return the values that differ from the defaults of a class, as JSON has both."""
    defaults = {field.name: json.dumps(field.default, default=repr) for field in fields(cls)}
    return {
        name: value
        for name, value in values.items()
        if json.dumps(value, default=repr) != defaults.get(name)
    }


def _digest(essence: dict[str, Any]) -> str:
    return digest(json.dumps(essence, sort_keys=True).encode())[:16]


def csp(
    task: str,
    preset: str,
    seed: int,
    *,
    test_lengths: tuple[int, ...] = (),
    every_input: bool = False,
    lock: bool = False,
    positions: bool = False,
    test_tasks: tuple[str, ...] = (),
    **changes: Any,
) -> Job:
    """A job of csprop's model: a preset with some options of CSPConfig or Recipe changed.

    Raises:
        InputError: there is no such task, preset or option.
    """
    config = configure(task, preset, seed, **changes)
    return Job(
        task=task,
        family="csp",
        model=config.model.to_json(),
        recipe=config.recipe,
        seed=seed,
        test_lengths=test_lengths,
        every_input=every_input,
        lock=lock,
        positions=positions,
        test_tasks=test_tasks,
    )


def peer(
    task: str,
    kind: Any,
    seed: int,
    recipe: Recipe,
    test_lengths: tuple[int, ...] = (),
    *,
    depth: int = 2,
    positions: bool = False,
) -> Job:
    """A job of one of the other models, of width 32."""
    known = get(task)
    config = PeerConfig(
        kind=kind, vocab_size=len(known.vocab), num_classes=len(known.classes), width=32, depth=depth
    )
    return Job(
        task=task,
        family="peer",
        model=asdict(config),
        recipe=recipe,
        seed=seed,
        test_lengths=test_lengths,
        positions=positions,
    )
