"""The interface that locking and proof need of a model, and adapters for other models.

A state is (B, L, M, D): L layers of D channels, each with M numbers. A `CSP` has this interface.
"""

from collections.abc import Callable
from typing import Protocol

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from csprop.errors import InputError
from csprop.nn.layer import CSPLayer

Snap = Callable[[int, Tensor], Tensor]
"""(layer, its new state (B, M, D)) to the state that the layer keeps and passes on."""


class Stepwise(Protocol):
    """A model that reads one token at a time."""

    def initial_state(self, batch: int = 1) -> Float[Tensor, "B L M D"]:
        """Return the state before the first token, for each row."""
        ...

    def step(
        self, state: Float[Tensor, "B L M D"], tokens: Int64[Tensor, " B"], snap: Snap, /
    ) -> tuple[Float[Tensor, "B L M D"], Float[Tensor, "B V"]]:
        """Return the states and scores after a token; `snap` is applied to each layer's state."""
        ...


class FromStep(nn.Module):
    """An adapter for a function of one step.

    Args:
        start: the state before the first token, (D,).
        step: a function of states (B, D) and tokens (B,) that returns the new states and the scores
            (B, classes).
    """

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

    def step(self, state: Tensor, tokens: Tensor, snap: Snap) -> tuple[Tensor, Tensor]:
        new, scores = self.function(state[:, 0, 0], tokens)
        return snap(0, new[:, None])[:, None], scores


class FromRNN(nn.Module):
    """An adapter for an `nn.RNN`, `nn.GRU` or `nn.LSTM` between an embedding and a head.

    A channel has one number, or two for an LSTM: its output and its cell state.

    Args:
        embedding: maps tokens to the inputs of the RNN.
        rnn: the recurrent layers; neither bidirectional nor with a projection.
        head: maps the outputs of the top layer to scores.

    Raises:
        InputError: the RNN is bidirectional, or projects its state.
    """

    def __init__(self, embedding: nn.Module, rnn: nn.RNNBase, head: nn.Module) -> None:
        super().__init__()
        if rnn.bidirectional or rnn.proj_size:
            raise InputError(
                "rnn must be neither bidirectional nor have proj_size: it has no single step"
            )
        self.embedding, self.rnn, self.head = embedding, rnn, head
        self.order = 2 if isinstance(rnn, nn.LSTM) else 1

    def initial_state(self, batch: int = 1) -> Tensor:
        like = next(self.rnn.parameters())
        return like.new_zeros(batch, self.rnn.num_layers, self.order, self.rnn.hidden_size)

    def step(self, state: Tensor, tokens: Tensor, snap: Snap) -> tuple[Tensor, Tensor]:
        _, last = self._run(tokens[:, None], state)
        snapped = torch.stack([snap(layer, h) for layer, h in enumerate(last.unbind(1))], dim=1)
        return snapped, self.head(snapped[:, -1, 0])

    def forward(self, tokens: Int64[Tensor, "B T"]) -> Float[Tensor, "B T V"]:
        """Return the scores after every token, for training."""
        seen, _ = self._run(tokens, self.initial_state(len(tokens)))
        return self.head(seen)

    def _run(self, tokens: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Return the outputs of the top layer (B, T, D), and the last states of all layers."""
        x, swap = self.embedding(tokens), not self.rnn.batch_first
        parts = tuple(part.transpose(0, 1).contiguous() for part in state.unbind(2))  # (L, B, D) each
        seen, last = self.rnn(x.transpose(0, 1) if swap else x, parts if self.order == 2 else parts[0])
        lasts = last if self.order == 2 else (last,)
        states = torch.stack([each.transpose(0, 1) for each in lasts], dim=2)
        return seen.transpose(0, 1) if swap else seen, states


class FromLayer(nn.Module):
    """An adapter for a `csprop.CSPLayer` between an embedding and a head.

    For a network that reads features, such as measurements in which tokens are hidden by noise, the
    embedding gives the features of each token without noise: `nn.Embedding.from_pretrained(features)`,
    followed by the modules before the layer. The proof is then about tokens, and
    `csprop.proof.noise.radius` says how much noise changes nothing.

    Args:
        embedding: maps tokens to the inputs of the layer; `nn.Identity()` if this takes tokens itself.
        layer: the recurrent layer, not bidirectional.
        head: maps the outputs of the layer to scores.

    Raises:
        InputError: the layer has no single step, or tokens are embedded twice.
    """

    def __init__(self, embedding: nn.Module, layer: CSPLayer, head: nn.Module) -> None:
        super().__init__()
        if layer.bidirectional or (layer.vocab_size and not isinstance(embedding, nn.Identity)):
            raise InputError(
                "layer must not be bidirectional, for it has no single step; if it has a vocab_size, "
                "give nn.Identity() as `embedding`"
            )
        self.embedding, self.layer, self.head = embedding, layer, head

    @property
    def cells(self) -> list[nn.Module]:
        """The modules that hold the states, first layer first."""
        return [getattr(block, "cell", block) for block in self.layer.layers]

    def initial_state(self, batch: int = 1) -> Tensor:
        return self.layer.initial_state(batch)

    def step(self, state: Tensor, tokens: Tensor, snap: Snap) -> tuple[Tensor, Tensor]:
        x, last = self.layer.step(self.embedding(tokens), state, snap)
        return last, self.head(x)

    def forward(self, tokens: Int64[Tensor, "B T"]) -> Float[Tensor, "B T V"]:
        """Return the scores after every token."""
        x = self.embedding(tokens)
        swap = not self.layer.batch_first
        y = self.layer(x.transpose(0, 1) if swap else x)[0]
        return self.head(y.transpose(0, 1) if swap else y)
