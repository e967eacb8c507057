"""The scores of a model, in one call: of given rows, or after every sequence of one length.

step.hpp and every.hpp say how. Routers move all of a content.
"""

from array import array

import torch
from torch import Tensor

from csprop.ops.native import step
from csprop.ops.native.layout import Training, Weight
from csprop.ops.native.library import address, library, pack
from csprop.ops.native.step import Model, Rows, check, laid_out


def scores(model: Model, rows: Rows) -> Tensor:
    """The scores at all labelled steps of the rows, in their order, (labels, classes).

    Raises:
        InputError: a token or a label is outside of its range, or a count is not exact.
        MemoryError: there is not enough memory.
    """
    pairs, parts = laid_out(rows)
    labelled = sum(int((labels >= 0).sum()) for _, labels in pairs)
    found = model.tensors[0].new_empty(labelled, model.fields["classes"])
    rows_of = {"parts": len(pairs), "batch": address(parts), "scores": found.data_ptr()}
    packed, _kept = _packed(model, found, **rows_of)
    check(library().csprop_scores(address(packed), torch.get_num_threads()), found.dtype)
    return found


def after_every_sequence(model: Model, symbols: int, length: int) -> Tensor:
    """The scores after every sequence of the first `symbols` tokens.

    Returns:
        (symbols^length, classes), the sequences in lexicographic order.

    Raises:
        InputError: a count is not exact.
        MemoryError: there is not enough memory.
    """
    found = model.tensors[0].new_empty(symbols**length, model.fields["classes"])
    packed, _kept = _packed(model, found)
    threads = torch.get_num_threads()
    status = library().csprop_every(address(packed), symbols, length, found.data_ptr(), threads)
    check(status, found.dtype)
    return found


def _packed(model: Model, found: Tensor, **fields: int) -> tuple[array, object]:
    """The model as the kernel reads it, and what must live as long."""
    weights = pack(*(Weight(each.numel(), 0, each.data_ptr()) for each in model.tensors))
    layers = pack(*model.layers)
    packed = pack(
        Training(
            **model.fields, **fields, wide=found.dtype is torch.float64, depth=len(model.layers),
            tensors=len(model.tensors), layers=address(layers), weights=address(weights),
            whole=step.SPAN, span=step.SPAN,
        )
    )  # fmt: skip
    return packed, (weights, layers)
