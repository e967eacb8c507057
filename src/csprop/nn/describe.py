"""The description of a model for the compiled kernel, if all its parts are built-in and unmodified."""

import torch
from torch import Tensor, nn

from csprop.cells.counter import CounterBlock
from csprop.cells.paper import PaperBlock
from csprop.cells.rotor import RotorBlock
from csprop.cells.router import RouterBlock
from csprop.cells.switch import SwitchBlock
from csprop.nn.coupling import Coupling
from csprop.nn.decoder import DECODERS, ComplexDecoder, PhaseDecoder
from csprop.nn.kernel import has_hooks, untouched
from csprop.nn.model import CSP
from csprop.ops.backends import backend
from csprop.ops.native.model import Model
from csprop.ops.native.tensors import fits

BLOCKS = (PaperBlock, RotorBlock, RouterBlock, CounterBlock, SwitchBlock)
PARTS = (CSP, *BLOCKS, Coupling, *DECODERS, nn.Linear, nn.LayerNorm, nn.ModuleList)
"""The parts that the kernel knows."""


def why_not(model: object) -> str:
    """Return why the kernel does not take the training steps of a model; empty if it does."""
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
    """Return why the kernel cannot compute a model; empty if it can."""
    if type(model) is not CSP:
        return "the model is not a CSP"
    if has_hooks(model.modules()):
        return "a module has a hook"
    if not untouched(model.modules(), PARTS):
        return "a part of the model was replaced"
    if backend() != "native":
        return f"the backend is {backend()}"
    tensors = [*model.parameters(), *model.buffers()]
    if not fits(*tensors) or not all(each.is_contiguous() for each in tensors):
        return "the parameters are not contiguous CPU tensors of one type, float32 or float64"
    state = (model.config.order, model.config.width)
    same = all(block.h0.shape == state for block in model.layers)
    if not same or [each.shape for each in model.parameters()] != model.shapes:
        return "its parameters are not those that it was made with"
    if any(isinstance(part, nn.LayerNorm) and part.eps != 1e-5 for part in model.modules()):
        return "a norm has another epsilon"
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


def describe_model(model: CSP) -> Model:
    """Return the description of a model for the kernel."""
    tensors, config, layers = _Tensors(), model.config, model.layers
    embedding = tensors.add(model.embedding, model.trains_embedding)
    inputs = [layers[0].describe_inputs(tensors)]
    first_of_rows = len(tensors.all)  # the first layer's inputs are tokens, not steps of rows
    inputs += [block.describe_inputs(tensors) for block in layers[1:]]
    described = []
    for number, block in enumerate(layers):
        coupling = _coupling(model.coupling_of(number), tensors)
        described.append(inputs[number] | coupling | block.describe(tensors))
    fields = {
        "order": config.order, "width": config.width, "vocabulary": config.vocab_size,
        "classes": config.num_classes, "embedding": embedding, **_decoder(model.decoder, tensors),
    }  # fmt: skip
    temperature = next((router.temperature for router in model.routers), 1.0)
    return Model(tensors.all, tensors.trained, first_of_rows, described, fields, temperature)


def _coupling(coupling: Coupling | None, tensors: _Tensors) -> dict[str, int]:
    if coupling is None:
        return {}
    u, v = tensors.add(coupling.u), tensors.add(coupling.v)
    return {"rank": coupling.u.shape[1], "coupling_u": u, "coupling_v": v}


def _decoder(decoder: nn.Module, tensors: _Tensors) -> dict[str, int | str]:
    if isinstance(decoder, ComplexDecoder):
        return {
            "reading": "state", "decoder_weight": tensors.add(decoder.linear.weight),
            "decoder_bias": tensors.add(decoder.bias), "projection": tensors.add(decoder.projection),
        }  # fmt: skip
    reading = "phasor" if getattr(decoder, "normalises", False) else "state"
    reading = "angle" if isinstance(decoder, PhaseDecoder) else reading
    linear: torch.nn.Linear = decoder.linear  # pyright: ignore[reportAssignmentType]
    return {"reading": reading, **tensors.linear("decoder", linear)}
