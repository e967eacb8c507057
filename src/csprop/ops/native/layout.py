"""The structures of `layout.hpp`, as the compiled library describes them.

Each is a row of 64-bit numbers: integers, doubles and pointers. `Arguments` fills one in by the names
of its fields. A field that is left out is 0, or −1 for the number of a tensor.
"""

import re
from array import array
from collections.abc import Mapping
from typing import Any

Value = Any
"""An int, a float, the name of an option, None, or a tensor, an array or `Arguments`: its address."""


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
