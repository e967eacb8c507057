"""An exact model of any finite machine: one router layer whose weights are written, not learned.

    place s      state s of the machine; the start is place 0, where a router begins
    maps[k]      column s has its largest logit where token k leads from state s
    decoder      reads from place s the class of state s

Which token it is, the layer reads off the embedding: the digits of the token's number in base two, as
±1, so that any two tokens differ by 2 somewhere.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from csprop.automata.machine import Machine
from csprop.errors import InputError
from csprop.nn.config import CSPConfig
from csprop.nn.model import CSP

LOGIT = 8.0
"""Of the place to which a content goes, and of a right class; others have −8."""
DIGITS = 16
"""Enough for the number of any token of an automaton."""
MOST_PLACES = 512
"""The most states of a machine: a model with more is not proven."""
MOST_WEIGHTS = 1 << 26
"""The most weights of the maps, a quarter of a gigabyte."""


def compiled(machine: Machine, classes: int) -> CSP:
    """A model that answers as a machine does, at every length.

    Args:
        machine: the machine. States that no input tells apart share a place.
        classes: the number of classes, at least 2.

    Raises:
        InputError: the machine is too large.
    """
    small = machine.minimal()  # numbered from its start on, which is 0
    tokens, states = small.symbols, len(small)
    places = max(states, DIGITS // 2)
    if states > MOST_PLACES or tokens * places**2 > MOST_WEIGHTS:
        raise InputError(
            f"the machine is too large: {states:,} states and {tokens:,} tokens take "
            f"{tokens * places**2:,} weights, one for each token and pair of states; there may be "
            f"{MOST_PLACES} states and {MOST_WEIGHTS:,} weights"
        )
    config = CSPConfig(
        vocab_size=tokens, num_classes=classes, width=places, depth=1, places=places, decay="none",
        rotate="none", activation="none", skip=False, norm="none", h0="place", decoder="linear",
    )  # fmt: skip
    model = CSP(config).requires_grad_(False)
    (router,) = model.routers
    numbers = torch.arange(tokens)[:, None] >> torch.arange(DIGITS)
    model.embedding.zero_()
    model.embedding[:, :, : DIGITS // 2] = (2.0 * (numbers & 1) - 1).unflatten(1, (2, -1))
    router.read_tokens(model.embedding)
    targets = torch.arange(places).repeat(tokens, 1)  # (V, places); what is no state stays where it is
    targets[:, :states] = torch.tensor(small.transitions).T
    router.maps.fill_(-LOGIT).scatter_(2, targets[:, None, None], LOGIT)
    decoder = model.decoder.linear
    decoder.weight.zero_()
    decoder.bias.zero_()
    for state, output in enumerate(small.outputs):
        if output is not None:
            decoder.weight[:, state] = -LOGIT
            decoder.weight[output, state] = LOGIT
    return model.requires_grad_(True).eval()


def codes(model: CSP) -> Float[Tensor, "S 2 D"]:
    """The states that a compiled model can be in: all that it holds is in one place."""
    (router,) = model.routers
    targets, reached = router.targets(), [0]
    for place in reached:  # which grows
        reached += [each for each in targets[:, place].unique().tolist() if each not in reached]
    held = torch.eye(model.config.width)[reached]
    return torch.stack([held, torch.zeros_like(held)], dim=1)
