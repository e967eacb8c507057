"""The authors' released model: its values, gradients and states, and the rotor that its angles make."""

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from csprop import certify, tasks
from csprop.errors import InputError
from csprop.proof.examples import Labelled
from csprop.tasks.base import every_sequence
from csprop_lab.released import prove, train
from csprop_lab.released.config import UPLOADS, ReleasedConfig
from csprop_lab.released.frames import MOST_PARTS, NotRounded, find_counts, round_angles
from csprop_lab.released.model import Released, running_sum

BASE: dict[str, Any] = {"vocab_size": 3, "num_classes": 2, "width": 4, "depth": 2}
FAST: dict[str, Any] = {"recurrence": "cumulative", "decay": "exp", "entrance": "sine"}
CASES: dict[str, dict[str, Any]] = {
    **UPLOADS,
    "summed": {"angle": "accumulated"},
    "state gates": {"gate_input": "state"},
    "affine, summed": {"angle": "accumulated", "projection": "affine", "input_map": "affine"},
    "fast by input": FAST,
}
KNOWN = {
    "released": [0.7512620974, -0.2751983742, 1.0189628397, 191.0921740462],
    "released-fast": [0.7844389962, 0.6379820846, 1.0597844947, 174.963973961],
    "released-first": [-0.4267896567, -0.2976806154, 0.3426095844, 79.7855075573],
    "summed": [-1.0807486321, 0.9251505936, -0.0897560465, 210.7154465864],
    "state gates": [-1.0807486321, -0.27068248, -0.4572672178, 85.3263322883],
    "affine, summed": [-0.1956184053, -0.1298089388, -0.121845547, 365.609837701],
    "fast by input": [-0.2921652522, 0.15752312, -0.4551737354, 110.0874750665],
}
"""Scores after 1, 10 and 21 tokens, and the norm of all gradients, by an earlier implementation, which
agreed with a transcription of the equations in plain complex numbers."""
each_case = pytest.mark.parametrize("name", CASES)


def model(name: str) -> tuple[Released, Tensor]:
    """A model in float64 whose weights are all away from their start, and tokens."""
    draws = Generator().manual_seed(0)
    net = Released(ReleasedConfig(**CASES[name] | BASE), draws).double()
    with torch.no_grad():
        for parameter in net.parameters():
            parameter += 0.2 * torch.randn(parameter.shape, generator=draws, dtype=torch.float64)
    return net, torch.randint(3, (2, 21), generator=draws)


@each_case
def test_scores_and_gradients_are_the_known_ones(name: str) -> None:
    net, tokens = model(name)
    scores = net(tokens)
    scores[:, :, 0].sum().backward()
    squares = [each.grad.square().sum() for each in net.parameters() if each.grad is not None]
    found = [*scores[1, [0, 9, 20], 0].tolist(), float(sum(squares)) ** 0.5]
    assert found == pytest.approx(KNOWN[name], abs=1e-7)


@each_case
def test_a_state_is_carried_on(name: str) -> None:
    net, tokens = model(name)
    state, found = None, []
    for chunk in tokens.split([1, 7, 13], dim=1):
        scores, state = net(chunk, state, return_state=True)
        found.append(scores)
    torch.testing.assert_close(torch.cat(found, dim=1), net(tokens))


def test_sums_stay_accurate_over_many_steps() -> None:
    """In single precision a sum of 100,000 angles would be off by a tenth of a radian."""
    steps = torch.randn(1, 100_000, 1, generator=Generator().manual_seed(0)) + 0.5
    total = running_sum(steps, torch.zeros(1, 1))
    torch.testing.assert_close(total[0, -1, 0].item(), math.fsum(steps.double().flatten().tolist()))


def test_fast_stays_finite_where_a_product_of_decays_underflows() -> None:
    net = Released(ReleasedConfig(**BASE, **FAST), Generator().manual_seed(0))
    tokens = torch.randint(3, (1, 3000), generator=Generator().manual_seed(1))
    scores = net(tokens)
    scores.sum().backward()
    assert scores.isfinite().all()
    assert all(each.grad.isfinite().all() for each in net.parameters() if each.grad is not None)


def test_fast_without_its_gates_is_refused() -> None:
    changes: Any = ({"decay": "softplus"}, {"entrance": "softplus"}, {"gate_input": "state"})
    for change in changes:
        with pytest.raises(InputError, match="recurrence='cumulative' needs decay='exp'"):
            ReleasedConfig(**BASE, **FAST | change)


def turning(turns: list[float], task: str = "parity") -> Released:
    """A model whose first layer turns by these fractions of a turn, the others by nothing."""
    sizes = {"vocab_size": 2, "num_classes": len(tasks.get(task).classes), "width": 4}
    options: Any = UPLOADS["released"] | sizes | {"embedding": "complex"}
    net = Released(ReleasedConfig(**options), Generator().manual_seed(0))
    blocks: Any = net.blocks
    with torch.no_grad():
        net.embedding.zero_()
        net.embedding[:, 0, 3] = 1.0
        for block in blocks:
            block.angle.weight.zero_()
            block.angle.weight[0, 3] = 5.0  # channel 3: a direction of 0
        blocks[0].angle.weight[0, 3] = 0.0
        for token, turn in enumerate(turns):
            net.embedding[token, 0, token] = 1.0
            direction = torch.tensor([math.cos(math.tau * turn), math.sin(math.tau * turn)])
            blocks[0].angle.weight[:, token] = torch.atanh(0.9 * direction)
    return net.eval()


def rows(task: str = "parity", count: int = 300) -> Labelled:
    return Labelled.of(tasks.get(task).examples(count, 12, Generator().manual_seed(0)))


COUNTS: list[tuple[list[float], int, str]] = [
    ([0.0, 1 / parts], parts, f"mod{parts}-residue" if parts > 2 else "parity")
    for parts in range(2, MOST_PARTS + 1)
]
COUNTS += [([0.01, 0.26], 4, "parity"), ([0.5, -0.24], 4, "parity")]


@pytest.mark.parametrize(("turns", "parts", "task"), COUNTS)
def test_the_coarsest_count_that_gives_all_answers_becomes_a_rotor(
    turns: list[float], parts: int, task: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    net, examples = turning(turns, task), rows(task, 600)
    answers = F.one_hot(examples.labels.clamp(min=0), net.config.num_classes).double()
    monkeypatch.setattr(net, "forward", lambda tokens: answers)  # as if it had learned them
    rotor, frame = round_angles(net, examples)
    assert (frame.layer, frame.parts, frame.misses) == (1, parts, 0)
    assert [move % parts for move in frame.moves] == [round(turn * parts) % parts for turn in turns]
    tokens = every_sequence(2, 10)
    assert torch.equal(rotor(tokens).argmax(dim=2), tokens.cumsum(dim=1) % net.config.num_classes)
    if parts == 3:
        assert certify(rotor, task, examples, rounds=0, progress=False).proven


@pytest.mark.parametrize(("turn", "counts"), [(0.54, True), (0.56, False), (0.0625, False)])
def test_angles_must_be_near_a_fraction_of_a_turn(turn: float, counts: bool) -> None:
    found = find_counts(turning([0.0, turn]), rows())  # 0.54 is 0.08 of a half beside it, 0.56 0.12
    assert (min(frame.misses for frame, _ in found) == 0) == counts  # other layers turn by nothing


def test_a_token_that_is_never_read_has_no_angle() -> None:
    """Padding at the end of short rows may be any token."""
    examples = rows()
    labels, padded = examples.labels.clone(), torch.zeros_like(examples.tokens)
    assert find_counts(turning([0.25, 0.5]), Labelled(padded, labels)) == []
    labels[:, 6:] = -1
    padded[:, 6:] = 1
    assert find_counts(turning([0.25, 0.5]), Labelled(padded, labels)) == []


def test_a_model_that_has_learned_nothing_is_refused_though_its_angles_would_do() -> None:
    with pytest.raises(NotRounded) as refused:
        round_angles(turning([0.0, 0.5]), rows())
    assert refused.value.verdict == "not learned"


def test_a_count_that_loses_answers_is_refused() -> None:
    net, examples = turning([0.0, 1 / 3]), rows()
    with torch.no_grad():
        own = net(examples.tokens).argmax(dim=2)  # a function of more than the count modulo 3
    with pytest.raises(NotRounded, match="the best count, the sum of layer") as refused:
        round_angles(net, Labelled(examples.tokens, own))
    assert refused.value.verdict == "not finite"


@pytest.mark.slow
def test_a_model_that_csprop_s_loop_has_trained_is_proven_once_it_is_rounded() -> None:
    run = train("mod3-residue", seed=2, samples=5000, lr=1e-3, epochs=12, hold=2)
    assert run.result is not None
    assert run.result.accuracy == 1
    certificate, frame = prove(run)
    assert certificate.proven
    assert (frame.layer, frame.parts, frame.moves, frame.misses) == (1, 3, [0, 1], 0)
