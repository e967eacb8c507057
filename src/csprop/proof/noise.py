"""The noise in its features that a network of routers can stand without a change in what it does.

A router's state is a place, whatever the features are; they only choose between maps. So a network of
routers does the same on noisy features as on the features of a token, if no choice and no answer
changes. Both compare linear functions of a normalised vector,

    w · LN(v) + c > 0,      LN(v) = P v / √(|P v|² / F + ε), scaled and shifted,      P v = v − mean(v),

where v is off by the noise that entered, for residuals pass it on unchanged. If it is at most r, and x
is what v is without it, P v lies within r of P x: its direction within the angle arcsin(r / |P x|) of
the direction of P x, and its length within r of |P x|. With φ the angle between P w and P x,

    w · LN(v) ≥ √F |P w| · s · cos(min(π, φ + arcsin(r / |P x|)))

with s = |P v| / √(|P v|² + F ε) at its least, or at its largest where the cosine is negative. This is
computed in float64 for every choice on every transition of the locked machine, and bisection
gives r. The network itself rounds: a function must stay above what the sums in it can be off by,
n · eps times the sum of the sizes of their terms, and P v as much more as v is larger than P v.
"""

import copy
import math
from collections.abc import Sequence
from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from csprop.cells.router import RouterBlock
from csprop.errors import InputError
from csprop.proof.certificate import Certificate
from csprop.proof.limits import DOUBT
from csprop.proof.locked import Locked, at
from csprop.proof.models import FromLayer

PART = (
    "what was proven is a part of the network, and the rest does something else: train it longer, or "
    "with fewer layers"
)
HALVINGS = 60  # steps of the bisection


class _Comparisons:
    """Some vectors x, and of each the functions w · LN(x) + c that must stay positive.

    `maps` are the linear maps that follow the norm; eps is the precision of their numbers.
    """

    def __init__(
        self, x: Float[Tensor, "N F"], norm: nn.LayerNorm, maps: Sequence[nn.Linear], eps: float
    ) -> None:
        weight, bias = norm.weight.diag(), norm.bias
        sizes, terms = weight.abs(), bias.abs()
        for each in maps:
            shift = each.weight.new_zeros(len(each.weight)) if each.bias is None else each.bias
            weight, bias = each.weight @ weight, each.weight @ bias + shift
            sizes, terms = each.weight.abs() @ sizes, each.weight.abs() @ terms + shift.abs()
        normal = nn.functional.layer_norm(x, x.shape[-1:], eps=norm.eps)
        chosen = (normal @ weight.T + bias).argmax(dim=1)
        others = torch.arange(len(weight)) != chosen[:, None]
        w = _centred(weight[chosen][:, None] - weight)  # (N, K, F)
        self.size, self.constant = w.norm(dim=2)[others], (bias[chosen][:, None] - bias)[others]
        centre = _centred(x)[:, None].expand_as(w)
        self.length = centre.norm(dim=2)[others]
        cosine = (w * centre).sum(dim=2)[others] / (self.size * self.length).clamp(min=1e-300)
        self.angle = torch.acos(cosine.clamp(-1, 1))
        self.features, self.epsilon = x.shape[1], norm.eps
        self.reach = x.norm(dim=1)[:, None].expand_as(others)[others]
        magnitude = math.sqrt(self.features) * sizes.norm(dim=1) + terms
        longest = self.features + sum(each.in_features for each in maps)  # sum, of all that follow
        self.rounding = 4 * longest * eps * (magnitude[chosen][:, None] + magnitude)[others]

    def hold(self, radius: float) -> bool:
        """Return True if all functions stay above what rounding can change within this radius."""
        if bool((self.length <= radius).any()):
            return False
        angle = (self.angle + torch.asin(radius / self.length)).clamp(max=math.pi)
        least, most = (
            length / (length.square() + self.features * self.epsilon).sqrt()
            for length in (self.length - radius, self.length + radius)
        )
        cosine = angle.cos()
        bound = math.sqrt(self.features) * self.size * cosine * torch.where(cosine > 0, least, most)
        cancelled = 1 + (self.reach + radius) / (self.length - radius)
        return bool((bound + self.constant >= DOUBT + self.rounding * cancelled).all())


def _centred(x: Tensor) -> Tensor:
    return x - x.mean(dim=-1, keepdim=True)


@torch.no_grad()
def radius(certificate: Certificate) -> float:
    """Return a distance within which noise in the features of tokens changes nothing.

    For every sequence of features, each within this Euclidean distance of the features of a token, the
    network takes the places and gives the answers that it does for these tokens, whatever the length:
    what the certificate proves of tokens holds for such features. The distance is measured at the
    inputs of the layer. It is a bound; more noise may or may not change something.

    Args:
        certificate: the certificate of a `csprop.proof.models.FromLayer` whose layer is of the kind
            `router` and whose head is an `nn.Linear`.

    Raises:
        InputError: the certificate is another one, or proves nothing.
    """
    locked, model = certificate.locked, getattr(certificate.locked, "network", None)
    if not (certificate.proven and isinstance(locked, Locked) and isinstance(model, FromLayer)):
        raise InputError(
            "only a proven FromLayer has a radius: certificate.statement says what is proven here"
        )
    blocks, norms = model.layer.layers, [model.layer.norm, *(each.norm for each in model.layer.layers)]
    linear = [model.head, *(each.enter for each in blocks), *(each.leave for each in blocks)]
    if not (
        all(type(each) is nn.Linear for each in linear)
        and all(type(each) is nn.LayerNorm and each.bias is not None for each in norms)
        and all(type(cell) is RouterBlock for cell in model.cells)
    ):
        raise InputError(
            "a radius takes a layer of the kind router, without rotate or skip, whose parts were not "
            "replaced, and an nn.Linear as the head: nothing is known of others"
        )
    eps = torch.finfo(model.layer.norm.weight.dtype).eps
    if eps > torch.finfo(torch.float32).eps:
        raise InputError("only a network in float32 or float64 has a radius, not one in half precision")
    comparisons = _comparisons(locked, model, eps)
    lengths = torch.cat([each.length for each in comparisons])
    if not lengths.numel():  # there is nothing to choose
        return math.inf
    low, high = 0.0, float(lengths.max())
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if all(each.hold(middle) for each in comparisons) else (low, middle)
    return low


def _comparisons(locked: Locked, model: FromLayer, eps: float) -> list[_Comparisons]:
    """Return all choices of maps and answers, on all transitions, in float64."""
    begin = at(locked.codes, locked.places[locked.machine.start][None])[0]
    if not torch.equal(model.initial_state()[0].to(begin), begin):
        raise InputError(PART)
    symbols = locked.symbols
    states = torch.arange(len(locked.following)).repeat_interleave(symbols)
    tokens = torch.arange(symbols).repeat(len(locked.following))
    held = at(locked.codes, locked.places[states]).double()
    reached = at(locked.codes, locked.places[locked.following[states, tokens]]).double()
    network, comparisons = copy.deepcopy(model).double(), []
    head, x = cast(nn.Linear, network.head), model.embedding(tokens).double()
    for number, block in enumerate(network.layer.layers):
        comparisons.append(
            _Comparisons(x, block.norm, [block.enter, cast(RouterBlock, block.cell).keys], eps)
        )
        x, last = block.step(x, held[:, number])
        if not torch.equal(last, reached[:, number]):
            raise InputError(PART)
    return [*comparisons, _Comparisons(x, network.layer.norm, [head], eps)]
