"""Linear attention: softmax is replaced by a product of positive features."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from csprop_lab.layers.basic import positions
from csprop_lab.layers.decayed_attention import decayed_attention

HEADS = 4


class LinearAttention(nn.Module):
    """Causal linear attention of Katharopoulos et al.

    S_i = S_{i−1} + φ(K_i) V_iᵀ, Z_i = Z_{i−1} + φ(K_i), and the output φ(Q_i)ᵀ S_i / (φ(Q_i)ᵀ Z_i + ε)
    with φ = elu + 1 and ε = 1e-6, in four heads between projections with biases. A sum knows no order:
    published networks add sines and cosines of the position to the embedding, this layer to its input.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.project, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.decay: Tensor
        self.register_buffer("decay", torch.ones(HEADS), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        x = x + positions(*x.shape[1:]).to(x)
        parts = self.project(x).unflatten(2, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        query, key, value = parts.contiguous()
        counted = F.pad(value, (0, 1), value=1.0)  # the ones add up to the normaliser
        mixed = decayed_attention(F.elu(query) + 1, F.elu(key) + 1, counted, self.decay)
        mixed = mixed[..., :-1] / (mixed[..., -1:] + 1e-6)
        return self.out(mixed.transpose(1, 2).flatten(2))
