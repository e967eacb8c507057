"""The compiled kernel: finds the library and calls it, with the GIL released.

Tensors go in as pointers, so whoever calls gives contiguous CPU tensors of one type, float32 or
float64, and holds on to them. The C++ beside this file says what is computed.
"""

import ctypes
from array import array
from collections import namedtuple
from collections.abc import Sequence
from importlib.machinery import EXTENSION_SUFFIXES
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

ROTATE = {"none": 0, "input": 1, "state": 2}
DECAY = {"softplus": 0, "exp": 1, "unit": 2, "reset": 3, "switch": 4}


def _arguments(name: str, fields: str) -> Any:
    """A structure of 64-bit numbers and pointers, as a tuple with names; what is not given is 0."""
    names = fields.split()
    return namedtuple(name, names, defaults=[0] * len(names))


Scan = _arguments("Scan", "wide batch steps width order planes columns a u h0 reset h g_h g_a g_u g_h0")
Block = _arguments(
    "Block",
    "wide batch steps width groups angles gates rotate bounded_angle decay silu norm keep "
    "angle_inputs gate_inputs z coupled skip h0 start reset "
    "angle_weight angle_bias gate_weight gate_bias theta delta out h "
    "g_out g_h g_z g_theta g_delta g_coupled g_h0 "
    "g_skip g_start g_angle_weight g_angle_bias g_gate_weight g_gate_bias",
)
Stack = _arguments("Stack", "wide batch steps width depth blocks")
Stream = _arguments(
    "Stream",
    "wide depth width classes unit_features "
    "embedding blocks decoder_weight decoder_bias logits scratch",
)
Table = _arguments("Table", "wide count symbols row sequence rows answers out")


def _load() -> tuple[ctypes.CDLL | None, str]:
    """The library, or why there is none."""
    found = [
        path
        for suffix in EXTENSION_SUFFIXES
        if (path := Path(__file__).with_name(f"kernel{suffix}")).exists()
    ]
    if not found:
        return None, "not compiled: install a C++ compiler (g++, clang++), then csprop again"
    try:
        library = ctypes.CDLL(str(found[0]))
        library.csprop_target.restype = ctypes.c_char_p
        for function in (library.csprop_scratch, library.csprop_fields):
            function.argtypes, function.restype = (ctypes.c_int64,), ctypes.c_int64
        layouts = [library.csprop_fields(i) for i in range(5)]
        if layouts != [len(each._fields) for each in (Scan, Block, Stack, Stream, Table)]:
            return None, "of another version: install csprop again"
    except (OSError, AttributeError) as error:
        return None, f"cannot be loaded: {error}"
    for name in ("stack", "scan", "stream"):
        getattr(library, f"csprop_{name}").argtypes = (ctypes.c_void_p, ctypes.c_int64)
        getattr(library, f"csprop_{name}").restype = None if name == "stream" else ctypes.c_bool
    library.csprop_table.argtypes, library.csprop_table.restype = (ctypes.c_void_p,), ctypes.c_int64
    return library, ""


_library, WHY_NOT = _load()
"""WHY_NOT is empty where the kernel can be used."""
TARGET = _library.csprop_target().decode() if _library else ""
"""The instructions in use: `avx2` or `plain`."""


def fits(first: Tensor, *others: Tensor | None) -> bool:
    """Whether the kernel can take these: on the CPU, in one precision that it knows."""
    dtype = first.dtype
    return (dtype is torch.float32 or dtype is torch.float64) and all(
        tensor is None or (tensor.is_cpu and tensor.dtype is dtype) for tensor in (first, *others)
    )


def library() -> ctypes.CDLL:
    assert _library is not None, WHY_NOT
    return _library


def scratch_vectors(depth: int = 1) -> int:
    """The memory of a thread, in vectors of the width."""
    return library().csprop_scratch(depth)


def contiguous(*tensors: Tensor | None) -> list[Any]:
    return [None if tensor is None else tensor.contiguous() for tensor in tensors]


def pointer(tensor: Tensor | None) -> int:
    """To the first number; 0 for nothing, and for a tensor without numbers."""
    return 0 if tensor is None else tensor.data_ptr()


def pack(*structures: tuple[int, ...]) -> array:
    """The same in memory, one after the other."""
    return array("q", chain.from_iterable(structures))


def address(packed: array) -> int:
    return packed.buffer_info()[0]


def shared_by_layers(
    z: Tensor, groups: int, angle_weight: Tensor, gate_weight: Tensor, options: Sequence[Any]
) -> dict[str, int]:
    """What is the same of every layer: shapes, and `options` as `ModelOptions.of_kernel` has them."""
    batch, steps, _, width = z.shape
    rotate, angle, decay, silu, norm = options
    rotates = angle_weight.numel() > 0
    return {
        "wide": z.dtype is torch.float64, "batch": batch, "steps": steps, "width": width,
        "groups": groups, "angles": angle_weight.shape[-2] if rotates else 0,
        "gates": gate_weight.shape[-2], "rotate": ROTATE[rotate], "bounded_angle": angle == "tanh",
        "decay": DECAY[decay], "silu": silu, "norm": norm,
        "angle_inputs": angle_weight.shape[-1] if rotates else 0, "gate_inputs": gate_weight.shape[-1],
    }  # fmt: skip


PARAMETERS = ("angle_weight", "angle_bias", "gate_weight", "gate_bias", "skip", "start")
"""Of a layer, in the order in which `fused.blocks` takes them."""


def refuse_second_derivatives() -> None:
    """In a backward: gradients are recorded there where somebody wants to differentiate them."""
    if torch.is_grad_enabled() and not torch.compiler.is_compiling():
        raise RuntimeError("no second derivatives here: use_backend('reference') has them")


def stack(blocks: list[Any]) -> None:
    """All layers forward, or backward where the last has a `g_out`."""
    first, packed = blocks[0], pack(*blocks)
    whole = pack(Stack(first.wide, first.batch, first.steps, first.width, len(blocks), address(packed)))
    if not library().csprop_stack(address(whole), torch.get_num_threads()):
        raise MemoryError


def run_table(
    rows: np.ndarray,
    answers: np.ndarray,
    symbols: int,
    row: int,
    sequence: np.ndarray,
    out: np.ndarray | None,
) -> tuple[int, int]:
    """An automaton over a sequence of uint8 or int64, with the answer after every token into `out`.

    Gives the row in the end, and -1 or the position of the first token that is none.
    """
    wide = sequence.dtype != np.uint8
    places = [0 if each is None else each.ctypes.data for each in (sequence, rows, answers, out)]
    packed = pack(Table(wide, len(sequence), symbols, row, *places))
    bad = library().csprop_table(address(packed))
    return packed[3], bad


def scan(**arguments: Any) -> None:
    """Forward, or backward where `g_h` is given."""
    fields = {
        name: value if isinstance(value, int) else pointer(value) for name, value in arguments.items()
    }
    packed = pack(Scan(**fields))
    if not library().csprop_scan(address(packed), torch.get_num_threads()):
        raise MemoryError
