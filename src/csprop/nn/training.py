"""A model as the compiled kernel trains it: what it is told, and whether it knows all of it."""

import torch
from torch import Tensor

from csprop.nn.block import Block
from csprop.nn.model import CSP
from csprop.ops.backends import backend
from csprop.ops.native.layout import ACTIVATION, DECAY, NORM, READING, ROTATE, Layer
from csprop.ops.native.step import Model
from csprop.ops.native.tensors import fits


def why_not(model: object) -> str:
    """Why the kernel does not take the training steps of a model; empty if it does."""
    if not isinstance(model, CSP):
        return "the model is not a CSP"
    if backend() != "native":
        return f"the backend is {backend()}"
    for block in model.layers:
        if beyond := sorted(_beyond(block)):
            return f"the compiled step does not know {', '.join(beyond)}"
    if model.couplings:
        return "the compiled step does not know coupling_rank"
    if model.config.decoder in ("phase", "complex") or _normalises(model):
        return f"the compiled step does not know decoder={model.config.decoder!r}"
    tensors = list(model.parameters())
    if not fits(*tensors) or not all(each.is_contiguous() for each in tensors):
        return "the parameters are not contiguous CPU tensors of one type, float32 or float64"
    if any(each._backward_hooks for each in tensors) or not all(each.requires_grad for each in tensors):
        return "a parameter has a hook, or is not trained"
    return ""


def _beyond(block: Block) -> set[str]:
    options = block.options
    return options.beyond_kernel | ({"norm"} if options.norm == "layer" else set())


def _normalises(model: CSP) -> bool:
    return model.config.decoder == "cos_sin" and model.config.of_layer(-1).norm != "complex"


class _Tensors(list[Tensor]):
    """A list that numbers what is added to it."""

    def add(self, tensor: Tensor | None) -> int:
        if tensor is None:
            return -1
        self.append(tensor)
        return len(self) - 1


def described(model: CSP) -> Model:
    """What the kernel is told about a model, where `why_not` has no objection."""
    tensors, config = _Tensors(), model.config
    embedding = tensors.add(model.embedding)
    projections = [_projections(block, tensors) for block in model.layers[:1]]
    first_of_rows = len(tensors)  # the first layer's entries are tokens, not steps of rows
    projections += [_projections(block, tensors) for block in model.layers[1:]]
    layers = [
        _layer(block, tensors, projected)
        for block, projected in zip(model.layers, projections, strict=True)
    ]
    decoder: torch.nn.Linear = model.decoder.linear  # pyright: ignore[reportAssignmentType]
    fields = {
        "width": config.width, "vocabulary": config.vocab_size, "classes": config.num_classes,
        "reading": READING["state"], "embedding": embedding,
        "decoder_weight": tensors.add(decoder.weight), "decoder_bias": tensors.add(decoder.bias),
    }  # fmt: skip
    return Model(tensors, first_of_rows, layers, fields)


def _projections(block: Block, tensors: _Tensors) -> dict[str, int]:
    """The fields of `Layer` about its angles and gates."""
    angle = block.angle if block.options.rotate != "none" else None
    gate = block.gate
    return {
        "angles": 0 if angle is None else angle.out_features,
        "angle_inputs": 0 if angle is None else angle.in_features,
        "gates": gate.out_features,
        "angle_weight": tensors.add(None if angle is None else angle.weight),
        "angle_bias": tensors.add(None if angle is None else angle.bias),
        "gate_weight": tensors.add(gate.weight), "gate_bias": tensors.add(gate.bias),
    }  # fmt: skip


def _layer(block: Block, tensors: _Tensors, projected: dict[str, int]) -> Layer:
    options = block.options
    return Layer(
        **projected,
        rotate=ROTATE[options.rotate],
        bounded_angle=options.angle == "tanh",
        decay=DECAY[options.decay],
        activation=ACTIVATION[options.activation],
        norm=NORM[options.norm],
        skip=tensors.add(block.skip if options.skip else None),
        start=tensors.add(block.h0),
    )
