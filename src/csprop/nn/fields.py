"""The fields of a class of options: their types and ranges, and those of a saved configuration."""

import dataclasses
import json
from collections.abc import Mapping
from typing import Any, Literal, get_args, get_origin, get_type_hints

from csprop.errors import InputError


def essential(values: Mapping[str, Any], cls: type, first: frozenset[str]) -> dict[str, Any]:
    """The options that tell one configuration from another, for a digest.

    An option that was added later counts only where it is not at its default, so that adding one
    changes no digest of what was there before.
    """
    defaults = {field.name: field.default for field in dataclasses.fields(cls)}
    return {
        name: value
        for name, value in values.items()
        if name in first or name not in defaults or _plain(value) != _plain(defaults[name])
    }


def _plain(value: Any) -> str:
    """As JSON has it: there a tuple is a list."""
    return json.dumps(value, default=repr)


def check_fields(cls: type, values: Mapping[str, Any], first: frozenset[str]) -> None:
    """Reject a saved configuration with an unknown field, or without one of the first ones."""
    known = [field.name for field in dataclasses.fields(cls)]
    for name in values:
        if name not in known:
            raise InputError(f"{name!r} is no option of {cls.__name__}: write {', '.join(known)}")
    for name in known:
        if name in first and name not in values:
            raise InputError(f"{cls.__name__} lacks {name!r}")


def check_ranges(options: Any, **ranges: tuple[float, float]) -> None:
    """Reject numbers outside their range, or NaN."""
    for name, (low, high) in ranges.items():
        value = getattr(options, name)
        if value is not None and not low <= value <= high:
            raise InputError(f"{name}={value} is out of range: write {low} to {high}")


def check_types(options: Any) -> None:
    """Reject a value that is not of its field's type, with what to write instead."""
    for name, hint in get_type_hints(type(options)).items():
        value = getattr(options, name)
        if get_origin(hint) is Literal:
            expected = "one of " + ", ".join(repr(choice) for choice in get_args(hint))
            fits = value in get_args(hint)
        elif hint is bool:
            expected, fits = "True or False", isinstance(value, bool)
        elif get_origin(hint) is tuple:
            names = get_args(get_args(hint)[0])
            expected = "a list of " + " or ".join(names)
            fits = isinstance(value, tuple) and all(each in names for each in value)
        elif hint is int:
            expected = "a whole number"
            fits = isinstance(value, int) and not isinstance(value, bool)
        else:
            expected = "a number"
            fits = isinstance(value, float | int) and not isinstance(value, bool)
            fits = fits or (value is None and hint is not float)
        if not fits:
            raise InputError(f"{name}={value!r} does not fit: write {expected}")
