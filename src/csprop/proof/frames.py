"""A model with summed angles, locked: the sum of one layer, rounded, as a rotor.

In a layer with angle="accumulated" the state h is a sum over the whole past, which decays little by
little, so that it takes infinitely many values and cannot be locked. But the phase e^{iΘ} that
turns what enters is itself a state: every step turns it by θ_t. Where θ_t is nearly the same whenever a
token is read, the phase is a rotor with an angle for each token. Rounded to K-ths of a full turn, these
angles make it a count modulo K, a finite machine.

That machine is all that is kept of the model. Its answers are those that the training rows have most
often at each count. It is written as a layer of rotors, one for each frequency up to K/2, whose linear
decoder can then give any answer to any count, and is locked and proven like any other.

Some angles are near such fractions by chance. So the model must have learned its training data, and no
answer may be lost. docs/notes/released.md counts the untrained models that would pass the rest.
"""

import math
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int64
from torch import Generator, Tensor

from csprop.data.examples import UNLABELLED
from csprop.nn.model import CSP
from csprop.proof.examples import Labelled
from csprop.proof.tune import MOST_PARTS, OPEN

NEAR = 0.1
"""How far an angle may be from the one that it is rounded to, as a fraction of a part."""
ALIKE = 0.9
"""|mean of e^{iθ}| of a token, from which on its angles are taken for one."""
WHY_NOT = (
    "no layer has a summed angle that turns by nearly the same fraction of a turn, down to "
    f"1/{MOST_PARTS}, whenever a token is read; and its states, which are sums over the whole past, do "
    "not return"
)


class Frame(NamedTuple):
    """A layer's summed angle, rounded."""

    layer: int
    """From 1 on."""
    channel: int
    """From 1 on; 1 where all channels share the angle."""
    parts: int
    """K: angles are multiples of a K-th of a turn."""
    moves: list[int]
    """How many of them each token turns by."""
    misses: int
    """Training labels that are not the commonest at their count."""


def framed(model: CSP, examples: Labelled) -> tuple[CSP, Frame] | None:
    """The rotor of the coarsest count with the fewest misses, if a layer has such a count at all."""
    found: list[tuple[Frame, Tensor]] = []
    read = _read(examples)
    for layer, each in enumerate(angles(model, examples.tokens), start=1):
        for channel, theta in enumerate(each.unbind(2), start=1):
            mean = _means(theta[read], examples.tokens[read], model.config.vocab_size)
            if mean is None:
                continue
            for parts in range(2, MOST_PARTS + 1):
                exact = mean * parts / (2 * math.pi)
                if float((exact - exact.round()).abs().max()) > NEAR:
                    continue
                moves = exact.round().long()
                answers, misses = _answers(moves, parts, examples, model.config.num_classes)
                found.append((Frame(layer, channel, parts, moves.tolist(), misses), answers))
    if not found:
        return None
    frame, answers = min(found, key=lambda each: (each[0].misses, each[0].parts))
    return _rotor(model, frame, answers), frame


@torch.no_grad()
def angles(model: CSP, tokens: Int64[Tensor, "N T"]) -> list[Float[Tensor, "N T E"]]:
    """By layer, the angle of every step, not summed."""
    z, state, found = model.rows[tokens], model.initial_state(len(tokens)), []
    for layer, block in enumerate(model.layers):
        found.append(block.theta(z))
        coupling = model.coupling_of(layer)
        z, _ = block(z, state[:, layer], coupled=None if coupling is None else coupling(z))
    return found


def _read(examples: Labelled) -> Bool[Tensor, "N T"]:
    """The steps up to the last label of each row; what follows is padding, or of no use."""
    return (examples.labels != UNLABELLED).int().flip(1).cummax(dim=1).values.flip(1).bool()


def _means(
    theta: Float[Tensor, " S"], tokens: Int64[Tensor, " S"], symbols: int
) -> Float[Tensor, " V"] | None:
    """The mean angle of each token; None if they vary, or a token does not occur."""
    means = []
    for token in range(symbols):
        mine = theta[tokens == token].double()
        re, im = mine.cos().mean(), mine.sin().mean()
        if not float(torch.hypot(re, im)) >= ALIKE:  # also where there is none, and the mean is NaN
            return None
        means.append(torch.atan2(im, re))
    return torch.stack(means)


def _answers(
    moves: Int64[Tensor, " V"], parts: int, examples: Labelled, classes: int
) -> tuple[Int64[Tensor, " K"], int]:
    """The commonest label at each count, and how many labels are another one."""
    counts = moves[examples.tokens].cumsum(dim=1) % parts
    known = examples.labels != UNLABELLED
    places = counts[known] * classes + examples.labels[known]
    often = places.bincount(minlength=parts * classes).view(parts, classes)
    return often.argmax(dim=1), int(often.sum() - often.amax(dim=1).sum())


@torch.no_grad()
def _rotor(model: CSP, frame: Frame, answers: Int64[Tensor, " K"]) -> CSP:
    """A layer of rotors that counts as the frame does: channel j turns j times as far as the first."""
    config = model.config.as_rotor(frame.parts // 2)
    parts, frequencies = frame.parts, torch.arange(1, config.width + 1)
    rotor = CSP(config, Generator())  # all of which is written over
    (block,) = rotor.layers
    for parameter in rotor.parameters():
        parameter.zero_()
    rotor.embedding[:, 0, 0] = torch.tensor(frame.moves) * (2 * math.pi / parts)
    block.angle.weight[:, 0] = frequencies.float()
    block.gate.bias.fill_(OPEN)
    block.h0[0] = 1
    # What to answer at each count, as a Fourier series: cos and sin are the two planes of the channels.
    wanted = torch.nn.functional.one_hot(answers, config.num_classes).double()  # (K, classes)
    phases = 2 * math.pi / parts * torch.outer(frequencies, torch.arange(parts)).double()
    twice = torch.where(2 * frequencies == parts, 1.0, 2.0)[:, None] / parts
    series = [twice * wave @ wanted for wave in (phases.cos(), phases.sin())]  # (W, classes) each
    decoder: Any = rotor.decoder
    decoder.linear.weight.copy_(torch.cat(series).T)
    decoder.linear.bias.copy_(wanted.mean(dim=0))
    return rotor.eval()
