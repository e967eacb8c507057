"""A model that reads one token at a time and keeps only its state."""

import operator
from typing import Any, Protocol

import torch
from torch import Tensor

from csprop.errors import InputError, described


class SingleSteps(Protocol):
    """A model prepared for single steps, which are faster than calls."""

    @property
    def state(self) -> Tensor: ...

    def step(self, token: int) -> Tensor: ...


class Steppable(Protocol):
    """The methods of a model that a stream needs."""

    def initial_state(self, batch: int = 1) -> Tensor: ...
    def stepper(self, state: Tensor) -> SingleSteps: ...
    def check_token(self, token: int) -> None: ...


class Stream:
    """The running state of one sequence: memory and time per token do not grow.

    Make or reset it after the model's weights have changed, because the compiled kernel has a copy.
    """

    def __init__(self, model: Steppable) -> None:
        self.model = model
        self.reset()

    def reset(self) -> None:
        """Start a new sequence."""
        self.state = self.model.initial_state()

    @property
    def state(self) -> Tensor:
        """A copy of the state; it can be set to a tensor of the same shape and kind of numbers."""
        return self._steps.state.clone()

    @state.setter
    def state(self, state: Tensor) -> None:
        like = self.model.initial_state()
        if not _is_like(state, like):
            numbers = "floating-point" if like.is_floating_point() else "integer"
            raise InputError(
                f"state must be a dense {numbers} tensor of shape {tuple(like.shape)}; "
                f"got {described(state)}"
            )
        self._steps = self.model.stepper(state.detach().to(like, copy=True))

    def __getstate__(self) -> dict[str, Any]:
        return {"model": self.model, "state": self.state}

    def __setstate__(self, values: dict[str, Any]) -> None:
        self.model, self.state = values["model"], values["state"]

    @torch.no_grad()
    def step(self, token: int) -> Tensor:
        """Read one token, and return the scores of all classes for the sequence so far."""
        try:
            token = operator.index(token)
        except (TypeError, RuntimeError) as error:
            raise InputError(f"a token must be a whole number; got {described(token)}") from error
        self.model.check_token(token)
        return self._steps.step(token)


class Steps:
    """Single steps of a model in torch operations; maps of routers are hard in them."""

    def __init__(self, model: Any, state: Tensor) -> None:
        self.model, self.state = model, state

    def step(self, token: int) -> Tensor:
        """Return the scores after one more token."""
        tokens = torch.tensor([token], device=self.state.device)
        if self.model.routers:
            self.state, scores = self.model.step(self.state, tokens)
            return scores[0]
        scores, self.state = self.model(tokens[None], self.state, return_state=True)  # with its hooks
        return scores[0, 0]


def _is_like(state: object, like: Tensor) -> bool:
    return (
        isinstance(state, Tensor)
        and state.layout is torch.strided
        and not state.is_nested
        and state.shape == like.shape
        and state.is_meta == like.is_meta
        and not state.is_complex()
        and state.is_floating_point() == like.is_floating_point()
    )
