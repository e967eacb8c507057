"""Whether the compiled kernel does a block, or several in one call: this is decided here alone."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn

from csprop.nn.config import ModelOptions
from csprop.ops import devices
from csprop.ops.backends import backend
from csprop.ops.native.tensors import ABSENT, Layer, fits

PARTS = (nn.Linear, nn.LayerNorm)
"""What a block that the kernel knows is made of."""


class Known(nn.Module, ABC):
    """A block, as far as it is looked at here."""

    options: ModelOptions

    @abstractmethod
    def kernel_parameters(self) -> Layer:
        """This block's parameters, under the kernel's names for them."""


def has_hooks(modules: Iterable[nn.Module]) -> bool:
    """Whether something else is to happen where one of these modules is called."""
    return bool(nn.modules.module._has_any_global_hook()) or any(
        module._forward_hooks
        or module._forward_pre_hooks
        or module._backward_hooks
        or module._backward_pre_hooks
        for module in modules
    )


def untouched(parts: Iterable[nn.Module], kinds: Sequence[type[nn.Module]]) -> bool:
    """Whether parts of a model do what they were made for, and nothing else happens beside it."""
    parts = list(parts)
    return not has_hooks(parts) and all(
        type(part) in kinds and "forward" not in part.__dict__ for part in parts
    )


def for_kernel(
    blocks: Sequence[Known],
    z: Tensor,
    state: Tensor,
    reset: Tensor | None = None,
    coupled: Tensor | None = None,
    *others: Tensor,
    whole: bool,
) -> list[Layer] | None:
    """The parameters of blocks that the kernel can do in one call, one after the other; else None.

    `z`, `state`, `reset` and `coupled` are what they would be given, `others` further tensors of that
    call. With `whole`, the call is to leave nothing to do between blocks or after the last one. All of
    this must hold:

    - the backend in force is `native`;
    - the kernel knows the options: `ModelOptions.beyond_kernel` names none;
    - if it has to be the whole, there are no couplings and no LayerNorm, which torch does, and all
      layers are of one kind;
    - there is something to compute, and its gradients are not those of `torch.func`;
    - no part of a block was replaced or has a hook; if it has to be the whole, no block either;
    - the tensors are on the CPU, all in float32 or all in float64, the parameters of the shapes that a
      `Layer` has (a user may have put others in their place).
    """
    options = blocks[0].options
    if whole and (options.coupling_rank or options.norm == "layer"):
        return None
    if any(block.options is not options for block in blocks):
        return None
    if backend() != "native" or options.beyond_kernel or not z.numel() or devices.differentiated():
        return None
    if not untouched((part for block in blocks for part in block.children()), PARTS):
        return None
    ours = [type(block) for block in blocks if Known in type(block).__bases__]  # no class made of ours
    if whole and not untouched(blocks, ours):
        return None
    if reset is not None and not (reset.dtype is torch.bool and reset.is_cpu):
        return None
    layers = [block.kernel_parameters() for block in blocks]
    given = [each for layer in layers for each in layer if each is not ABSENT]
    if not fits(z, state, coupled, *others, *given):
        return None
    return layers if all(_has_its_shapes(layer, z.shape[-1]) for layer in layers) else None


def _has_its_shapes(layer: Layer, width: int) -> bool:
    return (
        layer.gate_weight.shape in ((1, 2 * width), (width, 2 * width))
        and layer.gate_bias.shape == layer.gate_weight.shape[:1]
        and (layer.skip is ABSENT or layer.skip.shape == (width,))
        and layer.start.shape == (2, width)
        and (layer.angle_weight is ABSENT or _is_angle(layer.angle_weight, layer.angle_bias, width))
    )


def _is_angle(weight: Tensor, bias: Tensor, width: int) -> bool:
    rows, inputs = weight.shape
    plausible = rows in (1, width) and inputs in (width, 2 * width)
    return plausible and (bias is ABSENT or bias.shape == (rows,))
