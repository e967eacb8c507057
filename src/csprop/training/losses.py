"""The losses. Both are means over the labelled steps."""

import torch
import torch.nn.functional as F
from torch import Tensor

from csprop.data.examples import UNLABELLED
from csprop.training.presets import Recipe


def loss(logits: Tensor, labels: Tensor, recipe: Recipe) -> Tensor:
    """The loss of scores against labels.

    Args:
        logits: the scores, (…, B, T, V).
        labels: the classes, (…, B, T); UNLABELLED steps do not count.
        recipe: says which loss.

    Returns:
        One number, or one for each leading index.
    """
    surprise = F.cross_entropy(
        logits.flatten(0, -2), labels.flatten(), ignore_index=UNLABELLED, reduction="none"
    )
    surprise = surprise.view(labels.shape)  # −log p_t, 0 where there is no label
    if recipe.loss == "focal":
        surprise = focal(surprise, labels, logits.shape[-1], recipe.focal_gamma, recipe.focal_alpha)
    return surprise.sum(dim=(-2, -1)) / (labels != UNLABELLED).sum(dim=(-2, -1))


def focal(surprise: Tensor, labels: Tensor, classes: int, gamma: float, alpha: float) -> Tensor:
    """−α_t (1 − p_t)^γ log p_t (Lin et al., 2017), p_t the probability of the correct class.

    α_t is α for class 1 and 1 − α for class 0; with more classes than two it is 1.
    """
    # 1 − p_t, bounded away from 0, where the gradient of a power below 1 is infinite.
    doubt = -torch.expm1(-surprise)
    weighted = doubt.clamp(min=1e-12) ** gamma * surprise
    return weighted * torch.where(labels == 1, alpha, 1 - alpha) if classes == 2 else weighted
