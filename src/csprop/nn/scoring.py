"""The scores of a model where the compiled kernel can give them: of rows, or after every sequence."""

from torch import Tensor

from csprop.nn.describe import describe_model, unreadable
from csprop.nn.model import CSP
from csprop.ops.native import forward


def row_scores(model: object, tokens: Tensor, labels: Tensor) -> Tensor | None:
    """Return the scores at the labelled steps of rows (B, T), in their order, (labels, classes).

    A label below 0 is not a label. Return None if the kernel does not know the model, or if it has
    routers and is in training mode.

    Raises:
        InputError: a token or a label is outside of its range, or a count is not exact.
    """
    known = _known(model)
    return None if known is None else forward.row_scores(describe_model(known), [(tokens, labels)])


def every_score(model: object, symbols: int, length: int) -> Tensor | None:
    """Return the scores after every sequence of the first `symbols` tokens, in lexicographic order.

    They are (symbols^length, classes), and prefixes are computed once. Return None in the same cases as
    `row_scores`.

    Raises:
        InputError: a count is not exact.
    """
    known = _known(model)
    if known is None or symbols > known.config.vocab_size or length < 1:
        return None
    return forward.every_score(describe_model(known), symbols, length)


def _known(model: object) -> CSP | None:
    """Return the model, if the kernel reads it as `eval` does."""
    if not isinstance(model, CSP) or unreadable(model) or (model.training and model.routers):
        return None
    return model
