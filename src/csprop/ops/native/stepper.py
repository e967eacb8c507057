"""One token through a whole model, past torch: a call of a few microseconds."""

import ctypes
from collections.abc import Sequence

import torch
from torch import Tensor

from csprop.ops import native


class Stepper:
    """A copy of a model's parameters, laid out for the kernel, and the state that a step updates in place.

    `layers` has, of each layer, what `fused.blocks` wants; `decoder` is a weight (V, 2, D) and a bias (V,)
    on the last output, or on its phases where `unit_features` is set.
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

        rotate, angle, decay, silu, norm = options
        vocab, _, width = embedding.shape
        depth, classes = len(layers), len(decoder[1])
        self.vocab, self.state = vocab, own(state)
        self._logits = embedding.new_empty(classes).detach()
        embedding_copy, weight, bias = own(embedding), own(decoder[0]), own(decoder[1])
        scratch = embedding.new_zeros(native.scratch_vectors(), width).detach()
        outputs = embedding.new_empty(
            depth, 2, 2 * width
        ).detach()  # beside each output, theta and delta
        self._kept = [embedding_copy, weight, bias, scratch, outputs]
        blocks = []
        for layer, given in enumerate(layers):
            angle_weight, angle_bias, gate_weight, gate_bias, skip, start = copies = [
                own(each) if each.numel() else None for each in given
            ]
            self._kept += copies
            assert gate_weight is not None
            angles = 0 if angle_weight is None else len(angle_weight)
            blocks.append(
                {
                    "wide": embedding.dtype is torch.float64,
                    "batch": 1,
                    "steps": 1,
                    "width": width,
                    "groups": 1,
                    "angles": angles,
                    "gates": len(gate_weight),
                    "rotate": native.ROTATE[rotate],
                    "bounded_angle": angle == "tanh",
                    "decay": native.DECAY[decay],
                    "silu": silu,
                    "norm": norm,
                    "angle_inputs": 0 if angle_weight is None else angle_weight.shape[1],
                    "gate_inputs": gate_weight.shape[1],
                    "angle_weight": angle_weight,
                    "angle_bias": angle_bias,
                    "gate_weight": gate_weight,
                    "gate_bias": gate_bias,
                    "skip": skip,
                    "start": start,
                    "h0": self.state[0, layer],
                    "h": self.state[0, layer],
                    "out": outputs[layer, 0],
                    "theta": outputs[layer, 1, :width],
                    "delta": outputs[layer, 1, width:],
                }  # fmt: skip
            )
        self._blocks = native.pack_blocks(blocks)
        self._stream = native.pack(
            native.Stream,
            {
                "wide": embedding.dtype is torch.float64, "depth": depth, "width": width,
                "classes": classes, "unit_features": unit_features, "embedding": embedding_copy,
                "blocks": ctypes.addressof(self._blocks), "decoder_weight": weight, "decoder_bias": bias,
                "logits": self._logits, "scratch": scratch,
            },
        )  # fmt: skip
        self._call = native.library().csprop_stream
        self._address = ctypes.addressof(self._stream)

    def step(self, token: int) -> Tensor:
        """The scores after one more token, 0 ≤ token < vocab."""
        self._call(self._address, token)
        return self._logits.clone()
