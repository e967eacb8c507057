"""A model as the compiled kernel trains it: what it is told, and whether it can."""

import torch
from torch import Tensor, nn

from csprop.nn.block import Block
from csprop.nn.coupling import Coupling
from csprop.nn.decoder import DECODERS, ComplexDecoder, PhaseDecoder
from csprop.nn.kernel import has_hooks, untouched
from csprop.nn.model import CSP
from csprop.nn.released import Released
from csprop.nn.router import Router
from csprop.ops.backends import backend
from csprop.ops.native.layout import ACTIVATION, DECAY, GATE_INPUT, NORM, READING, ROTATE, Layer
from csprop.ops.native.step import Model
from csprop.ops.native.tensors import fits

PARTS = (
    CSP,
    Block,
    Released,
    Router,
    Coupling,
    *DECODERS.values(),
    nn.Linear,
    nn.LayerNorm,
    nn.ModuleList,
)
"""What a model may be made of: of other parts `described` would know the tensors, not what they do."""


def why_not(model: object) -> str:
    """Why the kernel does not take the training steps of a model; empty if it does."""
    if reason := unreadable(model):
        return reason
    assert isinstance(model, CSP)
    for each in model.parameters():
        if not each.requires_grad:
            return "a parameter is not trained"
        if each._backward_hooks or each._post_accumulate_grad_hooks:
            return "a parameter has a hook"
    return ""


def unreadable(model: object) -> str:
    """Why what `described` says of a model is not all that it does; empty if it is."""
    if type(model) is not CSP:
        return "the model is not a CSP"
    if has_hooks(model.modules()):
        return "a module has a hook"
    if not untouched(model.modules(), PARTS):
        return "a part of the model was replaced"
    if backend() != "native":
        return f"the backend is {backend()}"
    tensors = list(model.parameters())
    if not fits(*tensors) or not all(each.is_contiguous() for each in tensors):
        return "the parameters are not contiguous CPU tensors of one type, float32 or float64"
    if [each.shape for each in tensors] != model.shapes:
        return "its parameters are not those that it was made with"
    if torch.is_autocast_enabled("cpu"):
        return "autocast is on"
    return ""


class _Tensors:
    """Tensors, numbered as they come; one that comes again has its number."""

    def __init__(self) -> None:
        self.all: list[Tensor] = []
        self.trained: list[bool] = []

    def add(self, tensor: Tensor | None, trained: bool = True) -> int:
        if tensor is None:
            return -1
        for number, known in enumerate(self.all):
            if known is tensor:
                return number
        self.all.append(tensor)
        self.trained.append(trained and tensor.requires_grad)
        return len(self.all) - 1

    def linear(self, name: str, layer: nn.Linear | None, trained: bool = True) -> dict[str, int]:
        """The fields of its weight and bias."""
        weight, bias = (None, None) if layer is None else (layer.weight, layer.bias)
        return {f"{name}_weight": self.add(weight, trained), f"{name}_bias": self.add(bias, trained)}


def described(model: CSP) -> Model:
    """What the kernel is told about a model."""
    tensors, config, layers = _Tensors(), model.config, model.layers
    embedding = _embedding(model, tensors)
    of_tokens = len(tensors.all)
    inputs = [_inputs(layers[0], tensors)]
    # The first layer's inputs are tokens, not steps of rows, unless it depends on the steps before.
    first_of_rows = of_tokens if layers[0].options.released else len(tensors.all)
    inputs += [_inputs(block, tensors) for block in layers[1:]]
    described = [
        _layer(block, tensors, inputs[number] | _coupling(model.coupling_of(number), tensors))
        for number, block in enumerate(layers)
    ]
    fields = {
        "order": config.order, "width": config.width, "vocabulary": config.vocab_size,
        "classes": config.num_classes, **embedding, **_decoder(model.decoder, tensors),
    }  # fmt: skip
    temperature = next((router.temperature for router in model.routers), 1.0)
    return Model(tensors.all, tensors.trained, first_of_rows, described, fields, temperature)


def _embedding(model: CSP, tensors: _Tensors) -> dict[str, int]:
    kind, number = model.config.embedding, tensors.add(model.embedding, model.trains_embedding)
    if kind == "complex":
        return {"embedding": number}
    return {
        "embedding": number, "narrow": model.embedding.shape[1], "widen_tanh": kind == "scalar",
        **tensors.linear("widen", model.widen),
    }  # fmt: skip


def _inputs(block: Block, tensors: _Tensors) -> dict[str, int]:
    """The fields of `Layer` about what is computed from inputs: angles, gates, choices of maps."""
    angle = block.angle if block.options.rotate != "none" else None
    gate = block.gate if block.options.gated else None
    directed = angle is not None and block.options.projection == "atan2"
    fields = {
        "angles": 0 if angle is None else angle.out_features // (2 if directed else 1),
        "direction": directed,
        "angle_inputs": 0 if angle is None else angle.in_features,
        "gates": 0 if gate is None else gate.out_features,
        **tensors.linear("angle", angle),
        **tensors.linear("gate", gate),
    }
    if isinstance(block, Released):
        fields |= tensors.linear("map", block.map if block.options.input_map != "none" else None)
        sine = block.entrance if block.options.entrance == "sine" else None
        fields |= tensors.linear("entrance", sine)
    if isinstance(block, Router):
        fields |= tensors.linear("keys", block.keys, trained=not block.by_token)
    return fields


def _layer(block: Block, tensors: _Tensors, fields: dict[str, int]) -> Layer:
    options = block.options
    if isinstance(block, Router):
        fields |= {
            "places": options.places, "choices": len(block.maps), "by_token": block.by_token,
            "maps": tensors.add(block.maps),
        }  # fmt: skip
    norm = block.norm if options.norm == "layer" else None
    return Layer(
        **fields,
        rotate=ROTATE[options.rotate],
        bounded_angle=options.angle != "free" and options.projection != "atan2",
        released=options.released,
        summed=options.summed,
        gate_input=GATE_INPUT[options.gate_input],
        cumulative=options.recurrence == "cumulative",
        decay=DECAY[options.decay],
        activation=ACTIVATION[options.activation],
        norm=NORM[options.norm],
        skip=tensors.add(block.skip if options.skip else None),
        recall=tensors.add(block.recall if options.recall else None),
        start=tensors.add(block.h0),
        point=tensors.add(block.point if options.enter == "point" else None),
        norm_weight=tensors.add(None if norm is None else norm.weight),
        norm_bias=tensors.add(None if norm is None else norm.bias),
    )


def _coupling(coupling: Coupling | None, tensors: _Tensors) -> dict[str, int]:
    if coupling is None:
        return {}
    u, v = tensors.add(coupling.u), tensors.add(coupling.v)
    return {"rank": coupling.u.shape[1], "coupling_u": u, "coupling_v": v}


def _decoder(decoder: nn.Module, tensors: _Tensors) -> dict[str, int]:
    if isinstance(decoder, ComplexDecoder):
        return {
            "reading": READING["state"], "decoder_weight": tensors.add(decoder.linear.weight),
            "decoder_bias": tensors.add(decoder.bias), "projection": tensors.add(decoder.projection),
        }  # fmt: skip
    reading = "phasor" if getattr(decoder, "normalises", False) else "state"
    reading = "angle" if isinstance(decoder, PhaseDecoder) else reading
    linear: torch.nn.Linear = decoder.linear  # pyright: ignore[reportAssignmentType]
    return {"reading": READING[reading], **tensors.linear("decoder", linear)}
