"""Whole models in the compiled kernel: it takes only models built from unmodified built-in parts."""

from typing import Any

import torch
from torch import Tensor, nn

from csprop.cells.block import Block
from csprop.cells.options import Tracker
from csprop.errors import InputError
from csprop.nn.decoder import ComplexDecoder, Decoder, PhaseDecoder
from csprop.nn.model import CSP
from csprop.nn.untouched import has_hooks, untouched
from csprop.ops.backends import backend
from csprop.ops.checks import fits
from csprop.ops.native import model as native
from csprop.ops.native.model import Model, Stepper


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
    if isinstance(model.config.cell, Tracker):
        return "it has trackers"
    if has_hooks(model.modules()):
        return "a module has a hook"
    if not untouched(model.modules()):
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


def propagate(
    model: CSP, tokens: Tensor, state: Tensor | None, reset: Tensor | None
) -> tuple[Tensor, Tensor] | None:
    """Return the scores after every token and the last states, or None to leave it to torch."""
    if not tokens.numel() or unreadable(model) or not fits(model.embedding, state):
        return None
    routers = model.routers
    hard = not model.training and bool(routers)
    if hard and torch.is_grad_enabled():  # the adjoint of the kernel is of soft maps
        return None
    if any(router.mixes or router.temperature != routers[0].temperature for router in routers):
        return None
    try:
        return native.propagate(describe_model(model), tokens, state, reset, hard)
    except InputError:
        for bound in tokens.aminmax():
            model.check_token(int(bound))
        raise


def make_stepper(model: CSP, state: Tensor) -> Stepper | None:
    """Return the model laid out for single steps with hard maps, or None to leave them to torch."""
    if unreadable(model) or not fits(model.embedding, state):
        return None
    return Stepper(describe_model(model), state)


def row_scores(model: object, tokens: Tensor, labels: Tensor) -> Tensor | None:
    """Return the scores at the labelled steps of rows (B, T), in their order, (labels, classes).

    A label below 0 is not a label. Return None if the kernel does not know the model, or if it has
    routers and is in training mode.
    """
    known = _scored(model)
    return None if known is None else native.row_scores(describe_model(known), [(tokens, labels)])


def every_score(model: object, symbols: int, length: int) -> Tensor | None:
    """Return the scores after every sequence of the first `symbols` tokens, in lexicographic order.

    They are (symbols^length, classes). Return None in the same cases as `row_scores`.
    """
    known = _scored(model)
    if known is None or symbols > known.config.vocab_size or length < 1:
        return None
    return native.every_score(describe_model(known), symbols, length)


def _scored(model: object) -> CSP | None:
    """Return the model, if the kernel reads it as `eval` does."""
    if not isinstance(model, CSP) or unreadable(model) or (model.training and model.routers):
        return None
    return model


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

    def linear(self, name: str, layer: nn.Module | None, trained: bool = True) -> dict[str, int]:
        """Return the fields of a layer's weight and bias."""
        weight, bias = (getattr(layer, part, None) for part in ("weight", "bias"))
        return {f"{name}_weight": self.add(weight, trained), f"{name}_bias": self.add(bias, trained)}


def describe_model(model: CSP) -> Model:
    """Return the description of a model for the kernel."""
    tensors, config, layers = _Tensors(), model.config, model.layers
    embedding = tensors.add(model.embedding, model.trains_embedding)
    inputs = [_describe_inputs(layers[0], tensors)]
    first_of_rows = len(tensors.all)  # the first layer's inputs are tokens, not steps of rows
    inputs += [_describe_inputs(block, tensors) for block in layers[1:]]
    described: list[dict[str, Any]] = []
    for number, block in enumerate(layers):
        fields = inputs[number] | block.kernel_options
        if coupling := model.coupling_of(number):
            u, v = tensors.add(coupling.u), tensors.add(coupling.v)
            fields |= {"rank": coupling.u.shape[1], "coupling_u": u, "coupling_v": v}
        for name in ("maps", "skip", "recall", "parts"):
            fields[name] = tensors.add(getattr(block, name, None))
        fields["start"] = tensors.add(block.h0)
        fields["point"] = tensors.add(getattr(block, "point", None))
        described.append(fields | tensors.linear("norm", getattr(block, "norm", None)))
    fields = {
        "order": config.order, "width": config.width, "vocabulary": config.vocab_size,
        "classes": config.num_classes, "embedding": embedding,
        **_describe_decoder(model.decoder, tensors),
    }  # fmt: skip
    temperature = next((router.temperature for router in model.routers), 1.0)
    return Model(tensors.all, tensors.trained, first_of_rows, described, fields, temperature)


def _describe_inputs(block: Block, tensors: _Tensors) -> dict[str, Any]:
    """Return the fields of the maps of a layer's input."""
    angle, gate, keys = (getattr(block, name, None) for name in ("angle", "gate", "keys"))
    return {
        "angles": getattr(angle, "out_features", 0),
        "angle_inputs": getattr(angle, "in_features", 0),
        "gates": getattr(gate, "out_features", 0),
        **tensors.linear("angle", angle),
        **tensors.linear("gate", gate),
        **tensors.linear("keys", keys, trained=not getattr(block, "by_token", False)),
    }


def _describe_decoder(decoder: Decoder, tensors: _Tensors) -> dict[str, int | str]:
    if isinstance(decoder, ComplexDecoder):
        return {
            "reading": "state", "decoder_weight": tensors.add(decoder.linear.weight),
            "decoder_bias": tensors.add(decoder.bias), "projection": tensors.add(decoder.projection),
        }  # fmt: skip
    reading = "phasor" if getattr(decoder, "normalises", False) else "state"
    reading = "angle" if isinstance(decoder, PhaseDecoder) else reading
    return {"reading": reading, **tensors.linear("decoder", decoder.linear)}
