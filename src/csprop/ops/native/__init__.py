"""The compiled kernel: finds the library and calls it, with the GIL released.

Tensors go in as pointers, so whoever calls gives contiguous CPU tensors of one type, float32 or
float64, and holds on to them. The C++ beside this file says what is computed.
"""

import ctypes
from collections.abc import Sequence
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

ROTATE = {"none": 0, "input": 1, "state": 2}
DECAY = {"softplus": 0, "exp": 1, "unit": 2, "reset": 3}


def _structure(name: str, numbers: str, pointers: str) -> type[ctypes.Structure]:
    fields = [(field, ctypes.c_int64) for field in numbers.split()]
    fields += [(field, ctypes.c_void_p) for field in pointers.split()]
    return type(name, (ctypes.Structure,), {"_fields_": fields})


Scan = _structure("Scan", "wide batch steps width planes columns", "a u h0 reset h g_h g_a g_u g_h0")
Block = _structure(
    "Block",
    "wide batch steps width groups angles gates rotate bounded_angle decay silu norm keep "
    "angle_inputs gate_inputs",
    "z coupled skip h0 start reset angle_weight angle_bias gate_weight gate_bias theta delta out h "
    "g_out g_h g_z g_theta g_delta g_coupled g_h0 "
    "g_skip g_start g_angle_weight g_angle_bias g_gate_weight g_gate_bias",
)
Stack = _structure("Stack", "wide batch steps width depth", "blocks")
Stream = _structure(
    "Stream",
    "wide depth width classes unit_features",
    "embedding blocks decoder_weight decoder_bias logits scratch",
)


def _load() -> tuple[ctypes.CDLL | None, str]:
    """The library, or why there is none."""
    found = [
        path
        for suffix in EXTENSION_SUFFIXES
        if (path := Path(__file__).with_name(f"kernel{suffix}")).exists()
    ]
    if not found:
        return None, "the kernel was not compiled when csprop was installed: is there a C++ compiler?"
    try:
        library = ctypes.CDLL(str(found[0]))
        library.csprop_target.restype = ctypes.c_char_p
        library.csprop_scratch.argtypes = (ctypes.c_int64,)
        library.csprop_scratch.restype = ctypes.c_int64
    except (OSError, AttributeError) as error:
        return None, f"the kernel cannot be loaded: {error}"
    for name in ("stack", "scan", "stream"):
        getattr(library, f"csprop_{name}").argtypes = (ctypes.c_void_p, ctypes.c_int64)
        getattr(library, f"csprop_{name}").restype = None
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


def pack(structure: Any, arguments: dict[str, Any]) -> Any:
    return structure(
        **{
            name: value.data_ptr() if isinstance(value, Tensor) else value
            for name, value in arguments.items()
        }
    )


def pack_blocks(blocks: list[dict[str, Any]]) -> Any:
    return (Block * len(blocks))(*(pack(Block, block) for block in blocks))


def contiguous(*tensors: Tensor | None) -> list[Any]:
    return [None if tensor is None else tensor.contiguous() for tensor in tensors]


def layer(
    z: Tensor, theta: Tensor, delta: Tensor, given: Sequence[Tensor], options: Sequence[Any]
) -> dict[str, Any]:
    """What the kernel needs to know of a layer in both directions; `given` has its parameters."""
    batch, steps, _, width = z.shape
    rotate, angle, decay, silu, norm, keep = options
    angle_weight, angle_bias, gate_weight, gate_bias, skip, start = contiguous(
        *(each if each.numel() else None for each in given)
    )
    return {
        "wide": z.dtype is torch.float64, "batch": batch, "steps": steps, "width": width,
        "groups": delta.shape[0], "angles": theta.shape[2], "gates": delta.shape[2],
        "rotate": ROTATE[rotate], "bounded_angle": angle == "tanh",
        "decay": DECAY[decay], "silu": silu, "norm": norm, "keep": keep,
        "angle_inputs": 0 if angle_weight is None else angle_weight.shape[-1],
        "gate_inputs": gate_weight.shape[-1],
        "angle_weight": angle_weight, "angle_bias": angle_bias, "gate_weight": gate_weight,
        "gate_bias": gate_bias, "skip": skip, "start": start, "z": z, "theta": theta, "delta": delta,
    }  # fmt: skip


def stack(blocks: list[dict[str, Any]]) -> None:
    """All layers forward, or backward where they have a `g_out`."""
    packed = pack_blocks(blocks)
    first = packed[0]
    whole = Stack(
        first.wide, first.batch, first.steps, first.width, len(blocks), ctypes.addressof(packed)
    )
    library().csprop_stack(ctypes.addressof(whole), torch.get_num_threads())


def scan(**arguments: Any) -> None:
    """Forward, or backward where `g_h` is given."""
    packed = pack(Scan, arguments)
    library().csprop_scan(ctypes.addressof(packed), torch.get_num_threads())
