"""One token through a whole model, past torch: a call of a few microseconds."""

from collections.abc import Sequence

import torch
from torch import Tensor

from csprop.ops.native.layout import Block, Stream
from csprop.ops.native.library import address, library, pack
from csprop.ops.native.tensors import Layer, scratch_vectors, shared_by_layers
from csprop.ops.options import KernelOptions


class Stepper:
    """A copy of a model's parameters, laid out for the kernel, and the state that a step updates.

    `decoder` is a weight (V, 2, D) and a bias (V,) on the last layer's output, or on its phases where
    `unit_features` is set.
    """

    def __init__(
        self,
        embedding: Tensor,
        layers: Sequence[Layer],
        options: KernelOptions,
        decoder: tuple[Tensor, Tensor],
        unit_features: bool,
        state: Tensor,
    ) -> None:
        def own(tensor: Tensor) -> Tensor:
            return tensor.detach().clone(memory_format=torch.contiguous_format)

        depth, width = len(layers), embedding.shape[2]
        self.state, z, weight, bias = map(own, (state, embedding, *decoder))
        self._logits = torch.empty_like(bias)
        scratch = z.new_zeros(scratch_vectors(), width)
        outputs, gates = z.new_empty(depth, 1, 1, 2, width), z.new_empty(depth, 2, 1, 1, width)
        parameters = [Layer(*map(own, layer)) for layer in layers]
        common = shared_by_layers(outputs[0], parameters[0], options)
        blocks = []
        for number, layer in enumerate(parameters):
            here = self.state[0, number].data_ptr()
            places = {"theta": gates[number, 0].data_ptr(), "delta": gates[number, 1].data_ptr()}
            out = outputs[number].data_ptr()
            blocks.append(Block(**common, **layer.pointers(), **places, h0=here, h=here, out=out))
        packed = pack(*blocks)
        self._stream = pack(
            Stream(
                wide=common["wide"], depth=depth, width=width, classes=len(bias),
                unit_features=unit_features, embedding=z.data_ptr(), blocks=address(packed),
                decoder_weight=weight.data_ptr(), decoder_bias=bias.data_ptr(),
                logits=self._logits.data_ptr(), scratch=scratch.data_ptr(),
            )
        )  # fmt: skip
        self._kept = (packed, z, weight, bias, scratch, outputs, gates, parameters)
        self._call, self._address = library().csprop_stream, address(self._stream)

    def step(self, token: int) -> Tensor:
        """The scores after one more token of the vocabulary."""
        self._call(self._address, token)
        return self._logits.clone()
