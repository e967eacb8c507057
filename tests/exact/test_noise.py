"""Router layers inside networks: locked, proven of tokens, and the noise that they stand."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Generator, Tensor, nn

import csprop
from csprop.errors import InputError
from csprop.exact.document import Certificate
from csprop.exact.models import FromLayer
from csprop.exact.noise import _Comparisons, radius
from csprop.nn.router import Router

FEATURES, NOISE = 8, 0.2
TURN, WRITE = "parity", "flip-flop"


def _draw(
    look: Tensor, rows: int, steps: int, generator: Generator, length: float | None = None
) -> tuple:
    """Tokens and their features with noise: of a normal distribution, or of one length."""
    tokens = torch.randint(len(look), (rows, steps), generator=generator)
    noise = torch.randn(rows, steps, FEATURES, generator=generator)
    noise = NOISE * noise if length is None else length * noise / noise.norm(dim=2, keepdim=True)
    return tokens, look[tokens] + noise


@pytest.fixture(scope="module", params=[(TURN, 1), (WRITE, 1), (TURN, 2)], ids=str)
def trained(request: pytest.FixtureRequest) -> tuple[FromLayer, str, Tensor]:
    """A network that has learned a task from noisy features."""
    name, depth = request.param
    task, generator = csprop.tasks.get(name), Generator().manual_seed(0)
    look = torch.randn(len(task.vocab), FEATURES, generator=generator)
    layer = csprop.CSPLayer(FEATURES, 8, kind="router", maps=8, depth=depth, generator=generator)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        head = nn.Linear(FEATURES, len(task.classes))
    optimiser = torch.optim.Adam([*layer.parameters(), *head.parameters()], lr=0.01)
    steps = 250
    for step in range(steps):
        layer.temperature = 0.2 ** min(1, step / (0.65 * steps))
        tokens, x = _draw(look, 48, 8, generator)
        answers = task.labels(tokens)
        loss = nn.functional.cross_entropy(head(layer(x)[0]).flatten(0, 1), answers.flatten())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return FromLayer(nn.Embedding.from_pretrained(look), layer.eval(), head), name, look


@pytest.fixture(scope="module")
def certificate(trained: tuple[FromLayer, str, Tensor]) -> Certificate:
    return csprop.certify(trained[0], trained[1], progress=False)


def test_a_router_layer_trained_on_noisy_features_is_proven_of_tokens(
    trained: tuple[FromLayer, str, Tensor], certificate: Certificate
) -> None:
    assert certificate.verdict == "proven for all lengths"
    assert certificate.automaton is not None
    assert len(certificate.automaton) == len(csprop.tasks.get(trained[1]).machine)


def test_within_the_radius_nothing_changes(
    trained: tuple[FromLayer, str, Tensor], certificate: Certificate
) -> None:
    network, name, look = trained
    within = radius(certificate)
    assert within > NOISE * math.sqrt(FEATURES)  # the noise of training
    generator = Generator().manual_seed(1)
    for _ in range(4):
        tokens, x = _draw(look, 32, 200, generator, 0.999 * within)
        found = network.head(network.layer(x)[0]).argmax(dim=2)
        assert torch.equal(found, csprop.tasks.get(name).labels(tokens))


def test_an_attack_within_the_radius_finds_nothing(
    trained: tuple[FromLayer, str, Tensor], certificate: Certificate
) -> None:
    """The noise climbs towards a wrong answer; well beyond the radius it finds one."""
    network, name, look = trained
    tokens, _ = _draw(look, 16, 6, Generator().manual_seed(2))
    answers, within = csprop.tasks.get(name).labels(tokens), radius(certificate)

    def wrong_at(length: float) -> bool:
        noise = torch.zeros(*tokens.shape, FEATURES, requires_grad=True)
        for _ in range(30):
            scores = network.head(network.layer(look[tokens] + noise)[0])
            if not torch.equal(scores.argmax(dim=2), answers):
                return True
            others = scores.scatter(2, answers[..., None], -torch.inf).amax(dim=2)
            lead = scores.gather(2, answers[..., None])[..., 0] - others
            (slope,) = torch.autograd.grad(lead.sum(), noise)
            moved = noise.detach() - 0.3 * length * slope / slope.norm(dim=2, keepdim=True).clamp(
                min=1e-9
            )
            moved *= (length / moved.norm(dim=2, keepdim=True).clamp(min=1e-9)).clamp(max=1)
            noise = moved.requires_grad_()
        return False

    assert not wrong_at(0.999 * within)
    assert wrong_at(8 * within)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), share=st.floats(0.05, 0.95))
def test_the_bound_is_below_what_any_noise_reaches(seed: int, share: float) -> None:
    """Against noise along many directions, and towards the worst ones, by LayerNorm itself."""
    generator = Generator().manual_seed(seed)
    norm = nn.LayerNorm(5, dtype=torch.float64)
    norm.weight.data.normal_(generator=generator)
    norm.bias.data.normal_(generator=generator)
    x, weight = (torch.randn(n, 5, generator=generator, dtype=torch.float64) for n in (1, 2))
    bias = torch.randn(2, generator=generator, dtype=torch.float64)
    chosen = (norm(x) @ weight.T + bias).argmax(dim=1)
    length = share * float((x - x.mean()).norm())
    if not _Comparisons(x, norm, weight, bias, chosen).hold(length):
        return
    noise = torch.randn(4000, 5, generator=generator, dtype=torch.float64)
    noise.requires_grad_()
    for _ in range(20):
        on_sphere = length * noise / noise.norm(dim=1, keepdim=True)
        scores = norm(x + on_sphere) @ weight.T + bias
        lead = scores[:, chosen[0]] - scores[:, 1 - chosen[0]]
        assert float(lead.detach().min()) > 0
        (slope,) = torch.autograd.grad(lead.sum(), noise)
        noise = (
            (noise - slope / slope.norm(dim=1, keepdim=True).clamp(min=1e-9)).detach().requires_grad_()
        )


def test_hardened_maps_are_the_same_when_evaluated() -> None:
    generator = Generator().manual_seed(0)
    layer = csprop.CSPLayer(4, 6, kind="router", depth=2, generator=generator).eval()
    x = torch.randn(3, 20, 4, generator=generator)
    before, _ = layer(x)
    for block in layer.layers:
        assert isinstance(block.cell, Router)
        block.cell.harden()
    assert torch.equal(layer(x)[0], before)


def test_an_adapter_steps_as_the_network_runs() -> None:
    generator = Generator().manual_seed(0)
    layer = csprop.CSPLayer(4, 6, kind="rotor", depth=2, generator=generator).eval()
    network = FromLayer(nn.Embedding(3, 4), layer, nn.Linear(4, 2))
    tokens = torch.randint(3, (5, 9), generator=generator)
    state, scores = network.initial_state(5), []
    for each in tokens.unbind(1):
        state, said = network.step(state, each, lambda number, h: h)
        scores.append(said)
    assert torch.allclose(torch.stack(scores, dim=1), network(tokens), atol=1e-5)


def test_what_has_no_step_is_refused() -> None:
    for layer in (csprop.CSPLayer(4, bidirectional=True), csprop.CSPLayer(4, vocab_size=3)):
        with pytest.raises(InputError, match=r"bidirectional.*vocab_size"):
            FromLayer(nn.Embedding(3, 4), layer, nn.Linear(4, 2))


def test_a_radius_is_that_of_a_proof(certificate: Certificate) -> None:
    untrained = FromLayer(nn.Embedding(2, 4), csprop.CSPLayer(4, kind="router"), nn.Linear(4, 2))
    refused = csprop.certify(untrained, "parity", rounds=0, progress=False)
    with pytest.raises(InputError, match="proven FromLayer"):
        radius(refused)
    model = certificate.locked.network
    head, model.head = model.head, nn.Sequential(model.head)
    try:
        with pytest.raises(InputError, match=r"nn\.Linear as the head"):
            radius(certificate)
    finally:
        model.head = head
