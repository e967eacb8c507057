"""Training steps of the kernel beside the same steps by autograd and torch."""

import copy

import pytest
import torch
from torch import Generator, Tensor, nn
from torch.optim import Adam

from csprop import CSP, Cell, Counter, CSPConfig, Paper, Rotor, Router, Switch, use_backend
from csprop.nn.kernel import describe_model
from csprop.ops.native.model import Rows
from csprop.ops.native.step import Descent, Loss, take
from csprop.training.presets import Recipe
from csprop.training.steps import loss
from tests.helpers import options
from tests.helpers.options import config

VOCABULARY, CLASSES = 3, 4
CELLS: dict[str, list[Cell]] = {
    "paper": [Paper()] * 3,
    "coupled": [Paper(coupling_rank=2, norm="layer", h0="learned")] * 2,
    "rotor": [Rotor()],
    "rotor of order 4": [Rotor(order=4, recall=True)],
    "router": [Router(places=3)],
    "counter and switch": [Counter(), Switch()],
}


def model(name: str = "paper", seed: int = 3, classes: int = CLASSES, width: int = 9) -> CSP:
    cells = CELLS[name]
    return make(config(cells[0], cells=cells, num_classes=classes, width=width), seed)


def small() -> CSP:
    return make(config(Paper(), width=4))


def make(config: CSPConfig, seed: int = 3) -> CSP:
    """A model in training, with gates that keep and gates that replace."""
    net = options.model(config, seed, noise=0.3).double()
    generator = Generator().manual_seed(seed)
    with torch.no_grad():
        for block in net.layers:
            if isinstance(block.cell, Rotor | Switch):
                block.gate.bias.copy_(2 * torch.randn(net.config.width, generator=generator))  # pyright: ignore
    return net.train()


def drawn(
    rows: int, steps: int, seed: int = 0, last: bool = False,
    classes: int = CLASSES, vocabulary: int = VOCABULARY,
) -> Rows:  # fmt: skip
    """Tokens, and labels of some steps; of a few rows none."""
    g = Generator().manual_seed(seed)
    tokens = torch.randint(vocabulary, (rows, steps), generator=g)
    labels = torch.randint(-2, classes, (rows, steps), generator=g).clamp(min=-1)
    if last:
        labels[:, :-1] = -1
    labels[0, -1] = 1
    return [(tokens, labels)]


class Torch:
    """The same steps by autograd and torch."""

    def __init__(self, net: CSP, recipe: Recipe) -> None:
        self.net, self.recipe = copy.deepcopy(net), recipe
        self.adam = Adam(self.net.parameters(), lr=recipe.lr, weight_decay=recipe.weight_decay)

    def step(self, rows: Rows) -> tuple[float, float, int, list[Tensor | None]]:
        """Loss, norm, hits and the gradients before they were clipped."""
        self.net.zero_grad()
        parameters = list(self.net.parameters())
        ((tokens, labels),) = rows
        with use_backend("reference"):
            scores = self.net(tokens)
            value = loss(scores, labels, self.recipe)
            value.backward()
        found = [None if p.grad is None else p.grad.clone() for p in parameters]
        norm = nn.utils.clip_grad_norm_(parameters, self.recipe.clip_norm)
        self.adam.step()
        own = scores.gather(2, labels.clamp(min=0)[:, :, None])[:, :, 0] == scores.amax(dim=2)
        return value.item(), norm.item(), int((own & (labels >= 0)).sum()), found


def natively(net: CSP, recipe: Recipe) -> Descent:
    rate, decay = recipe.lr, recipe.weight_decay
    optimizer = Adam(net.parameters(), lr=rate, weight_decay=decay, fused=True)
    kind = Loss(recipe.loss == "focal", recipe.focal_gamma, recipe.focal_alpha)
    return Descent(describe_model(net), optimizer, kind)


def close(got: Tensor, want: Tensor, tolerance: float = 1e-8) -> None:
    torch.testing.assert_close(got, want, rtol=tolerance, atol=tolerance)


def agree(
    net: CSP, recipe: Recipe, steps: int = 7, last: bool = False, taken: int = 10, rows: int = 5
) -> None:
    """Loss, norm, hits, all gradients of the first step, and the parameters after some steps."""
    other, descent = Torch(net, recipe), natively(net, recipe)
    sizes = {"classes": net.config.num_classes, "vocabulary": net.config.vocab_size}
    for number in range(taken):
        batch = drawn(rows, steps, seed=number, last=last, **sizes)
        (found,) = take([(descent, batch, recipe.clip_norm)])
        value, norm, hits, gradients = other.step(batch)
        if not number:
            assert (found.loss, found.norm) == pytest.approx((value, norm), rel=1e-9)
            assert (found.hits, found.taken) == (hits, True)
            for (name, parameter), want in zip(net.named_parameters(), gradients, strict=True):
                assert (parameter.grad is None) == (want is None), name
                if parameter.grad is not None and want is not None:
                    close(parameter.grad, want)
    for got, want in zip(net.parameters(), other.net.parameters(), strict=True):
        close(got, want, 1e-6)
