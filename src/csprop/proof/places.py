"""The table of a router, repaired where its training rows say that it is wrong.

Single moves are redirected first, beginning with those after which rows are wrong most often: each
leads to the place with which fewest labels are missed. Then places are merged. A router has more places
than its machine has states, so a state may have several places, copies of each other; from one that few
rows reach, some token may lead to a wrong place, and no label tells. So all moves to a place lead to
another one, if no more labels are missed then. In the end a state has one place, and all rows that
reach the state speak for it.

A table has for each place and token the place to which it leads, (D, V); the start is place 0.
"""

from typing import TypeGuard

import torch
from jaxtyping import Bool, Int64
from torch import Tensor

from csprop.data.examples import UNLABELLED
from csprop.nn.compile import codes
from csprop.nn.model import CSP
from csprop.progress import check_time
from csprop.proof.examples import Labelled

GLANCE_ROWS = 64  # rows that are tried first: they refuse nearly every change that is wrong
WORK, CALL = 1 << 33, 1 << 12
"""Steps of rows that may be followed, about half a minute, after which the table stays as it is; and
what it costs to begin a step of any number of rows."""


def is_router(model: object) -> TypeGuard[CSP]:
    """Return True if a model is one layer that routes by the token; then its state is a place."""
    if not isinstance(model, CSP) or len(model.layers) > 1 or not model.routers:
        return False
    router = model.routers[0]
    return router.by_token and router.places == model.config.width


@torch.no_grad()
def repair(model: CSP, examples: Labelled) -> Bool[Tensor, "1 D"]:
    """Redirect moves and merge places of a router; return the places that any input still reaches.

    No more labels are missed than before.
    """
    (router,) = model.routers
    before = router.targets().T  # (D, V)
    held = torch.eye(model.config.width).to(router.maps)
    answers = model.decoder(torch.stack([held, torch.zeros_like(held)], dim=1)[:, None])[:, 0].argmax(1)
    table = _Repair(before, answers, examples)
    while table.redirect():
        pass
    table.merge()
    for place, token in (table.targets != before).nonzero().tolist():
        old, new = int(before[place, token]), int(table.targets[place, token])
        router.maps[token, 0, [old, new], place] = router.maps[token, 0, [new, old], place]
    return codes(model)[:, 0].any(dim=0)[None]


class _Repair:
    """A table, the places that it leads the rows through, and where it misses their labels."""

    def __init__(
        self, targets: Int64[Tensor, "D V"], answers: Int64[Tensor, " D"], examples: Labelled
    ) -> None:
        self.targets, self.answers, self.examples = targets, answers, examples
        known = (examples.labels != UNLABELLED).flip(1).cumsum(dim=1).flip(1)
        self.inside = known > 0  # up to the last label of each row: the rest may be padding
        self.work = 0
        self.places, self.wrong = self._followed(targets, torch.arange(len(examples.tokens)))

    def redirect(self) -> bool:
        """Redirect every move with which fewer labels are missed elsewhere; whether there was one."""
        missed = int(self.wrong.sum())
        for number in self._suspects():
            if self.wrong.any() and self.work < WORK:
                move = torch.arange(self.targets.numel()) == number
                self._lead(move.view_as(self.targets), fewer=1)
        return int(self.wrong.sum()) < missed

    def merge(self) -> None:
        """Merge places, the one that is reached least first, if no more labels are missed."""
        for place in self._reached.argsort(stable=True).tolist():
            if place and self.work < WORK:  # every row begins at the first one
                self._lead(self.targets == place, fewer=0)

    @property
    def _reached(self) -> Int64[Tensor, " D"]:
        """The visits of the rows to each place, the start included."""
        at = torch.cat([torch.zeros_like(self.places[:, 0]), self.places[self.inside]])
        return at.bincount(minlength=len(self.targets))

    @property
    def _left(self) -> Int64[Tensor, "N T"]:
        """The places that the rows leave with each token."""
        return torch.cat([torch.zeros_like(self.places[:, :1]), self.places[:, :-1]], dim=1)

    def _suspects(self) -> list[int]:
        """The moves up to the first miss of a row; first those that are most often in such rows."""
        at_first = (self.wrong.cumsum(dim=1) - self.wrong.long() == 0) & self.inside
        moves = self._left * self.targets.shape[1] + self.examples.tokens
        size = self.targets.numel()
        taken = moves[at_first].bincount(minlength=size)
        missing = moves[at_first & self.wrong.any(dim=1, keepdim=True)].bincount(minlength=size)
        order = (missing / taken.clamp(min=1)).argsort(descending=True, stable=True)
        return order[missing[order] > 0].tolist()

    def _lead(self, moves: Bool[Tensor, "D V"], fewer: int) -> None:
        """Lead some moves to the place with which fewest labels are missed, if as many fewer are."""
        rows = moves[self._left, self.examples.tokens].any(dim=1).nonzero()[:, 0]
        if not len(rows):
            return
        now = self.targets[moves][0]
        others = [place for place in self._reached.nonzero()[:, 0] if place != now]
        tables = [torch.where(moves, place, self.targets) for place in others]
        more = [self._more(table, rows) for table in tables]
        if min(more, default=1) <= -fewer:
            self.targets = tables[more.index(min(more))]
            self.places[rows], self.wrong[rows] = self._followed(self.targets, rows)

    def _more(self, targets: Int64[Tensor, "D V"], rows: Int64[Tensor, " n"]) -> int:
        """Return how many more labels a table misses, of some rows or of the first of them."""
        more = 0
        for part in (rows[:GLANCE_ROWS], rows[GLANCE_ROWS:]):
            check_time()
            if more <= 0 and len(part):
                more += int(self._followed(targets, part)[1].sum() - self.wrong[part].sum())
        return more

    def _followed(
        self, targets: Int64[Tensor, "D V"], rows: Int64[Tensor, " n"]
    ) -> tuple[Int64[Tensor, "n T"], Bool[Tensor, "n T"]]:
        """The places after every token of some rows, and whether a label is missed there."""
        tokens, labels = self.examples.tokens[rows], self.examples.labels[rows]
        self.work += tokens.numel() + CALL * tokens.shape[1]
        place, places = torch.zeros_like(rows), []
        for column in tokens.unbind(1):
            place = targets[place, column]
            places.append(place)
        visited = torch.stack(places, dim=1)
        return visited, (self.answers[visited] != labels) & (labels != UNLABELLED)
