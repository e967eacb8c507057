"""Places of a router that no training row tells apart become one.

A router has more places than its machine has states, so a state may have several places, copies of each
other. A copy that few rows reach may have learned little: some token leads from it to a wrong place.
Merging leads the moves to one place to another place, wherever the labels of the rows allow it. In the
end a state has one place, and all rows that reach the state speak for it.

A table has for each place and token the place to which it leads, (D, V); the start is place 0.
"""

from typing import TypeGuard

import torch
from jaxtyping import Bool, Int64
from torch import Tensor

from csprop.exact.examples import Labelled
from csprop.nn.compiled import codes
from csprop.nn.config import KINDS
from csprop.nn.model import CSP
from csprop.tasks.base import UNLABELLED

GLANCE_ROWS = 64
"""Rows that are tried first: they refuse nearly every pair of places that are no copies."""


def is_router(model: object) -> TypeGuard[CSP]:
    """Whether a model is one layer that routes by the token, so that its state is a place."""
    if not isinstance(model, CSP) or len(model.layers) > 1 or not model.routers:
        return False
    options, kind = model.layers[0].options, KINDS["router"] | {"places": model.config.width}
    return model.routers[0].by_token and all(getattr(options, name) == kind[name] for name in kind)


@torch.no_grad()
def merge_places(model: CSP, examples: Labelled) -> Bool[Tensor, "1 D"]:
    """Merge places, those that are reached least first, each into the place that is best for the rows.

    Two places are merged only if no more labels are misclassified than before.

    Args:
        model: a router, whose maps are changed.
        examples: the labelled rows.

    Returns:
        The places that any input still reaches.
    """
    (router,) = model.routers
    before = router.targets().T  # (D, V)
    held = torch.eye(model.config.width)
    answers = model.decoder(torch.stack([held, torch.zeros_like(held)], dim=1)[:, None])[:, 0].argmax(1)
    merging = _Merging(before, answers, examples)
    for place in merging.reached.argsort(stable=True).tolist():
        if place and merging.reached[place]:
            merging.drop(place)
    for place, token in (merging.table != before).nonzero().tolist():
        old, new = int(before[place, token]), int(merging.table[place, token])
        router.maps[token, 0, [old, new], place] = router.maps[token, 0, [new, old], place]
    return codes(model)[:, 0].any(dim=0)[None]


class _Merging:
    """A table, the places that it leads the rows through, and the labels of each row that it misses."""

    def __init__(
        self, table: Int64[Tensor, "D V"], answers: Int64[Tensor, " D"], examples: Labelled
    ) -> None:
        self.table, self.answers, self.examples = table, answers, examples
        self.places, self.misses = self._followed(table, torch.arange(len(examples.tokens)))

    @property
    def reached(self) -> Int64[Tensor, " D"]:
        """How often the rows reach each place."""
        return self.places.flatten().bincount(minlength=len(self.table))

    def drop(self, place: int) -> None:
        """Lead all that leads to a place to the one with which fewest labels are missed, if to any."""
        rows = (self.places == place).any(dim=1).nonzero()[:, 0]
        others = [each for each in self.reached.nonzero()[:, 0].tolist() if each != place]
        tables = [torch.where(self.table == place, other, self.table) for other in others]
        more = [self._more(table, rows) for table in tables]
        if min(more, default=1) <= 0:
            self.table = tables[more.index(min(more))]
            self.places[rows], self.misses[rows] = self._followed(self.table, rows)

    def _more(self, table: Int64[Tensor, "D V"], rows: Int64[Tensor, " n"]) -> int:
        """How many more labels of some rows a table misses; of the first rows, if it is more there."""
        more = 0
        for part in (rows[:GLANCE_ROWS], rows[GLANCE_ROWS:]):
            if more <= 0 and len(part):
                more += int((self._followed(table, part)[1] - self.misses[part]).sum())
        return more

    def _followed(
        self, table: Int64[Tensor, "D V"], rows: Int64[Tensor, " n"]
    ) -> tuple[Int64[Tensor, "n T"], Int64[Tensor, " n"]]:
        """The places after every token of some rows, and the number of labels that each row misses."""
        tokens, labels = self.examples.tokens[rows], self.examples.labels[rows]
        place, places = torch.zeros_like(rows), []
        for column in tokens.unbind(1):
            place = table[place, column]
            places.append(place)
        visited = torch.stack(places, dim=1)
        wrong = (self.answers[visited] != labels) & (labels != UNLABELLED)
        return visited, wrong.sum(dim=1)
