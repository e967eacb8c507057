"""`CSP`: streams, extreme weights, messages, decoders, couplings, the hub; more in test_contract.py."""

import json
import re
from pathlib import Path
from typing import Any, cast

import pytest
import torch

from csprop import CSP, CSPConfig, Paper, Rotor, Switch, use_backend
from csprop.cells.paper import PaperBlock
from csprop.errors import InputError
from csprop.ops import native
from tests.helpers import options
from tests.helpers.recurrent import MODELS, TOKENS, WIDTH, model, tokens

MODEL = pytest.mark.parametrize("name", MODELS)
needs_kernel = pytest.mark.skipif(bool(native.WHY_NOT), reason=native.WHY_NOT)
FAST = pytest.mark.parametrize("backend", ["torch", pytest.param("native", marks=needs_kernel)])


def paper(**changes: Any) -> CSP:
    """Return a model of three printed layers, with other options of the cell or of the model."""
    sizes: dict[str, Any] = {"depth": 3, "width": 5, "vocab_size": TOKENS}
    sizes |= {name: changes.pop(name) for name in ("decoder", "width", "depth") if name in changes}
    return CSP(options.config(Paper(**changes), **sizes))


@MODEL
def test_streaming_equals_batch(name: str) -> None:
    net, x = model(name).double(), tokens(1, 40)
    whole = net(x)[0].detach()
    tracker = net.stream()
    torch.testing.assert_close(torch.stack([tracker.step(int(token)) for token in x[0]]), whole)
    assert tracker.state.shape == net.initial_state().shape
    assert not tracker.state.requires_grad
    tracker.reset()
    torch.testing.assert_close(tracker.step(int(x[0, 0])), whole[0])
    _, tracker.state = net(x[:, :20], return_state=True)
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


def test_the_printed_model_stays_finite_at_a_hundred_thousand_growing_steps() -> None:
    net = paper(depth=1, width=2)
    with torch.no_grad():
        cast(PaperBlock, net.layers[0]).gate.bias.fill_(3.0)  # α = softplus(3 + …) > 1
    x = tokens(1, 100_000)
    logits = net(x)
    logits.mean().backward()
    assert logits.isfinite().all()
    for name, parameter in net.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name


@pytest.mark.parametrize("token", [-1, 5])
def test_a_token_outside_the_vocabulary_is_named(token: int) -> None:
    with pytest.raises(InputError, match=f"token {token} is outside the vocabulary: write 0 to 4"):
        model("paper")(torch.tensor([[0, token]]))


def test_the_complex_decoder_has_half_the_parameters() -> None:
    def size(decoder: str) -> int:
        net = CSP(CSPConfig(vocab_size=2, num_classes=8, decoder=decoder))  # pyright: ignore
        return sum(p.numel() for p in net.decoder.parameters())

    assert size("cos_sin") == 2 * 64 * 8 + 8
    assert size("phase") == 64 * 8 + 8
    assert size("complex") == 64 * 8 + 3 * 8


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
