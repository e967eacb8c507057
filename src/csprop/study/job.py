"""A job: one run of the study, and everything that its numbers depend on."""

import json
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

from csprop.files import digest
from csprop.nn.config import FIRST_OPTIONS, CSPConfig, essential
from csprop.nn.peers import PeerConfig
from csprop.tasks import get
from csprop.training.config import configure
from csprop.training.presets import FIRST_RECIPE, Recipe

FIRST_FIELDS = frozenset(
    ("task", "family", "model", "recipe", "seed", "test_lengths", "every_input", "lock")
)
"""As `FIRST_OPTIONS` of the model, of a job itself."""
FIRST_PEER_OPTIONS = frozenset(("kind", "vocab_size", "num_classes", "width", "depth"))
MODELS = {"csp": (CSPConfig, FIRST_OPTIONS), "peer": (PeerConfig, FIRST_PEER_OPTIONS)}
"""What a family's options are."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """A model, how it is trained, and what is measured of it beside the held-out accuracy."""

    task: str
    family: str
    """"csp", or "peer" for a model of nn/peers.py."""
    model: dict[str, Any]
    """All of its options."""
    recipe: Recipe
    seed: int
    test_lengths: tuple[int, ...] = ()
    """Where to measure the accuracy beyond the trained length."""
    every_input: bool = False
    """Whether to try all inputs of the trained length."""
    lock: bool = False
    """Whether to lock it and prove it."""

    @cached_property
    def key(self) -> str:
        """The hash of all of the above: a row of another key is a row of something else."""
        return key_of(asdict(self))

    @cached_property
    def group(self) -> str:
        """The same for jobs that differ in their seed alone and can be trained together."""
        return replace(self, seed=0).key

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "Job":
        recipe, tested = Recipe(**values["recipe"]), tuple(values["test_lengths"])
        return cls(**values | {"recipe": recipe, "test_lengths": tested})


def key_of(job: dict[str, Any]) -> str:
    """Of a job as JSON has it, also one that this code no longer asks for.

    A field or an option that was added after the first rows counts only where it is not at its default:
    a row stays that of its job, whatever is added that it leaves alone.
    """
    options, first = MODELS[job["family"]]
    essence = essential(job, Job, FIRST_FIELDS) | {
        "model": essential(job["model"], options, first),
        "recipe": essential(job["recipe"], Recipe, FIRST_RECIPE),
    }
    return digest(json.dumps(essence, sort_keys=True).encode())[:16]


def csp(
    task: str,
    preset: str,
    seed: int,
    *,
    test_lengths: tuple[int, ...] = (),
    every_input: bool = False,
    lock: bool = False,
    **changes: Any,
) -> Job:
    """A preset with some options changed."""
    config = configure(task, preset, seed, **changes)
    return Job(
        task=task,
        family="csp",
        model=asdict(config.model),
        recipe=config.recipe,
        seed=seed,
        test_lengths=test_lengths,
        every_input=every_input,
        lock=lock,
    )


def peer(task: str, kind: Any, seed: int, recipe: Recipe, test_lengths: tuple[int, ...] = ()) -> Job:
    known = get(task)
    config = PeerConfig(
        kind=kind, vocab_size=len(known.vocab), num_classes=len(known.classes), width=32, depth=2
    )
    return Job(
        task=task,
        family="peer",
        model=asdict(config),
        recipe=recipe,
        seed=seed,
        test_lengths=test_lengths,
    )
