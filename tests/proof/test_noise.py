"""Router layers inside networks: locked, proven of tokens, and the noise that they stand."""

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Generator, Tensor, nn

import csprop
from csprop.cells.router import RouterBlock
from csprop.errors import InputError
from csprop.proof.certificate import Certificate
from csprop.proof.locked import Locked
from csprop.proof.models import FromLayer
from csprop.proof.noise import _Comparisons, radius

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


def test_within_the_radius_nothing_changes(
    trained: tuple[FromLayer, str, Tensor], certificate: Certificate
) -> None:
    network, name, look = trained
    assert certificate.verdict == "proven for all lengths"
    assert certificate.automaton is not None
    assert len(certificate.automaton) == len(csprop.tasks.get(name).machine)
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
    """Noise climbs towards a wrong answer, or another map; well beyond the radius it finds one."""
    network, name, look = trained
    tokens, _ = _draw(look, 16, 6, Generator().manual_seed(2))
    answers, within = csprop.tasks.get(name).labels(tokens), radius(certificate)
    block = network.layer.layers[0]

    def choices(x: Tensor) -> Tensor:
        assert isinstance(block.cell, RouterBlock)
        return block.cell.keys(block.enter(block.norm(x)))

    def wrong_at(length: float, scores_of: Callable[[Tensor], Tensor], right: Tensor) -> bool:
        noise = torch.zeros(*tokens.shape, FEATURES, requires_grad=True)
        for _ in range(30):
            scores = scores_of(look[tokens] + noise)
            if not torch.equal(scores.argmax(dim=2), right):
                return True
            others = scores.scatter(2, right[..., None], -torch.inf).amax(dim=2)
            lead = scores.gather(2, right[..., None])[..., 0] - others
            (slope,) = torch.autograd.grad(lead.sum(), noise)
            direction = slope / slope.norm(dim=2, keepdim=True).clamp(min=1e-9)
            moved = noise.detach() - 0.3 * length * direction
            moved *= (length / moved.norm(dim=2, keepdim=True).clamp(min=1e-9)).clamp(max=1)
            noise = moved.requires_grad_()
        return False

    said = lambda x: network.head(network.layer(x)[0])  # noqa: E731
    for scores_of, right in ((said, answers), (choices, choices(look[tokens]).argmax(dim=2))):
        assert not wrong_at(0.999 * within, scores_of, right)
        assert wrong_at(8 * within, scores_of, right)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6), share=st.floats(0.05, 1.0), scale=st.sampled_from([1e-3, 0.1, 1, 1e3])
)
def test_the_bound_is_below_what_any_noise_reaches(seed: int, share: float, scale: float) -> None:
    """Against noise along many directions, and towards the worst ones, by LayerNorm itself."""
    generator = Generator().manual_seed(seed)
    norm, head = nn.LayerNorm(5, dtype=torch.float64), nn.Linear(5, 2, dtype=torch.float64)
    for each in (*norm.parameters(), *head.parameters()):
        each.data.normal_(generator=generator)
    x = scale * torch.randn(1, 5, generator=generator, dtype=torch.float64)
    with torch.no_grad():
        comparisons = _Comparisons(x, norm, [head], 0.0)
    low, high = 0.0, float((x - x.mean()).norm())
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if comparisons.hold(middle) else (low, middle)
    chosen = int(head(norm(x)).argmax())
    noise = torch.randn(2000, 5, generator=generator, dtype=torch.float64, requires_grad=True)
    for _ in range(20):
        scores = head(norm(x + share * low * noise / noise.norm(dim=1, keepdim=True)))
        lead = scores[:, chosen] - scores[:, 1 - chosen]
        if low:
            assert float(lead.detach().min()) > 0
        (slope,) = torch.autograd.grad(lead.sum(), noise)
        moved = noise - slope / slope.norm(dim=1, keepdim=True).clamp(min=1e-9)
        noise = moved.detach().requires_grad_()


def by_hand(offset: float = 0.0) -> FromLayer:
    """Parity, written into a router of two places: the second feature says whether to move."""
    layer = csprop.CSPLayer(2, 2, kind=csprop.Router(maps=2), generator=Generator().manual_seed(0))
    head, look = nn.Linear(2, 2), torch.tensor([[1.0, -1.0], [-1.0, 1.0]])
    with torch.no_grad():
        for each in layer.layers:
            assert isinstance(each.cell, RouterBlock)
            for parameter in (each.enter.weight, each.enter.bias, each.leave.bias, each.cell.keys.bias):
                parameter.zero_()
            each.enter.weight[0, 1] = 1
            each.cell.keys.weight.copy_(torch.tensor([[-1.0, 0, 0, 0], [1.0, 0, 0, 0]]))
            each.cell.maps.copy_(torch.stack([torch.eye(2), torch.eye(2).flip(0)])[:, None])
            each.leave.weight.copy_(torch.tensor([[4.0, -4, 0, 0], [-4.0, 4, 0, 0]]))
        head.weight.copy_(torch.tensor([[1.0, -1.0], [-1.0, 1.0]]))
        head.bias.zero_()
    return FromLayer(nn.Embedding.from_pretrained(look + offset), layer.eval(), head)


def proven_by_hand(offset: float = 0.0) -> Certificate:
    found = csprop.certify(by_hand(offset), "parity", progress=False)
    assert found.proven
    return found


def test_a_radius_by_hand() -> None:
    """(1, -1) with noise can be mistaken for (-1, 1) from the length sqrt(2) on."""
    near, far = radius(proven_by_hand()), radius(proven_by_hand(1e3))
    assert near == pytest.approx(math.sqrt(2), rel=1e-2)
    assert far < 0.99 * near, "far from 0 the norm cancels most digits of a feature"


def prune_all(proven: Certificate) -> Certificate:
    """A layer that no answer needs is pruned, and what was proven is not the network."""
    proven.locked.kept.zero_()
    locked = Locked(proven.locked.network, proven.locked.codes, proven.locked.kept, 2)
    return replace(proven, locked=locked)


def begin_beside(proven: Certificate) -> Certificate:
    """Locking takes states that are near each other for one; the network itself does not."""
    proven.locked.network.layer.layers[0].cell.h0[0, 0] = 0.99
    return proven


def halve(proven: Certificate) -> Certificate:
    proven.locked.network.bfloat16()
    return proven


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (prune_all, "a part of the network"),
        (begin_beside, "a part of the network"),
        (halve, "half precision"),
    ],
)
def test_what_was_not_proven_has_no_radius(change: Callable[..., Certificate], complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        radius(change(proven_by_hand()))


def test_what_tokens_look_like_is_not_trained() -> None:
    network = by_hand()
    for block in network.layer.layers:
        assert isinstance(block.cell, RouterBlock)
        block.cell.keys.weight.data *= 1e-4  # by less than rounding is trusted with
    before = [each.detach().clone() for each in network.parameters()]
    refused = csprop.certify(network, "parity", progress=False)
    assert not refused.proven
    assert all(map(torch.equal, before, network.parameters()))


def test_a_layer_alone_is_refused_by_name() -> None:
    with pytest.raises(InputError, match="FromLayer"):
        csprop.certify(csprop.CSPLayer(4, kind="router"), "parity", progress=False)  # pyright: ignore


def test_hardened_maps_are_the_same_when_evaluated() -> None:
    generator = Generator().manual_seed(0)
    layer = csprop.CSPLayer(4, 6, kind="router", depth=2, generator=generator).eval()
    x = torch.randn(3, 20, 4, generator=generator)
    before, _ = layer(x)
    for block in layer.layers:
        assert isinstance(block.cell, RouterBlock)
        block.cell.harden()
    assert torch.equal(layer(x)[0], before)


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
