import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Generator

from csprop import CSP, Cell, Counter, CSPConfig, Paper, Rotor, Router, Switch, use_backend
from csprop.errors import InputError
from csprop.ops import native
from tests.helpers import options

COUPLED = Paper(coupling_rank=2, coupling="per_layer", norm="layer", rotate="state")
STACKS: dict[str, list[Cell]] = {
    "paper": [Paper()] * 3,
    "adding": [Paper(rotate="none", decay="unit", gate="per_channel", h0="learned")] * 3,
    "step": [Paper(activation="step", h0="learned")] * 3,
    "coupled": [COUPLED] * 3,
    "rotor": [Rotor()] * 3,
    "recall": [Rotor(recall=True)] * 3,
    "matrices": [Rotor(order=3)] * 3,
    "counter": [Counter(), Switch(), Counter()],
    "mixed": [Rotor(), Router(), Paper()],
}
STACK = pytest.mark.parametrize("stack", STACKS)
needs_kernel = pytest.mark.skipif(bool(native.WHY_NOT), reason=native.WHY_NOT)
FAST = pytest.mark.parametrize("backend", ["torch", pytest.param("native", marks=needs_kernel)])


def model(stack: str = "paper") -> CSP:
    """A model that is not in training: the maps of routers are hard."""
    sizes: dict[str, Any] = {"width": 5, "vocab_size": 3, "num_classes": 4, "decoder": "linear"}
    return CSP(CSPConfig(**sizes, cells=STACKS[stack]), Generator().manual_seed(3)).eval()


def paper(**changes: Any) -> CSP:
    """Three printed layers; changes are those of the cell, and `decoder`, `width` and `depth`."""
    sizes: dict[str, Any] = {name: changes.pop(name) for name in list(changes) if name in SIZES}
    return CSP(options.config(Paper(**changes), **{"depth": 3, "width": 5} | sizes))


SIZES = ("decoder", "width", "depth")


def tokens(batch: int, length: int) -> torch.Tensor:
    return torch.randint(3, (batch, length), generator=Generator().manual_seed(4))


@STACK
def test_streaming_equals_batch(stack: str) -> None:
    net, x = model(stack).double(), tokens(1, 40)
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
    with pytest.raises(InputError, match="token 3 is outside the vocabulary: write 0 to 2"):
        tracker.step(3)
    order = net.config.order
    with pytest.raises(InputError, match=rf"of shape \(1, 3, {order}, 5\); got .*\(1, 3, {order}, 4\)"):
        tracker.state = torch.zeros(1, 3, order, 4)


@pytest.mark.parametrize("token", ["1", 1.0, None])
def test_a_token_is_a_whole_number(token: object) -> None:
    with pytest.raises(InputError, match="a token must be a whole number; got"):
        model().stream().step(token)  # pyright: ignore


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
    net = CSP(options.config(BIG[name], width=5, decoder="linear")).double()
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


@STACK
@pytest.mark.parametrize("cut", [0, 1, 17, 40])
def test_a_carried_state_goes_on_where_it_stopped(stack: str, cut: int) -> None:
    net, x = model(stack).double(), tokens(2, 40)
    first, state = net(x[:, :cut], return_state=True)
    second, state = net(x[:, cut:], state, return_state=True)
    whole, last = net(x, return_state=True)
    torch.testing.assert_close(torch.cat([first, second], dim=1), whole)
    torch.testing.assert_close(state, last)


@STACK
def test_reset_packs_sequences_into_one_row(stack: str) -> None:
    net, x = model(stack).double(), tokens(1, 12)
    reset = torch.zeros(1, 12, dtype=torch.bool)
    reset[0, [5, 9]] = True
    _, elsewhere = net(tokens(1, 7), return_state=True)
    packed = net(x, elsewhere, reset=reset)
    torch.testing.assert_close(packed[:, :5], net(x[:, :5], elsewhere))
    torch.testing.assert_close(packed[:, 5:9], net(x[:, 5:9]))
    torch.testing.assert_close(packed[:, 9:], net(x[:, 9:]))


@FAST
@STACK
def test_backends_agree_through_the_whole_model(stack: str, backend: str) -> None:
    net, x = model(stack).double().train(), tokens(4, 33)
    gradients = []
    for name in ("reference", backend):
        net.zero_grad()
        with use_backend(name):
            net(x).square().mean().backward()
        gradients.append([p.grad.clone() for p in net.parameters() if p.grad is not None])
    assert len(gradients[0]) == len(list(net.parameters())) - (not net.trains_embedding)
    for want, got in zip(*gradients, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-7, atol=1e-9)


@STACK
def test_empty_batches_and_single_tokens_work(stack: str) -> None:
    net = model(stack)
    assert net(tokens(0, 6)).shape == (0, 6, 4)
    assert net(tokens(2, 0)).shape == (2, 0, 4)
    assert net(tokens(2, 1)).shape == (2, 1, 4)
    net(tokens(2, 1)).sum().backward()


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
                block.gate.bias.fill_(1.0)
        net(tokens(4, 200))[:, -1].logsumexp(dim=1).mean().backward()
        gradients = [p.grad for p in net.parameters() if p.grad is not None]
        assert len(gradients) == len(list(net.parameters()))
        assert torch.nn.utils.get_total_norm(gradients).isfinite()


def test_the_printed_model_stays_finite_at_a_hundred_thousand_growing_steps() -> None:
    net = paper(depth=1, width=2)
    with torch.no_grad():
        net.layers[0].gate.bias.fill_(3.0)  # α = softplus(3 + …) > 1
    x = tokens(1, 100_000)
    logits = net(x)
    logits.mean().backward()
    assert logits.isfinite().all()
    for name, parameter in net.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (torch.tensor([[0, 3]]), "token 3 is outside the vocabulary: write 0 to 2"),
        (torch.tensor([[-1, 2]]), "token -1 is outside the vocabulary: write 0 to 2"),
    ],
)
def test_a_token_outside_the_vocabulary_is_named(wrong: torch.Tensor, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        model()(wrong)


@STACK
def test_bfloat16_gives_nearly_the_same_scores(stack: str) -> None:
    net, x = model(stack), tokens(2, 20)
    want = net(x)
    got = net.bfloat16()(x)
    assert got.dtype == torch.bfloat16
    torch.testing.assert_close(got.float(), want, rtol=0.1, atol=0.15)


def test_a_wrong_state_is_refused() -> None:
    with pytest.raises(
        InputError, match=r"state must be .*\(2, 3, 2, 5\) on cpu; got .*\(2, 4, 2, 5\)"
    ):
        model()(tokens(2, 3), torch.zeros(2, 4, 2, 5))


def test_weights_come_from_the_generator_alone() -> None:
    config = CSPConfig(vocab_size=2, num_classes=2)
    torch.manual_seed(1)
    first = CSP(config, Generator().manual_seed(5)).state_dict()
    torch.manual_seed(2)
    before = torch.get_rng_state()
    second = CSP(config, Generator().manual_seed(5)).state_dict()
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(first[name], second[name]) for name in first)
    other = CSP(config, Generator().manual_seed(6)).state_dict()
    assert not torch.equal(first["embedding"], other["embedding"])


def test_the_complex_decoder_has_half_the_parameters() -> None:
    def size(decoder: str) -> int:
        net = CSP(CSPConfig(vocab_size=2, num_classes=8, decoder=decoder))  # pyright: ignore
        return sum(p.numel() for p in net.decoder.parameters())

    assert size("cos_sin") == 2 * 64 * 8 + 8
    assert size("phase") == 64 * 8 + 8
    assert size("complex") == 64 * 8 + 3 * 8


def test_coupling_is_shared_unless_asked() -> None:
    assert len(model("coupled").couplings) == 2
    assert len(paper(coupling_rank=2).couplings) == 1
    assert len(model().couplings) == 0


def test_a_new_coupling_changes_nothing() -> None:
    plain, coupled = paper(), paper(coupling_rank=2)
    coupled.load_state_dict(plain.state_dict(), strict=False)
    torch.testing.assert_close(coupled(tokens(2, 9)), plain(tokens(2, 9)))


@STACK
def test_hub_round_trip_through_a_local_folder(stack: str, tmp_path: Path) -> None:
    net = model(stack)
    net.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    assert [each["kind"] for each in config["cells"]] == [cell.kind for cell in STACKS[stack]]
    again = CSP.from_pretrained(str(tmp_path))
    assert again.config == net.config
    assert torch.equal(again(tokens(2, 9)), net(tokens(2, 9)))
    (tmp_path / "config.json").write_text(json.dumps(config | {"widht": 3}))
    with pytest.raises(InputError, match="'widht' is not an option of a model"):
        CSP.from_pretrained(str(tmp_path))
