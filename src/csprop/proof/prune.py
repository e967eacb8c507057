"""Pruning: dropping the channels that the answers do not need.

A channel that is not needed usually rotates by arbitrary angles, so its states never form a finite set.
"""

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from csprop.proof.examples import Judgement, Labelled
from csprop.proof.models import Stepwise

PRUNING_ROWS = 1024
GLANCE_ROWS = 256


@torch.no_grad()
def follow(
    model: Stepwise, kept: Bool[Tensor, "L D"], tokens: Int64[Tensor, "N T"]
) -> Float[Tensor, "N T C"]:
    """The scores after every token, with the channels that are not kept held at their initial value."""
    start = model.initial_state()[0]
    state, scores = start.expand(len(tokens), *start.shape), []
    for column in tokens.unbind(1):
        state, said = model.step(
            state, column, lambda layer, h: torch.where(kept[layer], h, start[layer])
        )
        scores.append(said)
    return torch.stack(scores, dim=1)


Scores = Callable[[Bool[Tensor, "L D"], Int64[Tensor, "N T"]], Float[Tensor, "N T C"]]
"""(kept, tokens) to the scores after every token, as `follow` computes them."""


def prune(scores: Scores, examples: Labelled, kept: Bool[Tensor, "L D"]) -> Bool[Tensor, "L D"]:
    """Drop whole layers, then single channels, the least needed first.

    There may be no more errors, and the correct scores must keep a fraction of their margin.

    Args:
        scores: computes the scores with some channels kept.
        examples: the examples to compare on.
        kept: the channels in use.

    Returns:
        The channels that remain.
    """
    examples = examples.first(PRUNING_ROWS)
    glance = examples.first(GLANCE_ROWS)

    def judged(kept: Bool[Tensor, "L D"], over: Labelled) -> Judgement:
        return over.judge(scores(kept, over.tokens))

    def needed(fewer: Bool[Tensor, "L D"]) -> bool:
        both = zip((glance, examples), bases, strict=True)
        return any(judged(fewer, over).worse_than(before) for over, before in both)

    bases = [judged(kept, over) for over in (glance, examples)]
    layers = [_channel(kept, layer, slice(None)) for layer in range(len(kept))]
    for each in layers + _by_need(scores, examples, kept):
        fewer = kept & ~each
        if not torch.equal(fewer, kept) and not needed(fewer):
            kept = fewer
    return kept


def _by_need(
    scores: Scores, examples: Labelled, used: Bool[Tensor, "L D"]
) -> list[Bool[Tensor, "L D"]]:
    """The channels in use, each as a mask, sorted by the loss without it."""
    glance = examples.first(GLANCE_ROWS)
    each = [_channel(used, *place) for place in used.nonzero().tolist()]
    losses = [glance.judge(scores(used & ~one, glance.tokens)).loss for one in each]
    return [each[i] for i in sorted(range(len(each)), key=losses.__getitem__)]


def thin(scores: Scores, examples: Labelled, used: Bool[Tensor, "L D"]) -> Bool[Tensor, "L D"]:
    """The channels in use without the least needed third, whatever that does to the answers."""
    order = _by_need(scores, examples, used)
    for one in order[: -(-len(order) // 3)]:
        used = used & ~one
    return used


def _channel(like: Bool[Tensor, "L D"], layer: int, channel: int | slice) -> Bool[Tensor, "L D"]:
    mask = torch.zeros_like(like)
    mask[layer, channel] = True
    return mask
