"""Finds the compiled library, and lays out arguments for it in memory."""

import ctypes
from array import array
from importlib.machinery import EXTENSION_SUFFIXES
from itertools import chain
from pathlib import Path

from csprop.ops.native.layout import description


def load(folder: Path) -> tuple[ctypes.CDLL | None, str]:
    """The library of a folder and "", or None and why there is none."""
    found = [
        path for suffix in EXTENSION_SUFFIXES if (path := folder / f"kernel{suffix}").exists()
    ]  # fmt: skip
    if not found:
        return None, "not compiled: install a C++ compiler (g++, clang++), then csprop again"
    try:
        library = ctypes.CDLL(str(found[0]))
    except OSError as error:
        return None, f"cannot be loaded: {error}"
    try:
        for name in ("target", "layout"):
            getattr(library, f"csprop_{name}").restype = ctypes.c_char_p
        same = library.csprop_layout().decode() == description()
    except AttributeError:
        same = False
    if not same:  # a call would read other fields than were written
        return None, "of another version: install csprop again"
    for name in ("stack", "scan", "route", "resonate", "stream"):
        getattr(library, f"csprop_{name}").argtypes = (ctypes.c_void_p, ctypes.c_int64)
        getattr(library, f"csprop_{name}").restype = None if name == "stream" else ctypes.c_bool
    pointer, number = ctypes.c_void_p, ctypes.c_int64
    library.csprop_steps.argtypes = (pointer, number, number)
    library.csprop_scores.argtypes = (pointer, number)
    library.csprop_every.argtypes = (pointer, number, number, pointer, number)
    for name in ("steps", "scores", "every"):
        getattr(library, f"csprop_{name}").restype = number
    library.csprop_scratch.argtypes, library.csprop_scratch.restype = (ctypes.c_int64,), ctypes.c_int64
    for name in ("table", "merge", "polish"):
        getattr(library, f"csprop_{name}").argtypes = (ctypes.c_void_p,)
        getattr(library, f"csprop_{name}").restype = ctypes.c_int64
    return library, ""


_library, WHY_NOT = load(Path(__file__).parent)
"""WHY_NOT is empty where the kernel can be used."""
TARGET = _library.csprop_target().decode() if _library else ""
"""The instructions in use: `avx2` or `plain`."""


def library() -> ctypes.CDLL:
    """The library; only where WHY_NOT is empty."""
    assert _library is not None, WHY_NOT
    return _library


def pack(*structures: tuple[int, ...]) -> array:
    """The same in memory, one after the other."""
    return array("q", chain.from_iterable(structures))


def address(packed: array) -> int:
    """Where it lies, for as long as the array lives."""
    return packed.buffer_info()[0]
