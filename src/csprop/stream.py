"""A model that reads one token at a time and keeps only its state."""

from typing import Protocol

import torch
from torch import Tensor


class Steppable(Protocol):
    """What a stream needs of a model."""

    def initial_state(self, batch: int = 1) -> Tensor: ...
    def __call__(
        self, tokens: Tensor, state: Tensor | None = None, *, return_state: bool = False
    ) -> tuple[Tensor, Tensor]: ...


class Stream:
    """The running state of one sequence: memory and time per token do not grow."""

    def __init__(self, model: Steppable) -> None:
        self.model = model
        self.reset()

    def reset(self) -> None:
        """Start a new sequence."""
        with torch.no_grad():
            self.state = self.model.initial_state()

    @torch.no_grad()
    def step(self, token: int) -> Tensor:
        """Read one token; the scores of all classes, given everything read so far."""
        tokens = torch.tensor([[token]], device=self.state.device)
        logits, self.state = self.model(tokens, self.state, return_state=True)
        return logits[0, 0]
