"""A model as an ONNX file: tokens and a state in, scores and the last state out.

`torch.onnx.export` writes it, and takes any network with csprop's layers in it as well: while it
traces, every recurrence is one Scan of ONNX (`ops/over_time.py`). `write` adds batches and lengths of
any size, a start, and names.

    tokens        int64                                                    (batch, time)
    state         from an earlier call; without rows at the start          (batch or 0, …)
    scores        after every token                                        (batch, time, classes)
    last_state    the state to carry on from                               (batch, …)
"""

import json
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Int64
from torch import Tensor, nn

from csprop import files
from csprop.cells.tracker import SparseHeads
from csprop.errors import InputError
from csprop.nn.hub import Names

BEYOND = 2**31
"""A token outside every vocabulary."""


class _Carried(nn.Module):
    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: Int64[Tensor, "B T"], state: Tensor) -> tuple[Tensor, Tensor]:
        # ONNX counts negative numbers from the end of a table; the runtime refuses one beyond it.
        tokens = torch.where(tokens < 0, BEYOND, tokens)
        return self.model(tokens, state, return_state=True)


def write(model: Any, path: str | Path, names: Names | None = None) -> None:
    """Write a model, or a locked one, to an ONNX file, in evaluation mode.

    Names of tokens and classes go to the file's `metadata_props`: `vocab` and `classes` are lists in
    JSON, `words` is true where a sequence is written as words. A file that exists is replaced.
    """
    path = Path(path)
    if not all(map(find_spec, ("onnx", "onnxscript"))):
        raise InputError("an ONNX file needs onnx and onnxscript: pip install 'csprop[onnx]'")
    if not path.parent.is_dir() or path.is_dir():
        raise InputError(f"{path}: write the name of a file in a directory that exists")
    if any(isinstance(each, SparseHeads) for each in getattr(model, "modules", list)()):
        raise InputError("trackers cannot be exported: certify the run, and export the locked model")
    program = _exported(model)
    _begin(program.model.graph, model.initial_state().detach())
    _tidy(program.model)
    if names is not None:
        facts = {"vocab": names.vocab, "classes": names.classes, "words": names.words}
        texts = {key: json.dumps(value, ensure_ascii=False) for key, value in facts.items()}
        program.model.metadata_props.update(texts)
    try:
        files.replace(path, program.model_proto.SerializeToString())
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}") from None


def _exported(model: Any) -> Any:
    """Return the graph, with a batch and a length of any size."""
    batch, time = torch.export.Dim("batch"), torch.export.Dim("time")
    start = model.initial_state(2).detach()
    tokens = torch.zeros(2, 3, dtype=torch.int64, device=start.device)
    trained = [part for part in model.modules() if part.training]
    whole = _Carried(model).eval()
    try:
        with _quietly(), torch.no_grad():
            return torch.onnx.export(
                whole,
                (tokens, start),
                dynamo=True,
                verbose=False,
                input_names=["tokens", "state"],
                output_names=["scores", "last_state"],
                dynamic_shapes=({0: batch, 1: time}, {0: batch}),
                custom_translation_table={torch.ops.aten.scalar_tensor.default: _number},
            )
    finally:
        for part in trained:
            part.training = True


@contextmanager
def _quietly() -> Iterator[None]:
    """Silence torch's warnings about its own deprecations and missing packages."""
    log = logging.getLogger("torch.onnx")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.setLevel(level)


def _number(s: float, dtype: int = 1, **_: Any) -> Any:
    """Return a number as a tensor of some type; torch's translation rounds it to float32 first."""
    import onnx_ir as ir  # pyright: ignore[reportMissingImports]
    from onnxscript import opset20  # pyright: ignore[reportMissingImports]

    value: Any = ir.tensor(s, dtype=ir.DataType(dtype))
    return opset20.Constant(value=value)


def _begin(graph: Any, start: Tensor) -> None:
    """Let all rows begin at the start if the state has no rows."""
    import onnx_ir as ir  # pyright: ignore[reportMissingImports]

    tokens, state = graph.inputs
    first = ir.val("start", const_value=ir.tensor(start.cpu().numpy(), name="start"))
    rows, given = (ir.node("Shape", [each], {"start": 0, "end": 1}) for each in (tokens, state))
    nothing = ir.val("nothing", const_value=ir.tensor([0], ir.DataType.INT64, name="nothing"))
    empty = ir.node("Equal", [given.outputs[0], nothing])
    share = ir.node("Cast", [empty.outputs[0]], {"to": ir.DataType.INT64})  # all rows, or none
    missing = ir.node("Mul", [rows.outputs[0], share.outputs[0]])
    ones = ir.val("ones", const_value=ir.tensor([1] * (start.ndim - 1), ir.DataType.INT64, name="ones"))
    shape = ir.node("Concat", [missing.outputs[0], ones], {"axis": 0})
    begun = ir.node("Expand", [first, shape.outputs[0]])
    whole = ir.node("Concat", [state, begun.outputs[0]], {"axis": 0})
    ir.convenience.replace_all_uses_with(state, whole.outputs[0])
    for node in (given, whole):
        node.replace_input_with(0, state)
    for each in (first, ones, nothing):
        graph.register_initializer(each)
    graph.insert_before(graph[0], [rows, given, empty, share, missing, shape, begun, whole])
    state.shape = ir.Shape(["rows", *start.shape[1:]])


def _tidy(model: Any) -> None:
    """Remove unused nodes, and the source locations of nodes."""
    import onnx_ir as ir  # pyright: ignore[reportMissingImports]
    from onnx_ir.passes.common import RemoveUnusedNodesPass  # pyright: ignore[reportMissingImports]

    RemoveUnusedNodesPass()(model)
    for node in ir.traversal.RecursiveGraphIterator(model.graph):
        for each in (node, *node.outputs):
            each.metadata_props.clear()
