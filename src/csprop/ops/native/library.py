"""The compiled library: its structures in memory, and calls of its functions.

The structures of `layout.hpp` are rows of 64-bit numbers: integers, doubles and pointers. The library
contains that text, and `Arguments` fills a structure in by the names of its fields. A field that is
left out is 0, or −1 for the number of a tensor.
"""

import ctypes
import re
from array import array
from collections.abc import Mapping
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any

Value = Any
"""An int, a float, the name of an option, None, or a tensor, an array or `Arguments`: its address."""
_POINTER, _NUMBER = ctypes.c_void_p, ctypes.c_int64
FUNCTIONS = {
    "scan": (_POINTER, _NUMBER),
    "route": (_POINTER, _NUMBER),
    "resonate": (_POINTER, _NUMBER),
    "turns": (_POINTER, _NUMBER),
    "places": (_POINTER, _NUMBER),
    "steps": (_POINTER, _NUMBER, _NUMBER),
    "scores": (_POINTER, _NUMBER),
    "every": (_POINTER, _NUMBER, _NUMBER, _POINTER, _NUMBER),
    "table": (_POINTER,),
    "merge": (_POINTER,),
    "polish": (_POINTER,),
}
"""The types of the arguments of each function; all return an int64."""


class Structure:
    """The fields of one structure, in order."""

    def __init__(self, text: str, options: Mapping[str, Mapping[str, int]]) -> None:
        self.places: dict[str, int] = {}
        self.doubles: set[str] = set()
        self.options: dict[str, Mapping[str, int]] = {}
        defaults = []
        for declaration in text.split(";"):
            if not declaration.strip():
                continue
            kind, names = declaration.replace("const ", "").replace("*", " * ").split(maxsplit=1)
            for each in names.split(","):
                *pointer, name = each.split()
                self.places[name] = len(defaults)
                defaults.append(-1 if kind == "Tensor" else 0)
                if kind == "double" and not pointer:
                    self.doubles.add(name)
                if kind in options:
                    self.options[name] = options[kind]
        self.defaults = array("q", defaults)


def structures(text: str) -> dict[str, Structure]:
    """The structures that a text in C++ declares, with the options of its enumerations."""
    options = {}
    for name, members in re.findall(r"enum class (\w+) : int64_t \{([^}]*)\}", text):
        names = [member.strip().rstrip("_") for member in members.split(",")]  # switch_: a C++ keyword
        options[name] = {member: number for number, member in enumerate(names)}
    found = re.findall(r"struct (\w+) \{([^}]*)\}", text)
    return {name: Structure(fields, options) for name, fields in found}


class Arguments:
    """Structures of one kind in memory, one after the other, and what their pointers lead to.

    The first one's fields can be read and changed by name.
    """

    def __init__(self, structure: Structure, *rows: Mapping[str, Value]) -> None:
        self.structure = structure
        self._integers = structure.defaults * len(rows)
        self._doubles = memoryview(self._integers).cast("B").cast("d")
        self._alive = rows
        for number, row in enumerate(rows):
            first = number * len(structure.defaults)
            for name, value in row.items():
                self._set(name, value, first)

    def _set(self, name: str, value: Value, first: int) -> None:
        structure = self.structure
        try:
            place = first + structure.places[name]
        except KeyError:
            raise RuntimeError(f"the kernel has no field {name!r}: install csprop again") from None
        if name in structure.doubles:
            self._doubles[place] = value
        elif isinstance(value, int):
            self._integers[place] = value
        elif isinstance(value, str):
            self._integers[place] = structure.options[name][value]
        elif value is not None:
            self._integers[place] = address(value)

    def __setitem__(self, name: str, value: Value) -> None:
        self._set(name, value, 0)

    def __getitem__(self, name: str) -> Any:
        numbers = self._doubles if name in self.structure.doubles else self._integers
        return numbers[self.structure.places[name]]

    @property
    def address(self) -> int:
        return self._integers.buffer_info()[0]


def address(value: Value) -> int:
    """Return the address of the numbers of a torch tensor, a NumPy array or `Arguments`."""
    if isinstance(value, Arguments):
        return value.address
    return value.data_ptr() if hasattr(value, "data_ptr") else value.ctypes.data


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
    """Call a function of the library with the address of its arguments, and return its status."""
    status = getattr(_library, f"csprop_{function}")(address, *others)
    if status == 1:
        raise MemoryError
    return status
