"""What goes wrong because of what a user gave, told in one sentence."""

from importlib import import_module


class InputError(ValueError):
    """Bad input: a file, a row, an option. The command line prints it and exits with 2."""


def require(module: str, extra: str, what: str) -> None:
    """Refuse what needs a library that is not installed.

    Args:
        module: the library.
        extra: the extra of csprop that installs it.
        what: what needs it, to begin the sentence.

    Raises:
        InputError: it cannot be imported.
    """
    try:
        import_module(module)
    except ImportError:
        raise InputError(f"{what} needs {module}: python -m pip install 'csprop[{extra}]'") from None


def described(value: object) -> str:
    """A value, to end such a sentence: a tensor's type, shape and device, else its Python type."""
    if value is None:
        return "None"
    # A torch tensor, without the import of torch; NumPy's arrays have no layout.
    dtype, layout, device = (getattr(value, name, None) for name in ("dtype", "layout", "device"))
    if None in (dtype, layout, device):
        return f"an object of type {type(value).__name__}"
    if getattr(value, "is_nested", False) or "strided" not in str(layout):
        return f"a tensor of layout {layout}"
    return f"{dtype} of shape {tuple(getattr(value, 'shape', ()))} on {device}"
