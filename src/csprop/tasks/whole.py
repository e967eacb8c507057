"""Tasks that ask about whole rows: a prefix of a row has no answer, and no proof exists."""

from typing import TYPE_CHECKING

import numpy as np

from csprop.data.draws import TorchDraws, Whole
from csprop.data.examples import UNLABELLED, Examples
from csprop.tasks.base import Task

if TYPE_CHECKING:
    from torch import Generator


class WholeTask(Task):
    """A task whose sequences have a form of their own, with one answer at the end.

    Only the last step of a row has a label. Sequences of another form have class 0 or any other one,
    which means nothing, so that nothing is tested on every input. Neither a finite machine nor
    counters solve such a task.
    """

    finite = False
    total = False

    def text(self, sequence: Whole | list[int]) -> str:
        """The sequence as it is written."""
        return "".join(self.vocab[token] for token in sequence)

    def encoded(self, texts: list[str], length: int) -> Whole:
        """The tokens of written sequences of one length, (N, T)."""
        numbers = [[self.vocab.index(each) for each in text] for text in texts]
        return np.array(numbers, np.int64).reshape(len(texts), length)

    def classify(self, tokens: Whole) -> Whole:
        """The class of every row after its last token, and no label before it."""
        labels = np.full(tokens.shape, UNLABELLED, np.int64)
        labels[:, -1] = [self.truth(row) for row in tokens.tolist()]
        return labels

    def examples(self, count: int, length: int, generator: "Generator") -> Examples:
        """Rows of all lengths that the task has up to `length`, each with the same probability."""
        import torch

        self.check_length(length)
        lengths = [each for each in range(1, length + 1) if self.has_length(each)]
        drawn = np.bincount(TorchDraws(generator).below(len(lengths), (count,)), minlength=len(lengths))
        tokens = torch.zeros(count, length, dtype=torch.int64)
        labels, answers = torch.full_like(tokens, UNLABELLED), torch.zeros_like(tokens).bool()
        end = 0
        for size, rows in zip(lengths, drawn.tolist(), strict=True):
            some = slice(end, end := end + rows)
            tokens[some, :size] = self.sample(rows, size, generator)
            labels[some, :size] = self.labels(tokens[some, :size])
            answers[some, size - 1] = True
        return Examples.of(tokens, labels, answers)
