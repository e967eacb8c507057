"""Errors: bad input, described in one sentence, and training that diverges."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import MISSING
from importlib import import_module
from typing import Any


class InputError(ValueError):
    """Bad input: a file, a row, an option. The command line prints it and exits with 2.

    Args:
        message: the sentence. If it is about an option, it follows the option's name and value.
        field: the name of the option, such as "batch_size".
        value: its value, if that is wrong. `str` of the error begins with batch_size=0, and the
            command line writes --batch-size 0 instead.
    """

    def __init__(self, message: str, field: str | None = None, value: object = MISSING) -> None:
        super().__init__(message)
        self.message, self.field = message, field
        self.value = None if value is MISSING else value
        self.prefix = "" if value is MISSING else f"{field}={value!r}: "

    def __str__(self) -> str:
        return self.prefix + self.message


class Diverged(RuntimeError):
    """A loss or a gradient of training was not finite; `diagnosis` says where. No step was taken."""

    def __init__(self, message: str, diagnosis: dict[str, Any]) -> None:
        super().__init__(message, diagnosis)
        self.diagnosis = diagnosis

    def __str__(self) -> str:
        return self.args[0]


@contextmanager
def about(field: str, value: object) -> Iterator[None]:
    """Say of an InputError that it is about an option with this value."""
    try:
        yield
    except InputError as error:
        raise InputError(error.message, field, value) from None


def require(module: str, extra: str, what: str) -> None:
    """Raise an InputError that begins with `what` unless a library of an extra is installed."""
    try:
        import_module(module)
    except ImportError:
        raise InputError(f"{what} needs {module}: python -m pip install 'csprop[{extra}]'") from None


def described(value: object) -> str:
    """Return a value as text: a tensor's type, shape and device, else its Python type."""
    if value is None:
        return "None"
    # A torch tensor, without the import of torch; NumPy's arrays have no layout.
    dtype, layout, device = (getattr(value, name, None) for name in ("dtype", "layout", "device"))
    if None in (dtype, layout, device):
        return f"an object of type {type(value).__name__}"
    if getattr(value, "is_nested", False) or "strided" not in str(layout):
        return f"a tensor of layout {layout}"
    return f"{dtype} of shape {tuple(getattr(value, 'shape', ()))} on {device}"


def nearest(name: str, known: Iterable[str]) -> str:
    """Return the known name that was probably meant; "" if none is near.

    Names that differ only in capitals and hyphens are nearest, then names that begin alike.
    """
    import difflib

    def letters(text: str) -> str:
        return "".join(filter(str.isalnum, text)).lower()

    names = list(dict.fromkeys(known))
    near = [each for each in names if letters(each) == letters(name)]
    if len(letters(name)) > 2:
        near += sorted((each for each in names if letters(each).startswith(letters(name))), key=len)
    near += difflib.get_close_matches(name, names, n=1)
    return near[0] if near else ""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a question about the nearest name; "" if none is near."""
    near = nearest(name, known)
    return f"did you mean {near}?" if near else ""


def without(key: str, keys: Iterable[str], wanted: Iterable[str]) -> str:
    """Return the message about a missing key: the keys that exist, and one that may be misspelt."""
    keys, wanted = list(keys), set(wanted)
    if near := nearest(key, (each for each in keys if each not in wanted)):
        return f"has no {key!r}, but {near!r}: did you mean {key!r}?"
    shown = ", ".join(map(repr, keys[:8])) or "nothing"
    return f"has no {key!r}; it has {shown}{', …' if len(keys) > 8 else ''}"
