import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Generator

from csprop import CSP, CSPConfig, tasks, use_backend
from csprop.errors import InputError
from csprop.ops import native
from csprop.training.presets import preset

VARIANTS: dict[str, dict[str, Any]] = {
    "paper": dataclasses.asdict(preset("paper", tasks.get("parity")).model),
    "switch": dataclasses.asdict(preset("rotor", tasks.get("parity")).model),
    "counter": dataclasses.asdict(preset("rotor", tasks.get("parenthesis")).model),
    "count": {"kinds": ("counter", "switch", "counter"), "decoder": "linear"},
    "recall": dataclasses.asdict(preset("rotor", tasks.get("even-pairs")).model),
    "matrices": dataclasses.asdict(preset("rotor", tasks.get("group-A5")).model),
    "step": {"activation": "step", "h0": "learned"},
    "coupled": {"coupling_rank": 2, "coupling": "per_layer", "norm": "layer", "rotate": "state"},
}


needs_kernel = pytest.mark.skipif(bool(native.WHY_NOT), reason=native.WHY_NOT)
FAST = pytest.mark.parametrize("backend", ["torch", pytest.param("native", marks=needs_kernel)])


def model(variant: str = "paper", **changes: Any) -> CSP:
    options: dict[str, Any] = {"width": 5, "depth": 3, "vocab_size": 3, "num_classes": 4}
    options = VARIANTS[variant] | options | changes
    return CSP(CSPConfig(**options), Generator().manual_seed(3))


def tokens(batch: int, length: int) -> torch.Tensor:
    return torch.randint(3, (batch, length), generator=Generator().manual_seed(4))


@pytest.mark.parametrize("variant", VARIANTS)
def test_streaming_equals_batch(variant: str) -> None:
    net, x = model(variant).double(), tokens(1, 40)
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


@needs_kernel
def test_streams_of_the_presets_go_past_torch() -> None:
    for variant in ("paper", "switch", "counter"):
        assert model(variant).stepper(model(variant).initial_state()) is not None


@FAST
@pytest.mark.parametrize("part", ["embedding", "angle", "gate", "blocks", ""])
@pytest.mark.parametrize("norm", ["complex", "layer", "none"])
@pytest.mark.parametrize(("order", "rotation"), [(2, "shared"), (2, "per_channel"), (3, "shared")])
def test_streaming_equals_batch_with_weights_of_1e19(
    order: int, rotation: str, norm: str, part: str, backend: str
) -> None:
    """An angle so large would be rounded by many turns, and otherwise in a batch than in a stream."""
    options = {"order": order, "rotate": "state", "angle": "free", "rotation": rotation}
    net = model(**options, decay="exp", decoder="linear", norm=norm, depth=2).double()
    with torch.no_grad():
        for name, parameter in net.named_parameters():
            if part in name:
                parameter.mul_(1e19)
    x = tokens(1, 12)
    with use_backend(backend), torch.no_grad():
        whole, tracker = net(x)[0], net.stream()
        steps = torch.stack([tracker.step(int(token)) for token in x[0]])
    assert whole.isfinite().all()
    torch.testing.assert_close(steps / whole.abs().max(), whole / whole.abs().max())


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("cut", [0, 1, 17, 40])
def test_a_carried_state_goes_on_where_it_stopped(variant: str, cut: int) -> None:
    net, x = model(variant).double(), tokens(2, 40)
    first, state = net(x[:, :cut], return_state=True)
    second, state = net(x[:, cut:], state, return_state=True)
    whole, last = net(x, return_state=True)
    torch.testing.assert_close(torch.cat([first, second], dim=1), whole)
    torch.testing.assert_close(state, last)


@pytest.mark.parametrize("variant", VARIANTS)
def test_reset_packs_sequences_into_one_row(variant: str) -> None:
    net, x = model(variant).double(), tokens(1, 12)
    reset = torch.zeros(1, 12, dtype=torch.bool)
    reset[0, [5, 9]] = True
    _, elsewhere = net(tokens(1, 7), return_state=True)
    packed = net(x, elsewhere, reset=reset)
    torch.testing.assert_close(packed[:, :5], net(x[:, :5], elsewhere))
    torch.testing.assert_close(packed[:, 5:9], net(x[:, 5:9]))
    torch.testing.assert_close(packed[:, 9:], net(x[:, 9:]))


@FAST
@pytest.mark.parametrize("variant", VARIANTS)
def test_backends_agree_through_the_whole_model(variant: str, backend: str) -> None:
    net, x = model(variant).double(), tokens(4, 33)
    gradients = []
    for name in ("reference", backend):
        net.zero_grad()
        with use_backend(name):
            net(x).square().mean().backward()
        gradients.append([p.grad.clone() for p in net.parameters() if p.grad is not None])
    trained = len(list(net.parameters())) - net.layers[0].counts  # whose embedding is not
    assert len(gradients[0]) == trained
    for want, got in zip(*gradients, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("variant", VARIANTS)
def test_empty_batches_and_single_tokens_work(variant: str) -> None:
    net = model(variant)
    assert net(tokens(0, 6)).shape == (0, 6, 4)
    assert net(tokens(2, 0)).shape == (2, 0, 4)
    assert net(tokens(2, 1)).shape == (2, 1, 4)
    net(tokens(2, 1)).sum().backward()


@pytest.mark.parametrize("decoder", ["cos_sin", "phase", "complex"])
@pytest.mark.parametrize("norm", ["complex", "none"])
def test_gradients_are_finite_where_the_state_is_exactly_zero(decoder: str, norm: str) -> None:
    net = model(decoder=decoder, norm=norm, skip=False)
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
    options = {"activation": activation, "norm": norm, "decoder": decoder, "skip": False}
    for gate in ("shared", "per_channel"):
        net = model(gate=gate, width=16, **options)
        with torch.no_grad():
            for block in net.layers:
                block.gate.bias.fill_(1.0)
        net(tokens(4, 200))[:, -1].logsumexp(dim=1).mean().backward()
        gradients = [p.grad for p in net.parameters() if p.grad is not None]
        assert len(gradients) == len(list(net.parameters()))
        assert torch.nn.utils.get_total_norm(gradients).isfinite()


def test_the_printed_model_stays_finite_at_a_hundred_thousand_growing_steps() -> None:
    net = model(depth=1, width=2)
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


@pytest.mark.parametrize("variant", VARIANTS)
def test_bfloat16_gives_nearly_the_same_scores(variant: str) -> None:
    net, x = model(variant), tokens(2, 20)
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
    assert len(model("coupled", coupling="shared").couplings) == 1
    assert len(model().couplings) == 0


def test_a_fresh_coupling_changes_nothing() -> None:
    plain, coupled = model(), model(coupling_rank=2)
    coupled.load_state_dict(plain.state_dict(), strict=False)
    torch.testing.assert_close(coupled(tokens(2, 9)), plain(tokens(2, 9)))


def test_hub_round_trip_through_a_local_folder(tmp_path: Path) -> None:
    net = model("switch")
    net.save_pretrained(tmp_path)
    assert json.loads((tmp_path / "config.json").read_text())["rotate"] == "state"
    again = CSP.from_pretrained(str(tmp_path))
    assert again.config == net.config
    assert torch.equal(again(tokens(2, 9)), net(tokens(2, 9)))
    assert callable(net.push_to_hub)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"widht": 3}))
    with pytest.raises(InputError, match="'widht' is no option of CSPConfig"):
        CSP.from_pretrained(str(tmp_path))
