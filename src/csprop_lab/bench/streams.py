"""One token at a time: csprop, nn.LSTM, and the same LSTM by onnxruntime."""

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch

from csprop_lab.bench.steps import configure_printed, network
from csprop_lab.layers.basic import Peer

Step = Callable[[int], Any]
"""The scores of all classes after one more token."""
PACKAGES = ("onnx", "onnxruntime")


def streams() -> dict[str, Step]:
    """The printed model, and an LSTM as wide and as deep."""
    config = configure_printed(1, 16)
    model: Any = network("csprop", config).eval()
    lstm: Any = network("nn.LSTM", config).eval()
    ways: dict[str, Step] = {"csprop": model.stream().step, "nn.LSTM": by_torch(lstm)}
    if all(map(find_spec, PACKAGES)):
        ways["onnxruntime's LSTM"] = by_onnxruntime(lstm)
    return ways


def by_torch(lstm: Peer) -> Step:
    """An LSTM with its state, as torch's own operations."""
    cells: Any = lstm.layers.cells
    token = torch.zeros(1, 1, dtype=torch.int64)
    state = (torch.zeros(cells.num_layers, 1, cells.hidden_size),) * 2

    @torch.inference_mode()
    def step(number: int) -> torch.Tensor:
        nonlocal state
        token[0, 0] = number
        h, state = cells(lstm.embedding(token), state)
        return lstm.decoder(h)[0, 0]

    return step


def by_onnxruntime(lstm: Peer) -> Step:
    """The same by onnxruntime on one thread, with its tensors in memory that stays.

    Its state goes to and fro between two sets of tensors: nothing is copied or allocated.
    """
    from onnxruntime import (  # pyright: ignore[reportMissingImports]
        InferenceSession,
        OrtValue,
        SessionOptions,  # pyright: ignore[reportAttributeAccessIssue]
    )

    cells: Any = lstm.layers.cells
    options = SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    graph = _graph(lstm).SerializeToString()
    session = InferenceSession(graph, options, providers=["CPUExecutionProvider"])
    names = _states(cells.num_layers)
    empty = np.zeros((1, 1, cells.hidden_size), np.float32)
    sides = [{name: OrtValue.ortvalue_from_numpy(empty.copy()) for name in names} for _ in range(2)]
    read = np.zeros((1, 1), np.int64)
    token = OrtValue.ortvalue_from_numpy(read)
    scores = OrtValue.ortvalue_from_numpy(np.zeros((1, 1, lstm.decoder.out_features), np.float32))
    bindings = []
    for before, after in (sides, sides[::-1]):
        binding = session.io_binding()
        binding.bind_ortvalue_input("token", token)
        binding.bind_ortvalue_output("scores", scores)
        for name in names:
            binding.bind_ortvalue_input(name, before[name])
            binding.bind_ortvalue_output(f"{name}_next", after[name])
        bindings.append(binding)

    def step(number: int) -> np.ndarray:
        read[0, 0] = number
        token.update_inplace(read)
        session.run_with_iobinding(bindings[0])
        bindings.reverse()
        return scores.numpy()[0, 0]

    return step


def _states(depth: int) -> list[str]:
    return [f"{name}{layer}" for layer in range(depth) for name in "hc"]


def _graph(lstm: Peer) -> Any:
    """An LSTM as ONNX writes it: an embedding, an operator for each layer, a decoder."""
    from onnx import TensorProto, helper, numpy_helper  # pyright: ignore[reportMissingImports]

    cells: Any = lstm.layers.cells
    width, depth = cells.hidden_size, cells.num_layers
    values = {name: value.detach().numpy() for name, value in lstm.named_parameters()}
    kept = {
        "embedding": values["embedding.weight"],
        "weight": values["decoder.weight"].T,
        "bias": values["decoder.bias"],
        "directions": np.array([1]),
    }
    nodes = [helper.make_node("Gather", ["embedding", "token"], ["x0"])]
    sources = {"W": ["weight_ih"], "R": ["weight_hh"], "B": ["bias_ih", "bias_hh"]}
    for layer in range(depth):
        for name, parts in sources.items():
            gates = [_gates(values[f"layers.cells.{part}_l{layer}"]) for part in parts]
            kept[f"{name}{layer}"] = np.concatenate(gates)[None]
        inputs = [f"{name}{layer}" for name in "xWRBhc"]
        inputs.insert(4, "")  # rows have no lengths
        outputs = [f"y{layer}", f"h{layer}_next", f"c{layer}_next"]
        nodes.append(helper.make_node("LSTM", inputs, outputs, hidden_size=width))
        nodes.append(helper.make_node("Squeeze", [f"y{layer}", "directions"], [f"x{layer + 1}"]))
    nodes.append(helper.make_node("MatMul", [f"x{depth}", "weight"], ["product"]))
    nodes.append(helper.make_node("Add", ["product", "bias"], ["scores"]))

    def tensor(name: str, size: int) -> Any:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 1, size])

    token = helper.make_tensor_value_info("token", TensorProto.INT64, [1, 1])
    states = _states(depth)
    graph = helper.make_graph(
        nodes,
        "lstm",
        [token, *(tensor(name, width) for name in states)],
        [tensor("scores", lstm.decoder.out_features), *(tensor(f"{s}_next", width) for s in states)],
        [numpy_helper.from_array(np.ascontiguousarray(value), name) for name, value in kept.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def _gates(value: np.ndarray) -> np.ndarray:
    """torch's order of gates (input, forget, cell, output) as ONNX's (input, output, forget, cell)."""
    into, forget, cell, out = np.split(value, 4)
    return np.concatenate([into, out, forget, cell])
