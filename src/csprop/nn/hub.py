"""The document beside a model's weights: its configuration, and the names of tokens and classes."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from types import new_class
from typing import Any

from csprop.errors import InputError, require
from csprop.nn.config import CSPConfig


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
        """Return the names of a model from what `dataclasses.asdict` made of them.

        Raises:
            InputError: the names are malformed, not distinct, or not as many as the model has.
        """
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


def to_document(config: CSPConfig, names: Names | None) -> dict[str, Any]:
    """Return the document beside the weights, which `read` reads."""
    return config.to_json() | ({} if names is None else {"names": asdict(names)})


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
