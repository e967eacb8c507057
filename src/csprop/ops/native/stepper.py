"""One token through a whole model, past torch: a call of a few microseconds."""

import ctypes
from collections.abc import Sequence

import torch
from torch import Tensor

from csprop.ops import native


class Stepper:
    """A copy of a model's parameters, laid out for the kernel, and the state that a step updates.

    `layers` has, of each layer, what `fused.blocks` wants; `decoder` is a weight (V, 2, D) and a bias
    (V,) on the last output, or on its phases where `unit_features` is set.
    """

    def __init__(
        self,
        embedding: Tensor,
        layers: Sequence[Sequence[Tensor]],
        options: tuple[str, str, str, bool, bool],
        decoder: tuple[Tensor, Tensor],
        unit_features: bool,
        state: Tensor,
    ) -> None:
        def own(tensor: Tensor) -> Tensor:
            return tensor.detach().clone(memory_format=torch.contiguous_format)

        depth, width = len(layers), embedding.shape[2]
        self.state, z, weight, bias = map(own, (state, embedding, *decoder))
        self._logits = torch.empty_like(bias)
        scratch = z.new_zeros(native.scratch_vectors(), width)
        outputs, gates = z.new_empty(depth, 1, 1, 2, width), z.new_empty(depth, 2, 1, 1, width)
        parameters = [[own(each) for each in given] for given in layers]
        blocks = []
        for layer, given in enumerate(parameters):
            theta, delta = (
                gates[layer, 0, ..., : _columns(given[0])],
                gates[layer, 1, ..., : _columns(given[2])],
            )
            known = native.layer(outputs[layer], theta, delta, given, (*options, False))
            here = self.state[0, layer]
            blocks.append(known | {"h0": here, "h": here, "out": outputs[layer]})
        packed = native.pack_blocks(blocks)
        self._stream = native.pack(
            native.Stream,
            {
                "wide": z.dtype is torch.float64, "depth": depth, "width": width, "classes": len(bias),
                "unit_features": unit_features, "embedding": z, "blocks": ctypes.addressof(packed),
                "decoder_weight": weight, "decoder_bias": bias, "logits": self._logits,
                "scratch": scratch,
            },
        )  # fmt: skip
        self._kept = (packed, z, weight, bias, scratch, outputs, gates, parameters)
        self._call, self._address = native.library().csprop_stream, ctypes.addressof(self._stream)

    def step(self, token: int) -> Tensor:
        """The scores after one more token of the vocabulary."""
        self._call(self._address, token)
        return self._logits.clone()


def _columns(weight: Tensor) -> int:
    return len(weight) if weight.numel() else 0
