"""The scores of a model after every sequence of one length, where the compiled kernel can give them."""

from torch import Tensor

from csprop.nn.model import CSP
from csprop.nn.training import described, unreadable
from csprop.ops.native import every


def every_score(model: object, symbols: int, length: int) -> Tensor | None:
    """The scores after every sequence of the first `symbols` tokens, by a walk that shares prefixes.

    Args:
        model: any model.
        symbols: the number of tokens to write sequences with.
        length: their length, at least 1.

    Returns:
        (symbols^length, classes), the sequences in lexicographic order; None where the kernel does not
        know the model, or its routers are as in training.

    Raises:
        InputError: a count is not exact.
    """
    if not isinstance(model, CSP) or unreadable(model) or symbols > model.config.vocab_size:
        return None
    if model.training and model.routers:
        return None
    return every.scores(described(model), symbols, length)
