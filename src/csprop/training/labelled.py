"""Labelled sequences, and the errors of a model's scores on them."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor

from csprop.data.examples import UNLABELLED, Examples
from csprop.errors import InputError
from csprop.progress import check_time
from csprop.training.batches import supervised
from csprop.training.presets import Recipe

MOST_PADDED = 1 << 20  # tokens of the examples, with their padding, up to which all of them are used
LEAD = 0.25  # the fraction of the margin of the correct scores that a simplified model must keep


@dataclass(frozen=True)
class Labelled:
    """Sequences and their labels."""

    tokens: Int64[Tensor, "N T"]
    labels: Int64[Tensor, "N T"]  # UNLABELLED where no label is known

    @classmethod
    def of(cls, examples: Examples, recipe: Recipe | None = None) -> "Labelled":
        """Return all labels of some examples, not only the labels of answers; or those of a recipe.

        If there are very many examples, or a few much longer than the others, a part is chosen, spread
        evenly and without the longest. A proof always covers all rows of a file, not only these.
        """
        if len(examples) * examples.longest > MOST_PADDED:
            count = max(1, MOST_PADDED * len(examples) // (4 * int(examples.lengths.sum())))
            step = -(-len(examples) // count)
            examples = examples[np.arange(0, len(examples), step)]
            lengths = np.sort(examples.lengths)
            fits = lengths * np.arange(1, len(lengths) + 1) <= MOST_PADDED
            longest = lengths[max(0, int(fits.sum()) - 1)]
            examples = examples[examples.lengths <= longest]
        matrices = examples.padded()
        return cls(matrices.tokens, supervised(matrices, recipe) if recipe else matrices.labels)

    def first(self, rows: int) -> "Labelled":
        """The first rows."""
        return Labelled(self.tokens[:rows], self.labels[:rows])

    def judge(self, scores: Float[Tensor, "N T C"]) -> "Judgement":
        """Compare scores with the labels; raise InputError if there are none."""
        check_time()
        known = self.labels != UNLABELLED
        chosen, labels = scores[known], self.labels[known]
        if not len(labels):
            raise InputError("the examples have no labels: give at least one")
        right = chosen.gather(1, labels[:, None])[:, 0]
        others = chosen.scatter(1, labels[:, None], float("-inf")).amax(dim=1)
        return Judgement(
            misses=int((chosen.argmax(dim=1) != labels).sum()),
            loss=float(F.cross_entropy(chosen, labels)),
            lead=float((right - others).min()),
        )


class Judgement(NamedTuple):
    """A comparison of scores with labels."""

    misses: int
    loss: float
    lead: float
    """The smallest margin of a correct score over the next one; negative if there is an error."""

    def worse_than(self, before: "Judgement") -> bool:
        """Return True if there are more errors, or too little of the margin is left."""
        thin = before.lead > 0 and self.lead < LEAD * before.lead
        return thin or self.misses > before.misses
