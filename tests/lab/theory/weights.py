"""Words, and layers with weights that are set by hand."""

import itertools
from typing import TypeVar

import torch
from torch import Tensor, nn

from csprop_lab.layers.pd_ssm import PDSSM

Layer = TypeVar("Layer", bound=nn.Module)
SEEDS = range(8)
STEPS = torch.randint(-1, 2, (1000,), generator=torch.Generator().manual_seed(0)).float()
"""Steps of a counter: up, down or none."""


def words(length: int) -> Tensor:
    """Return all words of two tokens."""
    return torch.tensor(list(itertools.product(range(2), repeat=length)))


def clear(layer: Layer) -> Layer:
    for parameter in layer.parameters():
        parameter.zero_()
    return layer


def make_pd_ssm(targets: Tensor, width: int) -> PDSSM:
    """Return a PD-SSM with D = 1 and a row of targets for each token; tokens are the first features."""
    layer = clear(PDSSM(width, states=targets.shape[1], matrices=len(targets)))
    layer.select.weight[:, : len(targets)] = 100 * torch.eye(len(targets))
    layer.columns.copy_(nn.functional.one_hot(targets, targets.shape[1]))
    for part, bias in ((layer.magnitude, 200.0), (layer.phase, -200.0)):
        part[-1].get_parameter("bias").fill_(bias)
    return layer
