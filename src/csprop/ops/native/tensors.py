"""The kernel called with tensors.

They go in as pointers, so whoever calls gives contiguous CPU tensors of one type, float32 or float64,
and holds on to them.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from csprop.ops.native.layout import DECAY, ROTATE, Block, Scan, Stack
from csprop.ops.native.library import address, library, pack
from csprop.ops.options import KernelOptions

ABSENT = torch.empty(0)
"""A parameter that a layer does not have."""


class Layer(NamedTuple):
    """The parameters of a layer, under their names in `Block`, or ABSENT.

    Each may have a leading dimension G: the rows of a batch then belong to G models, one after the
    other.
    """

    angle_weight: Tensor
    angle_bias: Tensor
    gate_weight: Tensor
    gate_bias: Tensor
    skip: Tensor
    """g of the skip, (D,)."""
    start: Tensor
    """Where a state begins again after a reset, (2, D)."""

    @property
    def angles(self) -> int:
        """How many angles a step has: none, one that the channels share, or one for each."""
        return self.angle_weight.shape[-2] if self.angle_weight.numel() else 0

    @property
    def gates(self) -> int:
        return self.gate_weight.shape[-2]

    @property
    def groups(self) -> int:
        return 1 if self.gate_weight.ndim == 2 else self.gate_weight.shape[0]

    def pointers(self, prefix: str = "") -> dict[str, int]:
        """As fields of `Block`; gradients have the prefix `g_`."""
        return dict(zip(_NAMES[prefix], map(Tensor.data_ptr, self), strict=True))


_NAMES = {prefix: [prefix + name for name in Layer._fields] for prefix in ("", "g_")}


def fits(first: Tensor, *others: Tensor | None) -> bool:
    """Whether the kernel can take these: on the CPU, in one precision that it knows."""
    dtype = first.dtype
    return (dtype is torch.float32 or dtype is torch.float64) and all(
        tensor is None or (tensor.is_cpu and tensor.dtype is dtype) for tensor in (first, *others)
    )


def contiguous(*tensors: Tensor | None) -> list[Any]:
    return [None if tensor is None else tensor.contiguous() for tensor in tensors]


def pointer(tensor: Tensor | None) -> int:
    """To the first number; 0 for nothing, and for a tensor without numbers."""
    return 0 if tensor is None else tensor.data_ptr()


def shared_by_layers(z: Tensor, layer: Layer, options: KernelOptions) -> dict[str, int]:
    """The fields of `Block` that are the same in every layer, of which `layer` is one."""
    batch, steps, _, width = z.shape
    angles = layer.angles
    return {
        "wide": z.dtype is torch.float64, "batch": batch, "steps": steps, "width": width,
        "groups": layer.groups, "angles": angles, "gates": layer.gates,
        "rotate": ROTATE[options.rotate], "bounded_angle": options.angle == "tanh",
        "decay": DECAY[options.decay], "silu": options.silu, "norm": options.norm,
        "angle_inputs": layer.angle_weight.shape[-1] if angles else 0,
        "gate_inputs": layer.gate_weight.shape[-1],
    }  # fmt: skip


def scratch_vectors(depth: int = 1) -> int:
    """The memory of a thread, in vectors of the width."""
    return library().csprop_scratch(depth)


def stack(blocks: list[Block]) -> None:
    """All layers forward, or backward where the last has a `g_out`."""
    first, packed = blocks[0], pack(*blocks)
    whole = pack(Stack(first.wide, first.batch, first.steps, first.width, len(blocks), address(packed)))
    if not library().csprop_stack(address(whole), torch.get_num_threads()):
        raise MemoryError


def scan(**arguments: int | Tensor | None) -> None:
    """Forward, or backward where `g_h` is given; the arguments are the fields of `Scan`."""
    fields = {
        name: value if isinstance(value, int) else pointer(value) for name, value in arguments.items()
    }
    packed = pack(Scan(**fields))
    if not library().csprop_scan(address(packed), torch.get_num_threads()):
        raise MemoryError


def refuse_second_derivatives() -> None:
    """In a backward: gradients are recorded there where somebody wants to differentiate them."""
    if torch.is_grad_enabled() and not torch.compiler.is_compiling():
        raise RuntimeError("no second derivatives here: use_backend('reference') has them")
