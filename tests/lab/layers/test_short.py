"""The short convolution is torch's, and so are its gradients."""

import pytest
import torch
from torch import nn

from csprop_lab.layers.short import ShortConvolution


@pytest.mark.parametrize("steps", [1, 3, 4, 9])
def test_the_convolution_is_torch_s(steps: int) -> None:
    torch.manual_seed(0)
    ours, theirs = ShortConvolution(5).double(), nn.Conv1d(5, 5, 4, groups=5, padding=3).double()
    with torch.no_grad():
        theirs.weight.copy_(ours.weight.T[:, None])
        assert theirs.bias is not None
        theirs.bias.copy_(ours.bias)
    x = torch.randn(2, steps, 5, dtype=torch.float64)
    torch.testing.assert_close(ours(x), theirs(x.mT)[:, :, :steps].mT)
