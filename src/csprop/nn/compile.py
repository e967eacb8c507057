"""An exact model of any machine: a router whose weights are written, not learned.

    place s      state s of the machine; the start is place 0, where a router begins
    maps[k]      column s has its largest logit where token k leads from state s
    decoder      reads from place s the class of state s

The embedding of a token holds the binary digits of its number as ±1, so any two tokens differ by 2
somewhere.

If the machine counts, a layer of counters stands below the router. Its first channels hold the
counters, and further channels the digits of the token. The router has a map for each pair of a token
and a view of the counts, and its keys find the pair. A count c comes as the point
p_c = (c, 1) / √(1 + c²) of a circle. With d_u = p_u − p_{u−1}, the function g_u(p) = 2 d_u · p / |d_u|²
is 1 at p_u and −1 at p_{u−1}: the line on which it is 0 passes through the centre, between the two
points. So it is at least 1 at every count from u on, however large, and at most −1 below. The key of
the view v is g_{−w+1} + … + g_v. At a count that is seen as v, this key leads the key of every other
view by 1 or more, because all the functions between them have the right sign.
"""

from typing import cast

import torch
from jaxtyping import Float
from torch import Generator, Tensor

from csprop.automata.counting import CounterMachine
from csprop.automata.machine import Machine
from csprop.cells import Counter, Router
from csprop.cells.counter import CounterBlock
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
MOST_ADDED = 2**20
"""The largest increment: no weight of a model that is proven is larger."""
WIDEST = 32
"""The widest window. The weights of the keys grow with its third power, to 22,000 here, and a change of
one part in 100,000 of them must stay well below the lead of 1 by which a view is chosen."""
CLOSED = -60.0
"""Of a skip that adds nothing, σ(−60) < 10^−26; one that adds all has 60."""


def compile_machine(machine: Machine, classes: int) -> CSP:
    """Return a model that answers as a machine does, at every length; refuse one that is too large.

    States that no input tells apart share a place.
    """
    small = machine.minimal()  # numbered from its start on, which is 0
    places = _places(small, DIGITS // 2, f"{small.symbols:,} tokens")
    config = CSPConfig(
        vocab_size=small.symbols, num_classes=classes, width=places, depth=1, cell=Router(),
        decoder="linear",
    )  # fmt: skip
    model = CSP(config, Generator().manual_seed(0)).requires_grad_(False)
    model.embedding.zero_()
    model.embedding[:, :, : DIGITS // 2] = _digits(small.symbols, DIGITS).unflatten(1, (2, -1))
    model.routers[0].read_tokens(model.embedding)
    _write(model, small)
    return model.requires_grad_(True).eval()


def compile_counter(machine: CounterMachine, classes: int) -> CSP:
    """Return a model that answers as a counter machine does while its counts are exact, up to 2^24.

    A machine that is too large, or has too wide a window, raises InputError.
    """
    small = machine.reduce()
    tokens, counters = small.symbols, small.counters
    if small.window > WIDEST:
        raise InputError(
            f"the machine tells counts from −{small.window} to {small.window} apart, which is too fine "
            f"for the weights of a model: the window may be {WIDEST} wide"
        )
    if any(abs(each) > MOST_ADDED for row in small.increments for each in row):
        raise InputError(f"a token adds more than {MOST_ADDED:,} to a counter")
    digits = _digits(tokens, (tokens - 1).bit_length())
    kinds = f"{tokens:,} tokens with {small.views:,} views of the counts"
    places = _places(small.control, counters + digits.shape[1], kinds)
    config = CSPConfig(
        vocab_size=tokens, num_classes=classes, width=places,
        cells=(Counter(), Router(maps=small.control.symbols)), decoder="linear",
    )  # fmt: skip
    model = CSP(config, Generator().manual_seed(0)).requires_grad_(False)
    counting, reading = slice(counters), slice(counters, counters + digits.shape[1])
    model.embedding.zero_()
    model.embedding[:, 0, counting] = torch.tensor(small.increments).reshape(tokens, counters).float()
    # A channel that counts nothing stays at i; the skip adds 0 or −2 i to it, so its phase is ±i.
    model.embedding[:, 1, reading] = digits - 1
    skip, (router,) = cast(CounterBlock, model.layers[0]).skip, model.routers
    skip.fill_(CLOSED)
    skip[reading] = -CLOSED
    router.keys.bias.zero_()
    keys = router.keys.weight.zero_().view(tokens, *[2 * small.window + 1] * counters, 2, places)
    for counter in range(counters):
        of_views = _keys(small.window).reshape(-1, *[1] * (counters - 1 - counter), 2)
        keys[..., counter] = of_views
    keys[..., 1, reading] = digits.reshape(tokens, *[1] * counters, -1)
    _write(model, small.control)
    return model.requires_grad_(True).eval()


def _places(machine: Machine, least: int, kinds: str) -> int:
    """Return the number of places; refuse a machine that is too large."""
    states, places = len(machine), max(len(machine), least)
    weights = machine.symbols * places**2
    if states > MOST_PLACES or weights > MOST_WEIGHTS:
        raise InputError(
            f"the machine is too large: {states:,} states and {kinds} take {weights:,} weights of the "
            f"maps; there may be {MOST_PLACES} states and {MOST_WEIGHTS:,} weights"
        )
    return places


def _digits(tokens: int, digits: int) -> Float[Tensor, "V N"]:
    """Return the binary digits of the tokens' numbers, as ±1."""
    numbers = torch.arange(tokens)[:, None] >> torch.arange(digits)
    return 2.0 * (numbers & 1) - 1


def _keys(window: int) -> Float[Tensor, "W 2"]:
    """Return the linear functions of a point that tell the views of a counter apart; 0 for view 0."""
    counts = torch.arange(-window, window + 1, dtype=torch.float64)
    points = torch.stack([counts, torch.ones_like(counts)], dim=1) / (1 + counts**2).sqrt()[:, None]
    apart = points.diff(dim=0)
    steps = 2 * apart / apart.square().sum(dim=1, keepdim=True)
    sums = torch.cat([torch.zeros(1, 2), steps.cumsum(dim=0)])
    return (sums - sums[window]).float()


def _write(model: CSP, machine: Machine) -> None:
    """Write a machine, whose symbols are the router's maps, into the maps and the decoder."""
    (router,), decoder, states = model.routers, model.decoder.linear, len(machine)
    targets = torch.arange(model.config.width).repeat(machine.symbols, 1)  # other places stay
    targets[:, :states] = torch.tensor(machine.transitions).T
    router.maps.fill_(-LOGIT).scatter_(2, targets[:, None, None], LOGIT)
    decoder.weight.zero_()
    decoder.bias.zero_()
    for state, output in enumerate(machine.outputs):
        if output is not None:
            decoder.weight[:, state] = -LOGIT
            decoder.weight[output, state] = LOGIT


def codes(model: CSP) -> Float[Tensor, "S 2 D"]:
    """Return the states that a compiled model can be in: all of its content is in one place."""
    (router,) = model.routers
    targets, reached = router.targets(), [0]
    for place in reached:  # which grows
        reached += [each for each in targets[:, place].unique().tolist() if each not in reached]
    held = torch.eye(model.config.width)[reached]
    return torch.stack([held, torch.zeros_like(held)], dim=1)
