"""Locked models that count: networks that are run as the machine which they compute.

The counts of the network are whole numbers already, and what it decides depends on them through a
window. So it is a machine with counters, whose steps are looked up. Its counts are 64-bit numbers,
and a sequence that could lead beyond 2^62 is refused.
"""

from collections.abc import Sequence
from typing import TypeGuard

import torch
from torch import Tensor, nn

from csprop.automata.automaton import CounterAutomaton
from csprop.cells.counter import CounterBlock
from csprop.cells.options import Counter, Router, Switch
from csprop.cells.switch import SwitchBlock
from csprop.nn.decoder import LinearDecoder
from csprop.nn.model import CSP
from csprop.ops.scan import over_time
from csprop.proof.answers import CountingAnswers
from csprop.proof.counters import POINTS, Weights, tabulate
from csprop.proof.locked import LockedModel


def is_counter(model: object) -> TypeGuard[CSP]:
    """Return True for a layer of counters below switches or a router, with a linear decoder."""
    if not isinstance(model, CSP) or model.config.decoder != "linear":
        return False
    return tuple(map(type, model.config.layers)) in ((Counter, Switch), (Counter, Router))


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
    """A network that counts, run as a machine. A state is a state of the control, and k counts."""

    def __init__(self, network: CSP) -> None:
        super().__init__()
        self.network, self.symbols = network, network.config.vocab_size
        self.counting = tabulate(weights_of(network))
        self.machine = self.counting.machine
        self.answers = CountingAnswers(self.machine, network.config.num_classes)
        self.state_shape = (1 + self.machine.counters,)

    def _in_steps(self, tokens: Tensor, state: Tensor, reset: Tensor | None) -> tuple[Tensor, Tensor]:
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

    def automaton(self, vocab: Sequence[str], classes: Sequence[str], words: bool) -> CounterAutomaton:
        """Return the machine, with names for its tokens and classes."""
        return CounterAutomaton.from_machine(self.machine, vocab, classes, words)
