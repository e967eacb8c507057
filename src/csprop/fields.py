"""Checks of a dataclass of options: the types and ranges of its fields."""

import dataclasses
from collections.abc import Mapping
from types import UnionType
from typing import Any, ClassVar, Literal, get_args, get_origin, get_type_hints

from csprop.errors import InputError


def find_changes(options: Any) -> dict[str, Any]:
    """Return the options that differ from their defaults, for a digest.

    Adding an option to a class changes no digest, because it stands at its default everywhere.
    """
    return {
        field.name: getattr(options, field.name)
        for field in dataclasses.fields(options)
        if getattr(options, field.name) != field.default
    }


def check_names(cls: type, values: Mapping[str, Any]) -> None:
    """Refuse a stored configuration with a field that the class does not have."""
    known = [field.name for field in dataclasses.fields(cls)]
    for name in values:
        if name not in known:
            options = ", ".join(known) or "no options"
            raise InputError(f"{name!r} is not an option of {cls.__name__}: it has {options}")


def check_ranges(options: Any, **ranges: tuple[float, float]) -> None:
    """Refuse numbers outside their range, and NaN."""
    for name, (low, high) in ranges.items():
        value = getattr(options, name)
        if value is not None and not low <= value <= high:
            raise InputError(f"out of range: write {low} to {high}", name, value)


def check_types(options: Any) -> None:
    """Refuse a value that does not have the type of its field; 1 becomes 1.0 in a field of floats."""
    for name, hint in get_type_hints(type(options)).items():
        if get_origin(hint) is ClassVar or not hasattr(options, name):
            continue
        value = getattr(options, name)
        if get_origin(hint) is Literal:
            expected = "one of " + ", ".join(repr(choice) for choice in get_args(hint))
            fits = value in get_args(hint)
        elif hint is bool:
            expected, fits = "True or False", isinstance(value, bool)
        elif hint is str:
            expected, fits = "a text", isinstance(value, str)
        elif hint is int:
            expected, fits = "a whole number", type(value) is int
        elif float not in (get_args(hint) if get_origin(hint) is UnionType else (hint,)):
            continue  # such as a cell, or an option of a cell of one's own
        else:
            expected = "a number"
            if type(value) is int and abs(value) < 1e300:  # 1 and 1.0 have different digests
                object.__setattr__(options, name, value := float(value))
            fits = isinstance(value, float) or (value is None and hint is not float)
        if not fits:
            raise InputError(f"does not fit: write {expected}", name, value)
