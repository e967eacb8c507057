"""A model in the form of the Hugging Face Hub.

The document beside a model's weights: its configuration, and the names of tokens and classes.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from types import new_class
from typing import TYPE_CHECKING, Any, Literal

from csprop.errors import InputError, require
from csprop.nn.config import CSPConfig

if TYPE_CHECKING:
    from csprop.nn.model import CSP


@dataclass(frozen=True)
class Names:
    """The names of a model's tokens and classes."""

    vocab: tuple[str, ...]
    """By token."""
    classes: tuple[str, ...]
    """By class."""
    words: bool = False
    """True if a sequence is written as words, False if as characters."""

    @classmethod
    def from_dict(cls, values: Any, config: CSPConfig) -> "Names":
        """Return the names that `dataclasses.asdict` wrote; refuse malformed, equal or missing ones."""
        counts = {"vocab": config.vocab_size, "classes": config.num_classes}
        if not isinstance(values, dict) or not isinstance(values.get("words"), bool):
            raise InputError("config.json: the names of tokens and classes are malformed")
        for field, count in counts.items():
            names: Any = values.get(field)
            texts = isinstance(names, list | tuple) and all(isinstance(each, str) for each in names)
            if not texts or not len(set(names)) == len(names) == count:
                raise InputError(
                    f"config.json: names.{field} must be a list of {count} different names"
                )
        return cls(tuple(values["vocab"]), tuple(values["classes"]), values["words"])


def read(document: Mapping[str, Any]) -> tuple[CSPConfig, Names | None]:
    """Return configuration and names from the config.json of a saved model, or of a run directory."""
    values = dict(document)
    names = values.pop("names", None)
    options = values["model"] if isinstance(values.get("model"), dict) else values
    config = CSPConfig.from_json(options)
    return config, None if names is None else Names.from_dict(names, config)


@cache
def on_hub(model: type) -> Any:
    """Return a class of models with the methods of `PyTorchModelHubMixin`, whose import is slow."""
    require("huggingface_hub", "hub", "saving a model, or loading one, in the form of the Hub")
    from huggingface_hub import PyTorchModelHubMixin

    said = {"library_name": "csprop", "license": "mit"}
    return new_class(model.__name__, (PyTorchModelHubMixin, model), said)


def hand_over(
    model: "CSP", method: Literal["save_pretrained", "push_to_hub"], where: str | Path, **options: Any
) -> Any:
    """Save weights, configuration and names in a folder, or upload them, by a method of the mixin."""
    names = {} if model.names is None else {"names": asdict(model.names)}
    config = options.pop("config", None) or model.config.to_json() | names
    return getattr(_copy(model, on_hub(type(model))), method)(where, config=config, **options)


def pull(cls: "type[CSP]", name: str | Path, **options: Any) -> "CSP":
    """Read a model from a folder or from the Hub."""
    from torch import Generator

    options.setdefault("generator", Generator())  # torch's own would go on from elsewhere
    return _copy(on_hub(cls).from_pretrained(name, **options), cls)


def _copy(model: "CSP", cls: Any) -> Any:
    """Return a model as one of another class, with the same weights and names."""
    from torch import Generator

    copy = cls(model.config, Generator()).to(model.embedding)
    copy.load_state_dict(model.state_dict(), assign=True)
    copy.names = model.names
    return copy.train(model.training)
