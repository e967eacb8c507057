"""Labelled sequences, and how a model's scores do on them."""

from dataclasses import dataclass
from typing import NamedTuple

import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor

from csprop.errors import InputError
from csprop.tasks.base import UNLABELLED, Examples

LEAD = 0.25
"""What a simpler model must keep of the lead of the right scores."""


@dataclass(frozen=True)
class Labelled:
    """Sequences and what is known of their answers."""

    tokens: Int64[Tensor, "N T"]
    labels: Int64[Tensor, "N T"]  # UNLABELLED where nothing is known

    @classmethod
    def of(cls, examples: Examples) -> "Labelled":
        """The labels of some examples, those included that are no answers."""
        return cls(examples.tokens, examples.labels)

    def first(self, rows: int) -> "Labelled":
        return Labelled(self.tokens[:rows], self.labels[:rows])

    def judge(self, scores: Float[Tensor, "N T C"]) -> "Judgement":
        known = self.labels != UNLABELLED
        given, labels = scores[known], self.labels[known]
        if not len(labels):
            raise InputError("there are no labels to go by: give at least one")
        right = given.gather(1, labels[:, None])[:, 0]
        others = given.scatter(1, labels[:, None], float("-inf")).amax(dim=1)
        return Judgement(
            misses=int((given.argmax(dim=1) != labels).sum()),
            loss=float(F.cross_entropy(given, labels)),
            lead=float((right - others).min()),
        )


class Judgement(NamedTuple):
    """Scores against what is known."""

    misses: int
    loss: float
    lead: float
    """The least by which a right score leads: below 0 where one is missed."""

    def worse_than(self, before: "Judgement") -> bool:
        """Whether more is missed, or little is left of the lead."""
        thin = before.lead > 0 and self.lead < LEAD * before.lead
        return thin or self.misses > before.misses
