"""A released model as a rotor: the sum of angles of one layer, rounded.

The state h of a layer with angle="accumulated" is a sum over the whole past. It takes infinitely many
values and cannot be locked. But the phase e^{iΘ} that turns the input is itself a state, which every
step turns by θ_t. If θ_t is nearly the same whenever a token is read, the phase is a rotor. Rounded to
K-ths of a full turn, the angles of the tokens make it a count modulo K, a finite machine.

That machine is all that remains of the model. Its answer at each count is the most frequent label of
the training rows there. Rotors of all frequencies up to K/2 and a linear decoder can give any answer at
any count. Some angles are near such fractions by chance, so the model must have learned its data, and
the rounded model may not lose an answer (docs/notes/released.md).
"""

import math
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int64
from torch import Generator, Tensor

from csprop import CSP, CSPConfig, Rotor
from csprop.data.examples import UNLABELLED
from csprop.proof.examples import Labelled
from csprop_lab.released.model import Released

MOST_PARTS = 8
"""The finest fraction of a turn that angles are rounded to."""
NEAR = 0.1
"""The largest distance of an angle from the rounded one, as a fraction of a part."""
ALIKE = 0.9
"""The least |mean of e^{iθ}| of a token whose angles count as one."""
LEARNED = 0.9
"""The share of the training labels that the model must have right."""
OPEN = 40.0
"""The bias of a gate that always keeps the state."""


class Frame(NamedTuple):
    """The rounded sum of angles of a layer."""

    layer: int
    """From 1 on."""
    parts: int
    """K: angles are multiples of a K-th of a turn."""
    moves: list[int]
    """The multiple of each token."""
    misses: int
    """Training labels that differ from the answer at their count."""


class NotRounded(Exception):
    """The angles of a model do not count; `verdict` is "not learned" or "not finite"."""

    def __init__(self, verdict: str, reason: str) -> None:
        super().__init__(reason)
        self.verdict = verdict


def round_angles(model: Released, examples: Labelled) -> tuple[CSP, Frame]:
    """Make a rotor of the coarsest count that misclassifies the fewest labels."""
    labels = int((examples.labels != UNLABELLED).sum())
    with torch.no_grad():
        misses = examples.judge(model(examples.tokens)).misses
    if misses > (1 - LEARNED) * labels:
        raise NotRounded("not learned", f"the model misclassifies {misses:,} of {labels:,} labels")
    counts = find_counts(model, examples)
    if not counts:
        raise NotRounded(
            "not finite",
            "no layer turns by nearly the same fraction of a turn, down to "
            f"1/{MOST_PARTS}, whenever a token is read",
        )
    frame, answers = min(counts, key=lambda each: (each[0].misses, each[0].parts))
    if frame.misses > misses:
        raise NotRounded(
            "not finite",
            f"the best count, the sum of layer {frame.layer} rounded to 1/{frame.parts} of a turn, "
            f"misclassifies {frame.misses:,} training labels, the model itself {misses:,}",
        )
    return _rotor(model, frame, answers), frame


def find_counts(model: Released, examples: Labelled) -> list[tuple[Frame, Int64[Tensor, " K"]]]:
    """Return the counts of all layers whose angles are near fractions of a turn, with their answers."""
    counts = []
    # The steps up to the last label of each row; later ones are padding, or of no use.
    read = (examples.labels != UNLABELLED).int().flip(1).cummax(dim=1).values.flip(1).bool()
    for layer, theta in enumerate(model.angles(examples.tokens), start=1):
        mean = _means(theta, examples.tokens, read, model.config.vocab_size)
        if mean is None:
            continue
        for parts in range(2, MOST_PARTS + 1):
            exact = mean * parts / math.tau
            if float((exact - exact.round()).abs().max()) <= NEAR:
                moves = exact.round().long()
                answers, misses = _answers(moves, parts, examples, model.config.num_classes)
                counts.append((Frame(layer, parts, moves.tolist(), misses), answers))
    return counts


def _means(
    theta: Float[Tensor, "N T"], tokens: Int64[Tensor, "N T"], read: Bool[Tensor, "N T"], symbols: int
) -> Float[Tensor, " V"] | None:
    """Return the mean angle of each token; None if they vary, or if a token does not occur."""
    means = []
    for token in range(symbols):
        own = theta[read & (tokens == token)].double()
        re, im = own.cos().mean(), own.sin().mean()
        if not float(torch.hypot(re, im)) >= ALIKE:  # also for NaN, the mean of nothing
            return None
        means.append(torch.atan2(im, re))
    return torch.stack(means)


def _answers(
    moves: Int64[Tensor, " V"], parts: int, examples: Labelled, classes: int
) -> tuple[Int64[Tensor, " K"], int]:
    """Return the most frequent label at each count, and the number of labels that differ from it."""
    counts = moves[examples.tokens].cumsum(dim=1) % parts
    known = examples.labels != UNLABELLED
    places = counts[known] * classes + examples.labels[known]
    often = places.bincount(minlength=parts * classes).view(parts, classes)
    return often.argmax(dim=1), int(often.sum() - often.amax(dim=1).sum())


@torch.no_grad()
def _rotor(model: Released, frame: Frame, answers: Int64[Tensor, " K"]) -> CSP:
    """A layer of rotors that counts as the frame does: channel j turns j times as far as the first."""
    parts, classes = frame.parts, model.config.num_classes
    config = CSPConfig(
        vocab_size=model.config.vocab_size, num_classes=classes, width=parts // 2, depth=1,
        cell=Rotor(skip=False), decoder="linear",
    )  # fmt: skip
    frequencies = torch.arange(1, config.width + 1)
    rotor = CSP(config, Generator())
    for parameter in rotor.parameters():
        parameter.zero_()
    block: Any = rotor.layers[0]
    rotor.embedding[:, 0, 0] = torch.tensor(frame.moves) * (math.tau / parts)
    block.angle.weight[:, 0] = frequencies.float()
    block.gate.bias.fill_(OPEN)
    block.h0[0] = 1
    # The answer at each count as a Fourier series; the two planes of the channels are cos and sin.
    wanted = torch.nn.functional.one_hot(answers, classes).double()  # (K, classes)
    phases = math.tau / parts * torch.outer(frequencies, torch.arange(parts)).double()
    twice = torch.where(2 * frequencies == parts, 1.0, 2.0)[:, None] / parts
    series = [twice * wave @ wanted for wave in (phases.cos(), phases.sin())]  # (W, classes) each
    decoder: Any = rotor.decoder
    decoder.linear.weight.copy_(torch.cat(series).T)
    decoder.linear.bias.copy_(wanted.mean(dim=0))
    return rotor.eval()
