"""Locked models that count: networks that are run as the machine which they compute.

The counts of the network are whole numbers already, and what it decides depends on them through a
window. So it is a machine with counters, whose steps are looked up. Its counts are 64-bit numbers,
and a sequence that could lead beyond 2^62 is refused.
"""

from collections.abc import Sequence
from typing import TypeGuard

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn

from csprop.automata.automaton import CounterAutomaton
from csprop.automata.counting import MOST_COUNT
from csprop.cells.counter import CounterBlock
from csprop.cells.switch import SwitchBlock
from csprop.errors import InputError
from csprop.nn.decoder import LinearDecoder
from csprop.nn.model import CSP
from csprop.ops.backends import exporting
from csprop.ops.scan import over_time
from csprop.proof.bounds import POINTS, Weights
from csprop.proof.counters import Counting, counts, tabulate
from csprop.proof.locked import LockedModel


def is_counter(model: object) -> TypeGuard[CSP]:
    """Return True if a model counts."""
    return isinstance(model, CSP) and counts(model.config)


def counting_parts(model: CSP) -> tuple[CounterBlock, SwitchBlock, nn.Linear]:
    """Return the counters, the switches and the linear map of the decoder."""
    counter, switch = model.layers
    assert isinstance(counter, CounterBlock)
    assert isinstance(switch, SwitchBlock)
    assert isinstance(model.decoder, LinearDecoder)
    return counter, switch, model.decoder.linear


def weights_of(network: CSP) -> Weights:
    """Return the weights of a network that counts."""
    weights = network.state_dict()
    if not network.routers:
        _, switch, _ = counting_parts(network)
        weights |= dict(zip(POINTS, (switch.start, switch.target), strict=True))
    return {name: value.detach().cpu().numpy() for name, value in weights.items()}


class LockedCounter(LockedModel):
    """A network that counts, run as a machine. A state is one of the control, and k counts: (B, 1 + k).

    Raises:
        NotFinite: some decision of the network is not the same for all counts beyond a window.
    """

    def __init__(self, network: CSP) -> None:
        super().__init__()
        self.network, self.symbols = network, network.config.vocab_size
        self.counting: Counting = tabulate(weights_of(network))
        self.machine = self.counting.machine
        self.increments = np.array(self.machine.increments, np.int64).reshape(self.symbols, -1)

    @property
    def routes(self) -> bool:
        """True if the layer above the counters is a router."""
        return bool(self.network.routers)

    def initial_state(self, batch: int = 1) -> Int64[Tensor, "B K"]:
        """The start of the control and counts of 0, for each row."""
        return torch.zeros(batch, 1 + self.machine.counters, dtype=torch.int64)

    def run(
        self, tokens: Int64[Tensor, "B T"], state: Tensor, reset: Bool[Tensor, "B T"] | None
    ) -> tuple[Float[Tensor, "B T C"], Tensor]:
        """The scores after every token, 1 for the answer and 0 for other classes, and the last states.

        Raises:
            InputError: a state is not a state of the control, or a count could become too large.
        """
        if exporting():
            return self._in_steps(tokens, state, reset)
        self._check_state(state, tokens.shape[1])
        counts = self._counts(tokens, state[:, 1:], reset)
        symbols = tokens.numpy() * self.machine.views + self.machine.view(counts)
        control = self.machine.control
        visited = control.visit(symbols, state[:, 0].numpy(), None if reset is None else reset.numpy())
        said = np.array([each or 0 for each in control.outputs])[visited]
        scores = nn.functional.one_hot(torch.from_numpy(said), self.network.config.num_classes).float()
        if not tokens.shape[1]:
            return scores, state
        last = np.concatenate([visited[:, -1:], counts[:, -1]], axis=1)
        return scores, torch.from_numpy(last)

    def _counts(self, tokens: Tensor, first: Tensor, reset: Tensor | None) -> np.ndarray:
        """The counts after every token, (B, T, k)."""
        added = self.increments[tokens.numpy()]
        sums = first.numpy()[:, None] + added.cumsum(axis=1)
        if reset is None or not tokens.shape[1]:
            return sums
        # What was counted before the last reset is taken off again.
        before = np.where(reset.numpy(), np.arange(tokens.shape[1]), -1)
        last = np.maximum.accumulate(before, axis=1)[:, :, None]
        gone = np.take_along_axis(sums - added, np.maximum(last, 0), axis=1)
        return sums - np.where(last >= 0, gone, 0)

    def _in_steps(
        self, tokens: Int64[Tensor, "B T"], state: Tensor, reset: Bool[Tensor, "B T"] | None
    ) -> tuple[Float[Tensor, "B T C"], Tensor]:
        """The same in torch, as steps that `torch.onnx.export` can see."""
        machine, window = self.machine, self.machine.window
        sizes = [(2 * window + 1) ** place for place in reversed(range(machine.counters))]

        def step(
            state: Tensor,
            tokens: Tensor,
            reset: Tensor | None,
            increments: Tensor,
            following: Tensor,
            sizes: Tensor,
        ) -> Tensor:
            state = state if reset is None else state.masked_fill(reset[:, None], 0)
            counts = state[:, 1:] + increments[tokens]
            view = ((counts.clamp(-window, window) + window) * sizes).sum(dim=1)
            control = following[state[:, 0], tokens * machine.views + view]
            return torch.cat([control[:, None], counts], dim=1)

        tables = (machine.increments, machine.control.transitions, sizes)
        fixed = [torch.tensor(each, dtype=torch.int64) for each in tables]
        visited = over_time(step, state, tokens, reset, fixed=fixed)
        said = torch.tensor([each or 0 for each in machine.control.outputs])
        scores = torch.eye(self.network.config.num_classes)[said]
        return scores[visited[:, :, 0]], visited[:, -1]

    def _check_state(self, state: Int64[Tensor, "B K"], steps: int) -> None:
        control, counts = state[:, 0], state[:, 1:]
        states = len(self.machine)
        if control.numel() and not 0 <= int(control.min()) <= int(control.max()) < states:
            raise InputError(f"state[:, 0] must have numbers from 0 to {states - 1}")
        most = steps * int(np.abs(self.increments).max(initial=0))
        if counts.numel() and most + max(map(abs, map(int, counts.aminmax()))) > MOST_COUNT:
            raise InputError("the sequence is so long that a count could exceed 2^62")

    def stepper(self, state: Int64[Tensor, "1 K"]) -> "_Steps":
        """Single steps from a state, for `Stream`."""
        self._check_state(state, 1)
        return _Steps(self, state)

    def automaton(self, vocab: Sequence[str], classes: Sequence[str], words: bool) -> CounterAutomaton:
        """The machine, with names for its tokens and classes."""
        return CounterAutomaton.from_machine(self.machine, vocab, classes, words)


class _Steps:
    """Single steps for a stream."""

    def __init__(self, model: LockedCounter, state: Tensor) -> None:
        self.machine, (self.place, *self.counts) = model.machine.oracle, state[0].tolist()
        self.classes = torch.eye(model.network.config.num_classes)

    @property
    def state(self) -> Int64[Tensor, "1 K"]:
        return torch.tensor([[self.place, *self.counts]])

    def step(self, token: int) -> Float[Tensor, " C"]:
        place, counts = self.machine.step((self.place, tuple(self.counts)), token)
        if any(abs(each) > MOST_COUNT for each in counts):
            raise InputError("a count would exceed 2^62: the stream must be reset")
        self.place, self.counts = place, list(counts)
        return self.classes[self.machine.answer((place, counts)) or 0].clone()
