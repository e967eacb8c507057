"""Finds the compiled library, and calls its functions."""

import ctypes
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

from csprop.ops.native.layout import Arguments, Structure, Value, structures

_POINTER, _NUMBER = ctypes.c_void_p, ctypes.c_int64
FUNCTIONS = {
    "scan": (_POINTER, _NUMBER),
    "route": (_POINTER, _NUMBER),
    "resonate": (_POINTER, _NUMBER),
    "steps": (_POINTER, _NUMBER, _NUMBER),
    "scores": (_POINTER, _NUMBER),
    "every": (_POINTER, _NUMBER, _NUMBER, _POINTER, _NUMBER),
    "table": (_POINTER,),
    "merge": (_POINTER,),
    "polish": (_POINTER,),
}
"""The types of the arguments of each function; all return an int64."""


def load(folder: Path) -> tuple[ctypes.CDLL | None, str]:
    """Return the library of a folder and "", or None and the reason."""
    paths = [path for suffix in EXTENSION_SUFFIXES if (path := folder / f"kernel{suffix}").exists()]
    if not paths:
        return None, "not compiled: install a C++ compiler (g++, clang++), then csprop again"
    try:
        library = ctypes.CDLL(str(paths[0]))
    except OSError as error:
        return None, f"cannot be loaded: {error}"
    try:
        for name, types in FUNCTIONS.items():
            function = getattr(library, f"csprop_{name}")
            function.argtypes, function.restype = types, _NUMBER
        for name in ("target", "layout"):
            getattr(library, f"csprop_{name}").restype = ctypes.c_char_p
        known = "Model" in structures(library.csprop_layout().decode())
    except AttributeError:
        known = False
    return (library, "") if known else (None, "of another version: install csprop again")


_library, WHY_NOT = load(Path(__file__).parent)
"""WHY_NOT is empty where the kernel can be used."""
TARGET = _library.csprop_target().decode() if _library else ""
"""The instructions in use: `avx2` or `plain`."""
_structures: dict[str, Structure] = structures(_library.csprop_layout().decode()) if _library else {}


def library() -> ctypes.CDLL:
    """Return the library; only where WHY_NOT is empty."""
    assert _library is not None, WHY_NOT
    return _library


def pack(structure: str, *rows: dict[str, Value]) -> Arguments:
    """Lay out structures in memory, one for each row of fields."""
    return Arguments(_structures[structure], *rows)


def call(function: str, address: int, *others: int) -> int:
    """Call a function of the library with the address of its arguments, and return its status.

    Raises:
        MemoryError: there was not enough memory.
    """
    status = getattr(_library, f"csprop_{function}")(address, *others)
    if status == 1:
        raise MemoryError
    return status
