"""What locking and proof ask of a model, and adapters for models that csprop did not make.

A state is (B, L, M, D): L layers of D channels, each of M numbers. A CSP is such a model as it stands.
"""

from collections.abc import Callable
from typing import Protocol

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from csprop.errors import InputError

Settle = Callable[[int, Tensor], Tensor]
"""(layer, its new state (B, M, D)) to what the layer keeps and passes on."""


class Stepwise(Protocol):
    """A model that reads one token at a time."""

    def initial_state(self, batch: int = 1) -> Float[Tensor, "B L M D"]:
        """Where every sequence starts."""
        ...

    def step(
        self, state: Float[Tensor, "B L M D"], tokens: Int64[Tensor, " B"], settle: Settle, /
    ) -> tuple[Float[Tensor, "B L M D"], Float[Tensor, "B V"]]:
        """States and scores after one more token, each layer's state as `settle` leaves it."""
        ...


class FromStep(nn.Module):
    """Any function `step(state (B, D), tokens (B,)) -> (state, scores)` with a first state (D,)."""

    def __init__(
        self,
        start: Float[Tensor, " D"],
        step: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]],
    ) -> None:
        super().__init__()
        self.register_buffer("start", start.detach().clone())
        self.function = step

    def initial_state(self, batch: int = 1) -> Tensor:
        return self.get_buffer("start").expand(batch, 1, 1, -1)

    def step(self, state: Tensor, tokens: Tensor, settle: Settle) -> tuple[Tensor, Tensor]:
        new, scores = self.function(state[:, 0, 0], tokens)
        return settle(0, new[:, None])[:, None], scores


class FromRNN(nn.Module):
    """An `nn.RNN`, `nn.GRU` or `nn.LSTM` between an embedding and a head that reads its top layer.

    A channel has one number, or the two of an LSTM's cell: what it shows and what it keeps.
    """

    def __init__(self, embedding: nn.Module, rnn: nn.RNNBase, head: nn.Module) -> None:
        super().__init__()
        if rnn.bidirectional or rnn.proj_size:
            raise InputError("an RNN that reads backwards, or projects its state, has no single step")
        self.embedding, self.rnn, self.head = embedding, rnn, head
        self.order = 2 if isinstance(rnn, nn.LSTM) else 1

    def initial_state(self, batch: int = 1) -> Tensor:
        like = next(self.rnn.parameters())
        return like.new_zeros(batch, self.rnn.num_layers, self.order, self.rnn.hidden_size)

    def step(self, state: Tensor, tokens: Tensor, settle: Settle) -> tuple[Tensor, Tensor]:
        _, last = self._run(tokens[:, None], state)
        settled = torch.stack([settle(layer, h) for layer, h in enumerate(last.unbind(1))], dim=1)
        return settled, self.head(settled[:, -1, 0])

    def forward(self, tokens: Int64[Tensor, "B T"]) -> Float[Tensor, "B T V"]:
        """Scores after every token, for training."""
        seen, _ = self._run(tokens, self.initial_state(len(tokens)))
        return self.head(seen)

    def _run(self, tokens: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """The top layer's outputs (B, T, D), and the last state of all."""
        x = self.embedding(tokens)
        parts = tuple(part.transpose(0, 1).contiguous() for part in state.unbind(2))  # (L, B, D) each
        seen, last = self.rnn(
            x if self.rnn.batch_first else x.transpose(0, 1), parts if self.order == 2 else parts[0]
        )
        lasts = last if self.order == 2 else (last,)
        return (
            seen if self.rnn.batch_first else seen.transpose(0, 1),
            torch.stack([each.transpose(0, 1) for each in lasts], dim=2),
        )
