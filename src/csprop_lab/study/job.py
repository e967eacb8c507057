"""A job: one run of the study, and everything that its numbers depend on."""

import json
from dataclasses import MISSING, asdict, dataclass, fields, replace
from functools import cached_property
from typing import Any, Self

from csprop import CSPConfig
from csprop.files import digest
from csprop.tasks import Task
from csprop.training.config import configure
from csprop.training.presets import Recipe
from csprop_lab.layers.basic import PeerConfig
from csprop_lab.layers.frame import FrameConfig
from csprop_lab.released.config import ReleasedConfig
from csprop_lab.signals.networks import NetworkKind
from csprop_lab.signals.sequences import DataName


@dataclass(frozen=True, kw_only=True)
class LearnConfig:
    """`csprop learn`, which has no options here."""


MODELS: dict[str, type] = {
    "peer": PeerConfig, "frame": FrameConfig, "released": ReleasedConfig, "learn": LearnConfig,
}  # fmt: skip
"""By family, the class of a model's options; the family csp has `CSPConfig`."""


@dataclass(frozen=True, kw_only=True)
class Keyed:
    """A job of any kind."""

    seed: int
    family: str

    @cached_property
    def key(self) -> str:
        """A hash of the job, by which its row is recognised."""
        return key_of(asdict(self))

    @cached_property
    def group(self) -> str:
        """Equal for jobs that are measured together: those that differ only in their seed."""
        return replace(self, seed=0).key

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Self:
        """Return the job of a row in results/."""
        return cls(**values)


@dataclass(frozen=True, kw_only=True)
class Job(Keyed):
    """A model, its training, and what is measured besides the held-out accuracy.

    The family is "csp", or one of `MODELS`.
    """

    task: str
    model: dict[str, Any]
    """All of its options."""
    recipe: Recipe
    test_lengths: tuple[int, ...] = ()
    """Lengths at which to measure the accuracy."""
    every_input: bool = False
    """Try all inputs of the trained length."""
    lock: bool = False
    """Lock the model and prove it."""
    positions: bool = False
    """The accuracy at a length is over the answers after all tokens, not the last alone."""
    test_tasks: tuple[str, ...] = ()
    """Tasks of the same tokens on which the accuracy at the last of the lengths is measured, too."""
    follow: float = 0.0
    """A length is tested only if the accuracy at the one before it is at least this."""

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Self:
        read: dict[str, Any] = {"recipe": Recipe(**values["recipe"])}
        for name in ("test_lengths", "test_tasks"):
            read[name] = tuple(values.get(name, ()))
        return cls(**values | read)


@dataclass(frozen=True, kw_only=True)
class FileJob(Keyed):
    """A method that learns from the labelled rows of a language, as from a user's file."""

    language: str
    """Its name in languages.py."""
    rows: int
    wrong: float
    """The share of wrong labels."""
    method: str
    """As in learners.py."""
    options: dict[str, Any]
    """The options of the method."""
    family: str = "file"

    @cached_property
    def group(self) -> str:
        """Equal for all methods on the same rows: some take as long as another one did."""
        return replace(self, method="", options={}).key


@dataclass(frozen=True, kw_only=True)
class LayerJob(Keyed):
    """A network around one layer of features, trained on sequences of signals/sequences.py."""

    data: DataName
    kind: NetworkKind
    features: int
    width: int
    """Complex channels of csprop's layer; 0 for the others."""
    lr: float
    steps: int
    batch_size: int
    family: str = "layer"


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


MEASURED = tuple(field.name for field in fields(Job) if field.default is not MISSING)
"""The options of a job that are not options of csprop's model or of its training."""


def csp(task: str, preset: str, seed: int, **options: Any) -> Job:
    """Return a job of csprop's model: a preset with some options changed."""
    measured = {name: options.pop(name) for name in MEASURED if name in options}
    config = configure(task, preset, seed, **options)
    model, recipe = config.model.to_json(), config.recipe
    return Job(task=task, family="csp", model=model, recipe=recipe, seed=seed, **measured)


def sizes_of(task: Task) -> dict[str, Any]:
    """Return the numbers of tokens and of classes, for a model's options."""
    return {"vocab_size": len(task.vocab), "num_classes": len(task.classes)}


def network(task: str, config: Any, recipe: Recipe, seed: int, **measured: Any) -> Job:
    """Return a job of a model that is not csprop's, with one of the classes in `MODELS`."""
    (family,) = (name for name, cls in MODELS.items() if type(config) is cls)
    return Job(task=task, family=family, model=asdict(config), recipe=recipe, seed=seed, **measured)
