"""`CSP`: streams, extreme weights, messages, decoders, couplings, the hub; more in test_contract.py."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from torch import Generator, Tensor

from csprop import CSP, CSPConfig, Paper, Rotor, Switch, scan, use_backend
from csprop.cells.paper import PaperBlock
from csprop.errors import InputError
from csprop.ops import native
from tests.helpers import options
from tests.helpers.recurrent import MODELS, TOKENS, WIDTH, model, tokens

MODEL = pytest.mark.parametrize("name", MODELS)
needs_kernel = pytest.mark.skipif(bool(native.WHY_NOT), reason=native.WHY_NOT)
NEAR = {torch.float16: 0.02, torch.bfloat16: 0.15}
"""Some twenty times the precision of a number, for errors that add up through layers."""
FAST = pytest.mark.parametrize("backend", ["torch", pytest.param("native", marks=needs_kernel)])


def paper(**changes: Any) -> CSP:
    """Return a model of three printed layers, with other options of the cell or of the model."""
    sizes: dict[str, Any] = {"depth": 3, "width": 5, "vocab_size": TOKENS}
    sizes |= {name: changes.pop(name) for name in ("decoder", "width", "depth") if name in changes}
    return CSP(options.config(Paper(**changes), **sizes))


@MODEL
def test_streaming_equals_batch(name: str) -> None:
    """With hard maps, also of a model in training; the kernel steps with a copy of the weights."""
    net, x = model(name).double(), tokens(1, 40)
    with use_backend("torch"), torch.no_grad():
        whole, last = net(x, return_state=True)
        _, middle = net(x[:, :20], return_state=True)
    whole, tracker, state, steps = whole[0], net.train().stream(), net.initial_state(), []
    for token in x.unbind(1):
        state, scores = net.step(state, token)
        steps.append(scores[0])
    streamed = torch.stack([tracker.step(int(token)) for token in x[0]])
    torch.testing.assert_close([streamed, tracker.state], [whole, last], rtol=1e-9, atol=1e-9)
    torch.testing.assert_close([torch.stack(steps), state], [whole, last], rtol=1e-9, atol=1e-9)
    assert not tracker.state.requires_grad
    tracker.reset()
    torch.testing.assert_close(tracker.step(int(x[0, 0])), whole[0])
    tracker.state = middle
    if not native.WHY_NOT:
        torch.nn.init.zeros_(net.embedding)
    before = tracker.state
    torch.testing.assert_close(tracker.step(int(x[0, 20])), whole[20])
    assert not torch.equal(before, tracker.state)
    with pytest.raises(InputError, match="token 5 is outside the vocabulary: write 0 to 4"):
        tracker.step(5)
    shape = [1, net.config.depth, net.config.order, WIDTH]
    expected = re.escape(f"of shape {tuple(shape)}; got ")
    with pytest.raises(InputError, match=expected):
        tracker.state = torch.zeros(*shape[:3], WIDTH + 1)


BIG = {
    "rotor": Rotor(), "matrices": Rotor(order=3), "switch": Switch(),
    "complex": Paper(rotate="state", decay="exp"),
    "layer": Paper(rotate="state", decay="exp", norm="layer", rotation="per_channel"),
    "none": Paper(rotate="state", decay="exp", norm="none"),
}  # fmt: skip


@FAST
@pytest.mark.parametrize("part", ["embedding", "angle", "gate", "blocks", ""])
@pytest.mark.parametrize("name", BIG)
def test_streaming_equals_batch_with_weights_of_1e19(name: str, part: str, backend: str) -> None:
    """An angle so large would be rounded by many turns, and otherwise in a batch than in a stream."""
    net = CSP(options.config(BIG[name], decoder="linear", vocab_size=TOKENS)).double()
    with torch.no_grad():
        for weight, parameter in net.named_parameters():
            if part in weight:
                parameter.mul_(1e19)
    x = tokens(1, 12)
    with use_backend(backend), torch.no_grad():
        whole, tracker = net(x)[0], net.stream()
        steps = torch.stack([tracker.step(int(token)) for token in x[0]])
    assert whole.isfinite().all()
    torch.testing.assert_close(steps / whole.abs().max(), whole / whole.abs().max())


@pytest.mark.parametrize("decoder", ["cos_sin", "phase", "complex"])
@pytest.mark.parametrize("norm", ["complex", "none"])
def test_gradients_are_finite_where_the_state_is_exactly_zero(decoder: str, norm: str) -> None:
    net = paper(decoder=decoder, norm=norm, skip=False)
    with torch.no_grad():
        net.embedding.zero_()
    net(tokens(2, 4)).sum().backward()
    gradients = [p.grad for p in net.parameters() if p.grad is not None]
    assert len(gradients) == len(list(net.parameters()))
    assert all(gradient.isfinite().all() for gradient in gradients)


@pytest.mark.parametrize("decoder", ["cos_sin", "phase", "complex"])
@pytest.mark.parametrize("norm", ["complex", "layer", "none"])
@pytest.mark.parametrize("activation", ["boundary", "none"])
def test_a_growing_stack_has_finite_gradients(activation: str, norm: str, decoder: str) -> None:
    """α well above 1 in every layer, with nothing but the limits to hold it."""
    changes = {"activation": activation, "norm": norm, "decoder": decoder, "skip": False}
    for gate in ("shared", "per_channel"):
        net = paper(gate=gate, width=16, **changes)
        with torch.no_grad():
            for block in net.layers:
                cast(PaperBlock, block).gate.bias.fill_(1.0)
        net(tokens(4, 200))[:, -1].logsumexp(dim=1).mean().backward()
        gradients = [p.grad for p in net.parameters() if p.grad is not None]
        assert len(gradients) == len(list(net.parameters()))
        assert torch.nn.utils.get_total_norm(gradients).isfinite()


@pytest.mark.parametrize("dtype", NEAR)
@pytest.mark.parametrize("norm", ["complex", "layer", "none"])
@pytest.mark.parametrize("decoder", ["cos_sin", "phase"])
def test_states_that_grow_stay_finite(norm: Any, decoder: Any, dtype: torch.dtype) -> None:
    """α well above 1 in every layer: states of 2^60 in float32, beyond the numbers of float16."""
    sizes: dict[str, Any] = {"vocab_size": 3, "num_classes": 4, "width": 8, "decoder": decoder}
    net = CSP(CSPConfig(**sizes, cell=Paper(norm=norm)), Generator().manual_seed(1))
    for block in net.layers:
        torch.nn.init.constant_(cast(PaperBlock, block).gate.bias, 1.0)
    x = torch.randint(3, (2, 400), generator=Generator().manual_seed(2))
    want, scores = net(x)[:, -1], net.to(dtype)(x)
    assert scores.isfinite().all()
    if norm == "complex":
        near = NEAR[dtype]
        torch.testing.assert_close(scores[:, -1].float(), want, rtol=near, atol=4 * near)
    scores.float().logsumexp(dim=2).mean().backward()
    assert all(each.grad is None or each.grad.isfinite().all() for each in net.parameters())


@pytest.mark.parametrize("token", [-1, 5])
def test_a_token_outside_the_vocabulary_is_named(token: int) -> None:
    with pytest.raises(InputError, match=f"token {token} is outside the vocabulary: write 0 to 4"):
        model("paper")(torch.tensor([[0, token]]))


def test_coupling_is_shared_unless_asked() -> None:
    assert len(model("paper, coupled").couplings) == 2
    assert len(paper(coupling_rank=2).couplings) == 1
    assert len(model("paper").couplings) == 0


def test_a_new_coupling_changes_nothing() -> None:
    plain, coupled = paper(), paper(coupling_rank=2)
    coupled.load_state_dict(plain.state_dict(), strict=False)
    torch.testing.assert_close(coupled(tokens(2, 9)), plain(tokens(2, 9)))


@MODEL
def test_hub_round_trip_through_a_local_folder(name: str, tmp_path: Path) -> None:
    net = model(name)
    net.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    assert [each["kind"] for each in config["cells"]] == [cell.kind for cell in MODELS[name]]
    again = CSP.from_pretrained(str(tmp_path))
    assert again.config == net.config
    assert torch.equal(again(tokens(2, 9)), net(tokens(2, 9)))
    (tmp_path / "config.json").write_text(json.dumps(config | {"widht": 3}))
    with pytest.raises(InputError, match="'widht' is not an option of a model"):
        CSP.from_pretrained(str(tmp_path))


NET, MATRICES = (
    CSP(options.config(cell, width=4), Generator().manual_seed(0)) for cell in (Paper(), Rotor(order=3))
)
ROWS, RESET = torch.zeros(2, 5, dtype=torch.int64), torch.zeros(2, 5, dtype=torch.bool)
A, Z, H0 = torch.ones(2, 5, 1, 1), torch.ones(2, 5, 2, 4), torch.ones(2, 2, 4)
STATE, PLANES = NET.initial_state(2).detach(), MATRICES.initial_state(2).detach()
BLOCK, TURNING, TRACKER = NET.layers[0], MATRICES.layers[0], NET.stream()
TAKERS: dict[str, tuple[Callable[[Any], object], Tensor]] = {
    "tokens": (lambda value: NET(value), ROWS),
    "state": (lambda value: NET(ROWS, value), STATE),
    "reset": (lambda value: NET(ROWS, reset=value), RESET),
    "state of a stream": (lambda value: setattr(TRACKER, "state", value), TRACKER.state),
    "token of a stream": (lambda value: TRACKER.step(value), torch.tensor(1)),
    "a of scan": (lambda value: scan(value, Z), A),
    "u of scan": (lambda value: scan(A, value), Z),
    "h0 of scan": (lambda value: scan(A, Z, value), H0),
    "reset of scan": (lambda value: scan(A, Z, None, value), RESET),
    "z of a block": (lambda value: BLOCK(value, H0), Z),
    "state of a block": (lambda value: BLOCK(Z, value), H0),
    "reset of a block": (lambda value: BLOCK(Z, H0, value), RESET),
    "coupled of a block": (lambda value: BLOCK(Z, H0, None, value), Z),
    "state of order 3": (lambda value: MATRICES(ROWS, value), PLANES),
    "state of a block of order 3": (
        lambda value: TURNING(torch.ones(2, 5, 3, 4), value), PLANES[:, 0],
    ),
}  # fmt: skip
OPTIONAL = ("state", "reset", "h0 of scan", "reset of scan", "reset of a block", "coupled of a block",
            "state of order 3")  # fmt: skip


def spoil(right: Tensor) -> dict[str, Any]:
    """Return values of the wrong kind in place of a tensor."""
    wrong: dict[str, Any] = {
        "string": "0110", "float": 0.5, "object": object(), "generator": (each for each in [1]),
        "list": right.tolist() if right.ndim else [1], "meta": right.to("meta"),
        "array": right.numpy() if right.ndim else np.ones(3), "complex": right.to(torch.complex64),
        "None": None,
    }  # fmt: skip
    if right.ndim:
        nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.strided)
        wrong |= {"sparse": right.to_sparse(), "shape": right[None], "nested": nested}
    return wrong


@pytest.mark.usefixtures("unchecked_shapes")  # users have no checks of shapes
@pytest.mark.filterwarnings("ignore")  # of torch, about nested and sparse tensors
@pytest.mark.parametrize("name", TAKERS)
def test_every_wrong_type_is_one_sentence(name: str) -> None:
    take, right = TAKERS[name]
    take(right)
    for kind, value in spoil(right).items():
        if kind == "None" and name in OPTIONAL:
            continue
        with pytest.raises(InputError) as refusal:
            take(value)
        sentence = str(refusal.value)
        assert "must be" in sentence, kind
        assert "; got " in sentence, kind
        assert "\n" not in sentence, kind
