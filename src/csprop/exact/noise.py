"""How much noise in its features a network of routers can stand without a change in anything it does.

A router's state is a place, whatever the features are; they only choose between maps. So a network of
routers does the same on noisy features as on those of a token, if no choice and no answer changes. Both
compare linear functions of a normalised vector,

    w · LN(v) + c > 0,      LN(v) = P v / √(|P v|² / F + ε), scaled and shifted,      P v = v − mean(v),

where v is off by the noise that entered, for residuals pass it on unchanged. If it is at most r, and x
is what v is without it, P v lies within r of P x: its direction within the angle arcsin(r / |P x|) of
that of P x, and its length within r of |P x|. With φ the angle between P w and P x,

    w · LN(v) ≥ √F |P w| · s · cos(min(π, φ + arcsin(r / |P x|)))

with s = |P v| / √(|P v|² + F ε) at its least, or at its largest where the cosine is negative. This is
computed in float64 for every choice on every transition of the locked machine, and r is found by
bisection.
"""

import copy
import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from csprop.errors import InputError
from csprop.exact.document import Certificate
from csprop.exact.limits import DOUBT
from csprop.exact.locked import Locked, at
from csprop.exact.models import FromLayer
from csprop.nn.layer import CSPBlock
from csprop.nn.router import Router

HALVINGS = 60
"""Steps of the bisection."""


class _Comparisons:
    """Some vectors x, and of each the functions w · LN(x) + c that must stay positive."""

    def __init__(
        self,
        x: Float[Tensor, "N F"],
        norm: nn.LayerNorm,
        weight: Float[Tensor, "K F"],
        bias: Float[Tensor, " K"],
        chosen: Tensor,
    ) -> None:
        ours = weight[chosen][:, None] - weight  # (N, K, F)
        shifted = (ours * norm.bias).sum(dim=2) + bias[chosen][:, None] - bias
        w = _centred(ours * norm.weight)
        others = torch.arange(len(weight)) != chosen[:, None]
        self.size, self.constant = w.norm(dim=2)[others], shifted[others]
        centre = _centred(x)[:, None].expand_as(w)
        self.length = centre.norm(dim=2)[others]
        cosine = (w * centre).sum(dim=2)[others] / (self.size * self.length).clamp(min=1e-300)
        self.angle = torch.acos(cosine.clamp(-1, 1))
        self.features, self.epsilon = x.shape[1], norm.eps

    def hold(self, radius: float) -> bool:
        """Whether all functions stay at DOUBT or above within this radius."""
        if bool((self.length <= radius).any()):
            return False
        angle = (self.angle + torch.asin(radius / self.length)).clamp(max=math.pi)
        least, most = (
            length / (length.square() + self.features * self.epsilon).sqrt()
            for length in (self.length - radius, self.length + radius)
        )
        cosine = angle.cos()
        bound = math.sqrt(self.features) * self.size * cosine * torch.where(cosine > 0, least, most)
        return bool((bound + self.constant >= DOUBT).all())


def _centred(x: Tensor) -> Tensor:
    return x - x.mean(dim=-1, keepdim=True)


@torch.no_grad()
def radius(certificate: Certificate) -> float:
    """How far, in Euclidean distance, the features of a step may lie from those of its token.

    For every sequence of features of which each lies within this distance of what a token looks like,
    the network takes the places and gives the answers that it does for these tokens, whatever the
    length: what the certificate proves of tokens holds for such features. The distance is that of the
    inputs of the layer. It is a bound; more noise may or may not change something.

    Args:
        certificate: that of a `csprop.exact.models.FromLayer` whose layer is of the kind `router` and
            whose head is an `nn.Linear`.

    Raises:
        InputError: the certificate is another one, or proves nothing.
    """
    locked, model = certificate.locked, getattr(certificate.locked, "network", None)
    if not (certificate.proven and isinstance(locked, Locked) and isinstance(model, FromLayer)):
        raise InputError("a radius is that of a proven FromLayer: give what csprop.certify returned")
    if type(model.head) is not nn.Linear or not all(isinstance(each, Router) for each in model.layers):
        raise InputError(
            "a radius takes a layer of the kind router, and an nn.Linear as the head: nothing is known "
            "of others"
        )
    comparisons = _comparisons(locked, model)
    low, high = 0.0, max(float(each.length.max()) for each in comparisons)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if all(each.hold(middle) for each in comparisons) else (low, middle)
    return low


def _comparisons(locked: Locked, model: FromLayer) -> list[_Comparisons]:
    """All choices of maps and answers, on all transitions, in float64."""
    symbols = locked.symbols
    states = torch.arange(len(locked.following)).repeat_interleave(symbols)
    tokens = torch.arange(symbols).repeat(len(locked.following))
    held = at(locked.codes, locked.places[states]).double()
    x, found = model.embedding(tokens).double(), []
    network = copy.deepcopy(model).double()
    for number, block in enumerate(network.layer.layers):
        found.append(_choices(block, x))
        x, _ = block.step(x, held[:, number])
    norm, head = network.layer.norm, network.head
    assert isinstance(head, nn.Linear)
    bias = head.weight.new_zeros(head.out_features) if head.bias is None else head.bias
    return [*found, _Comparisons(x, norm, head.weight, bias, head(norm(x)).argmax(dim=1))]


def _choices(block: CSPBlock, x: Float[Tensor, "N F"]) -> _Comparisons:
    """Which map each x chooses, as a function of its norm."""
    assert isinstance(block.cell, Router)
    keys, enter = block.cell.keys, block.enter
    weight, bias = keys.weight @ enter.weight, keys.weight @ enter.bias + keys.bias
    chosen = (block.norm(x) @ weight.T + bias).argmax(dim=1)
    return _Comparisons(x, block.norm, weight, bias, chosen)
