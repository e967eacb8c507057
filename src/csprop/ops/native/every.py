"""The scores of a model after every sequence of one length, in one call. every.hpp says how."""

import torch
from torch import Tensor

from csprop.errors import InputError
from csprop.ops.counts import not_exact
from csprop.ops.native.layout import Training, Weight
from csprop.ops.native.library import address, library, pack
from csprop.ops.native.step import Model


def scores(model: Model, symbols: int, length: int) -> Tensor:
    """The scores after every sequence of the first `symbols` tokens; routers move all of a content.

    Returns:
        (symbols^length, classes), the sequences in lexicographic order.

    Raises:
        InputError: a count is not exact.
        MemoryError: there is not enough memory.
    """
    tensors = [tensor.detach() for tensor in model.tensors]
    found = tensors[0].new_empty(symbols**length, model.fields["classes"])
    weights = pack(*(Weight(each.numel(), 0, each.data_ptr()) for each in tensors))
    layers = pack(*model.layers)
    packed = pack(
        Training(
            **model.fields, wide=found.dtype is torch.float64, depth=len(model.layers),
            tensors=len(tensors), layers=address(layers), weights=address(weights),
        )
    )  # fmt: skip
    status = library().csprop_every(
        address(packed), symbols, length, found.data_ptr(), torch.get_num_threads()
    )
    if status == 1:
        raise MemoryError
    if status == 3:
        raise InputError(not_exact(found.dtype))
    return found
