"""One token through a whole model, past torch: a call of a few microseconds."""

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
        angle_weight, _, gate_weight, *_ = parameters[0]
        common = native.shared_by_layers(outputs[0], 1, angle_weight, gate_weight, options)
        blocks = []
        for layer, given in enumerate(parameters):
            here = self.state[0, layer].data_ptr()
            named = dict(zip(native.PARAMETERS, (each.data_ptr() for each in given), strict=True))
            places = {"theta": gates[layer, 0].data_ptr(), "delta": gates[layer, 1].data_ptr()}
            out = outputs[layer].data_ptr()
            blocks.append(native.Block(**common, **named, **places, h0=here, h=here, out=out))
        packed = native.pack(*blocks)
        self._stream = native.pack(
            native.Stream(
                wide=common["wide"], depth=depth, width=width, classes=len(bias),
                unit_features=unit_features, embedding=z.data_ptr(), blocks=native.address(packed),
                decoder_weight=weight.data_ptr(), decoder_bias=bias.data_ptr(),
                logits=self._logits.data_ptr(), scratch=scratch.data_ptr(),
            )
        )  # fmt: skip
        self._kept = (packed, z, weight, bias, scratch, outputs, gates, parameters)
        self._call, self._address = native.library().csprop_stream, native.address(self._stream)

    def step(self, token: int) -> Tensor:
        """The scores after one more token of the vocabulary."""
        self._call(self._address, token)
        return self._logits.clone()
