"""Sections 2 to 5 of docs/theory.md: eigenvalues, diagonal transitions, drift, Householder products.

Weights are set by hand where a claim says that a layer can do something, and drawn at random where it
says that none can.
"""

import itertools
import math
from collections.abc import Callable
from typing import Any, cast

import pytest
import torch
from jaxtyping import Float
from torch import Generator, Tensor, nn

import csprop
from csprop.cells import Resonator, Shape
from csprop.cells.rotor import RotorBlock
from csprop.tasks import Task
from csprop.training.presets import preset
from csprop_lab.layers import fast_weights, gated_deltanet, layer, rwkv7
from csprop_lab.layers.basic import SelectiveSSM
from csprop_lab.layers.delta_rule import delta_rule
from csprop_lab.layers.diagonal import DiagonalSSM
from csprop_lab.layers.frame import Frame, FrameConfig
from csprop_lab.layers.mamba import selective_scan
from csprop_lab.layers.retnet import Retention
from csprop_lab.layers.s5 import S5
from tests.lab.theory.weights import SEEDS, STEPS, clear, make_pd_ssm, words

# 2: positive eigenvalues


@pytest.mark.parametrize("name", ["ssm", "mamba", "mamba-2", "mlstm", "fast-weights", "gated-deltanet"])
def test_with_eigenvalues_from_0_to_1_long_words_of_ones_become_equal(name: str) -> None:
    """Through two blocks: 1^n and 1^(n+1) have the same scores in the end."""
    config = FrameConfig(layer=name, vocab_size=2, num_classes=2, width=16, depth=2)
    model = Frame(config, Generator().manual_seed(0))
    scores = model(torch.ones(1, 12_000, dtype=torch.int64))[0]
    apart = scores.diff(dim=0).abs().amax(dim=1)
    assert apart[-100:].max() < 2e-5 < 1e-3 < apart[0]


def run_ssm(delta: Tensor, entering: Tensor, negative: bool) -> Tensor:
    """Return the first state of a SelectiveSSM whose δ and B x are the two features of its input."""
    ssm, x = clear(SelectiveSSM(2, negative)), torch.stack([delta, entering], dim=1)
    ssm.project.weight[0, 0] = ssm.project.weight[2, 1] = ssm.out.weight[0, 0] = 1
    ssm.project.bias[6] = 64  # the gate: SiLU of 64 is 64
    return ssm(x[None])[0, :, 0] / 64


def test_with_the_eigenvalue_minus_1_parity_is_held_exactly() -> None:
    """A one maps h to 1 − h, and a zero keeps it."""
    tokens = torch.randint(2, (20_000,), generator=Generator().manual_seed(0))
    states = run_ssm(200.0 - 400.0 * tokens, tokens.float(), negative=True)
    assert torch.equal(states, (tokens.cumsum(0) % 2).float())


def add_in_mamba(x: Tensor) -> Tensor:
    ones = torch.ones_like(x)
    return selective_scan(ones, torch.full((1, 1), -1e-9), ones, ones, x)


def test_a_sum_stops_when_what_is_added_is_lost_in_rounding() -> None:
    """Of Mamba's states in float32: adding 1 stays without effect from 2^24 on."""
    x = torch.ones(1, 10, 1)
    x[0, 0] = 2.0**24 - 3
    y = add_in_mamba(x)[0, :, 0] - 2.0**24
    assert y.tolist() == [-3, -2, -1, 0, 0, 0, 0, 0, 0, 0]


# 3: diagonal transitions


def draw_rotor(seed: int, order: int = 2) -> csprop.CSP:
    """One layer of the preset rotor with all weights drawn anew, so some gates let go."""
    options = preset("rotor", type("Turning", (Task,), {"order": order})).model
    config = csprop.CSPConfig(vocab_size=2, num_classes=2, **vars(options))
    generator = Generator().manual_seed(seed)
    model = csprop.CSP(config, generator).double()
    for parameter in model.parameters():
        parameter.copy_(torch.randn(parameter.shape, generator=generator))
    return model


def run_word(model: csprop.CSP, word: str) -> tuple[Tensor, Tensor]:
    """Return the scores and the state after a word."""
    scores, state = model(torch.tensor([[int(letter) for letter in word]]), return_state=True)
    return scores[0, -1], state


def state_distance(model: csprop.CSP, word: str, other: str) -> Tensor:
    """Return by how much the states after two words differ in each channel."""
    return (run_word(model, word)[1] - run_word(model, other)[1]).abs().amax(dim=(0, 1, 2))


def scan_words(a: Tensor, b: Tensor, tokens: Tensor) -> Tensor:
    """The complex states h ↦ a h + b from 1 on, after every token of (B, T); a and b are by token."""
    a, b = (torch.view_as_real(part)[tokens].movedim(-1, 2) for part in (a, b))
    start = torch.tensor([1, 0], dtype=torch.float64)[:, None].expand(2, a.shape[3])
    states, _ = csprop.scan(a, b, start)
    return torch.view_as_complex(states.movedim(2, -1).contiguous())


@pytest.mark.parametrize("seed", SEEDS)
def test_a_state_that_is_only_multiplied_by_diagonals_knows_no_order(seed: int) -> None:
    a = torch.randn(2, 16, dtype=torch.complex128, generator=Generator().manual_seed(seed))
    a, some = a / a.abs(), words(7)
    states = (scan_words(a, torch.zeros_like(a), each)[:, -1] for each in (some, some.sort().values))
    torch.testing.assert_close(*states)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("pair", [("00101", "10001"), ("0101", "1001"), ("110010", "011010")])
def test_one_rotor_of_order_2_cannot_tell_words_apart(pair: tuple[str, str], seed: int) -> None:
    """They have the same tokens, and a common end in which every token occurs."""
    model = draw_rotor(seed)
    torch.testing.assert_close(*(run_word(model, word) for word in pair))


def test_the_gates_of_the_drawn_rotors_keep_and_replace() -> None:
    """The pairs above are tried with resets: 01 and 10 differ where a token lets go alone."""
    for seed in SEEDS:
        same = state_distance(draw_rotor(seed), "01", "10") < 1e-9
        assert same.any()
        assert not same.all()


def test_one_rotor_of_any_order_cannot_hold_three_zeros_in_a_row() -> None:
    """Quarter turns about the axes of a cube, whose rotations are all back after 12 of them."""
    model = draw_rotor(0, order=3)
    block, tokens = cast(RotorBlock, model.layers[0]), model.embedding.flatten(1)
    axes = torch.randint(3, (2, model.config.width), generator=Generator().manual_seed(0))
    turns = (math.pi / 2) * nn.functional.one_hot(axes, 3).double().transpose(1, 2).flatten(1)
    block.angle.weight.copy_((torch.linalg.pinv(tokens) @ turns).T)
    block.angle.bias.zero_()
    torch.testing.assert_close(*(run_word(model, 12 * each + "01") for each in ("0001", "01")))
    assert state_distance(model, "00101", "10001").max() > 0.1, "the rotations do not commute"


THIRD = complex(-0.5, math.sqrt(0.75))


def test_two_diagonal_layers_hold_the_permutations_of_three() -> None:
    """Below a sign; above a rotation by thirds, in the direction that the sign says."""
    tokens, zero = words(9), torch.zeros(4, 1, dtype=torch.complex128)
    sign = scan_words(torch.tensor([[-1 + 0j], [1 + 0j]], dtype=torch.complex128), zero[:2], tokens)
    turns = torch.tensor([[1], [THIRD], [1], [THIRD.conjugate()]], dtype=torch.complex128)
    angles = scan_words(turns, zero, tokens + 2 * (sign[..., 0].real < 0)).angle()
    thirds = (angles / (2 * math.pi / 3)).round().long() % 3
    pairs = (3 * (sign.real < 0) + thirds)[..., 0].tolist()
    swap, cycle, seen = (1, 0, 2), (1, 2, 0), {}
    for word, states in zip(tokens.tolist(), pairs, strict=True):
        place = (0, 1, 2)
        for token, state in zip(word, states, strict=True):
            place = tuple(place[x] for x in (cycle if token else swap))
            assert seen.setdefault(state, place) == place
    assert len(set(seen.values())) == 6


def test_rotations_about_one_centre_close_and_about_two_centres_never_do() -> None:
    """By the number of states that are reached from 1 in 6 and in 12 steps."""
    a = torch.tensor([[-1 + 0j], [THIRD]], dtype=torch.complex128)
    centre, counts = torch.tensor([[0], [0.3 + 0.2j]], dtype=torch.complex128), []
    for b in (0 * centre, centre - a * centre):
        states = (1e6 * torch.view_as_real(scan_words(a, b, words(12)))).round()
        counts.append([len(states[:, :steps].flatten(0, 2).unique(dim=0)) for steps in (6, 12)])
    assert counts[0] == [6, 6]
    assert counts[1][1] > 3 * counts[1][0] > 60


# 4: drift


def add_in_s4d(x: Tensor) -> Tensor:
    ssm = clear(DiagonalSSM(1, states=2))
    ssm.log_decay.fill_(-30.0)
    ssm.c[..., 0] = 0.5
    return ssm(x)


def add_in_s5(x: Tensor) -> Tensor:
    s5, step = clear(S5(8)), 2.0**-13
    s5.log_step.fill_(math.log(step))
    s5.b[0, 0, 0], s5.c[0, 0, 0] = 1 / step, 0.5
    return s5.ssm(x.repeat(1, 1, 8))[..., :1]


def add_in_delta_rule(x: Tensor) -> Tensor:
    """A single key; β is too small to forget anything, and values are as large as it is small."""
    ones, beta = torch.ones(1, 1, 1000, 1), 2.0**-40
    return delta_rule(ones, ones, beta * (x / beta)[None], -beta * ones, 0 * ones)


def add_in_pd_ssm(x: Tensor) -> Tensor:
    ssm = make_pd_ssm(torch.tensor([[0, 1]]), width=1)
    ssm.enter[2, 0] = ssm.read.weight[0, 2] = 1
    return ssm(x)


def add_in_resonator(x: Tensor) -> Tensor:
    block: Any = Resonator().make(Shape(1), Generator())
    entries = torch.zeros(1, 1000, 5, 1)
    entries[..., 2, :], entries[..., 3, :] = 20.0, 64.0  # κ, and what reads
    entries[..., 0, :] = x / math.sqrt(2 / (1 + math.exp(20))) / 64
    block.theta.zero_()
    return block(entries, block.start[None])[0]


ADDERS = [add_in_s4d, add_in_s5, add_in_mamba, add_in_delta_rule, add_in_pd_ssm, add_in_resonator]


@pytest.mark.parametrize("add", ADDERS)
def test_where_a_factor_rounds_to_1_a_layer_adds(add: Callable[[Tensor], Tensor]) -> None:
    """In float32, up, down or not at every step."""
    sums = add(STEPS[None, :, None]).flatten()
    torch.testing.assert_close(sums, STEPS.cumsum(0), rtol=0, atol=0.02)


def test_where_the_eigenvalue_of_ssm_is_1_nothing_enters() -> None:
    """And elsewhere its state is a mean: no larger than the largest that enters."""
    assert not run_ssm(torch.full((1000,), 200.0), torch.ones(1000), negative=False).any()
    delta = 20 * torch.randn(1000, generator=Generator().manual_seed(0))
    assert run_ssm(delta, torch.ones(1000), negative=False).abs().max() <= 1


def test_with_the_eigenvalue_minus_1_alternating_inputs_add() -> None:
    """A token that counts enters with the sign of its step, which a layer below can know."""
    signs = 1.0 - 2 * (torch.arange(1000) % 2)
    states = run_ssm(torch.full((1000,), -200.0), signs * STEPS, negative=True)
    assert torch.equal(signs * states, STEPS.cumsum(0))


def test_retention_forgets_what_is_far_back() -> None:
    x, retention = torch.randn(1, 16_384, 16, generator=Generator().manual_seed(0)), Retention(16)
    changed = x.clone()
    changed[0, 0] += 1
    one, other = retention(x)[0], retention(changed)[0]
    assert not torch.equal(one[100], other[100])
    assert torch.equal(one[-1], other[-1])


def test_two_reflections_about_different_centres_add() -> None:
    """The delta rule with β = 2 and one key: h ↦ −h, and h ↦ 2v − h. Both lead from h to h + 2v."""
    ones, v = torch.ones(1, 1, 2000, 1), torch.tensor([0.0, 0.75]).repeat(1000).view(1, 1, -1, 1)
    states = delta_rule(ones, ones, 2 * v, -2 * ones, 0 * ones)[0, 0, 1::2, 0]
    torch.testing.assert_close(states, 1.5 * torch.arange(1.0, 1001))


@pytest.mark.parametrize(("modulus", "low", "high"), [(0.999, 0, 1e-8), (1.001, 1e8, math.inf)])
def test_a_modulus_that_is_not_1_fades_or_grows(modulus: float, low: float, high: float) -> None:
    a = torch.full((1, 20_000, 2, 1), modulus * math.sqrt(0.5))
    _, last = csprop.scan(a, torch.zeros_like(a), torch.tensor([[1.0], [0.0]]))
    assert low < last.norm() < high


def test_rounding_drifts_with_length() -> None:
    """Fifths of a turn in float32."""
    turn = torch.polar(torch.tensor(1.0), torch.tensor(2 * math.pi / 5))
    a = torch.view_as_real(turn).expand(1, 30_000, 2)[..., None]
    states, _ = csprop.scan(a, torch.zeros_like(a), torch.tensor([[1.0], [0.0]]))
    errors = (states[0, [299, 2999, 29_999], :, 0] - torch.tensor([1.0, 0.0])).norm(dim=1).tolist()
    assert 25 * errors[0] < 5 * errors[1] < errors[2]


# 5: Householder products


def write_all(steps: list[tuple[float, Tensor, Tensor]]) -> Float[Tensor, "V K"]:
    """Return S of the delta rule after steps with β, a key and a value each."""
    rates, *vectors = zip(*steps, strict=True)
    keys, values = (torch.stack(each) for each in vectors)
    beta = torch.tensor(rates, dtype=torch.float64)[:, None]
    size = keys.shape[1]
    read = torch.eye(size, dtype=torch.float64)[:, None, None].expand(size, 1, len(steps), size)
    parts = (keys, beta * values, -beta * keys, 0 * beta)
    return delta_rule(read, *(part.expand(size, 1, *part.shape) for part in parts))[:, 0, -1].T


AXES = torch.eye(5, dtype=torch.float64)
IDENTITY = [(1.0, axis, axis) for axis in AXES]
"""Five writes that make S the identity."""


def swap(i: int, j: int) -> tuple[float, Tensor, Tensor]:
    """I − 2 k kᵀ for k = (e_i − e_j)/√2."""
    return 2.0, (AXES[i] - AXES[j]) * math.sqrt(0.5), torch.zeros_like(AXES[0])


@pytest.mark.parametrize("seed", SEEDS)
def test_a_cycle_of_three_takes_two_householder_steps(seed: int) -> None:
    """One step changes I by a matrix of rank 1, whatever β and k are, and the cycle by rank 2."""
    generator = Generator().manual_seed(seed)
    k = nn.functional.normalize(torch.randn(5, generator=generator, dtype=torch.float64), dim=0)
    beta = 2 * float(torch.rand(1, generator=generator))
    step = write_all([*IDENTITY, (beta, k, 0 * k)])
    assert torch.linalg.matrix_rank(step - AXES, rtol=1e-9) == 1
    cycle = write_all([*IDENTITY, swap(0, 1), swap(1, 2)])
    torch.testing.assert_close(cycle, AXES[[2, 0, 1, 3, 4]])
    assert torch.linalg.matrix_rank(cycle - AXES) == 2


def test_every_permutation_of_five_is_a_product_of_up_to_four_reflections_and_of_no_fewer() -> None:
    """A product of n steps differs from I by a matrix of rank n at most."""
    counts = set()
    for images in itertools.permutations(range(5)):
        left, steps = list(images), []
        for i in range(5):
            if left[i] != i:
                j = left.index(i)
                left[i], left[j] = left[j], left[i]
                steps.append(swap(i, j))
        expected = AXES[list(images)]
        torch.testing.assert_close(write_all(IDENTITY + steps), expected)
        assert len(steps) == torch.linalg.matrix_rank(expected - AXES)
        counts.add(len(steps))
    assert counts == {0, 1, 2, 3, 4}


def test_a_delta_rule_write_is_a_reset() -> None:
    """With β = 1 the value at a key is replaced, whatever was there, and others are kept."""
    values = torch.randn(6, 5, generator=Generator().manual_seed(0), dtype=torch.float64)
    before = [(1.0, axis, value) for axis, value in zip(AXES, values[:5], strict=True)]
    after = write_all([*before, (1.0, AXES[2], values[5])])
    torch.testing.assert_close(after.T, values[[0, 1, 5, 3, 4]])


def test_keys_of_both_signs_are_shorter_than_1() -> None:
    """A SiLU is nowhere below −0.279, so what is added to |k|² shows; long keys hide it."""
    least = nn.functional.silu(torch.linspace(-3, 0, 1000)).min()
    short = gated_deltanet.unit(torch.stack([-least, least])).square().sum()
    assert 1 - 1e-5 < short < 1 - 5e-6
    assert gated_deltanet.unit(torch.tensor([100.0, 0.0])).tolist() == [1, 0]


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [
        ("fast-weights", -1e-5, 0.1),
        ("gated-deltanet", -1e-5, 0.1),
        ("gated-deltanet-negative", -1.0, -0.99),
        ("deltaproduct", -1.0, -0.99),
        ("rwkv-7", math.exp(-math.exp(-0.5)) - 1, -0.4),
    ],
)
def test_the_least_eigenvalue_of_a_transition(
    name: str, low: float, high: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of diag(w) (I + a bᵀ), as layers of large random weights give it to the delta rule."""
    calls: list[tuple[Tensor, ...]] = []

    def record(*inputs: Tensor) -> Tensor:
        calls.append(inputs)
        return delta_rule(*inputs)

    for module in (fast_weights, gated_deltanet, rwkv7):
        monkeypatch.setattr(module, "delta_rule", record)
    made = layer(name)(16).double()
    for parameter in made.parameters():
        parameter.add_(5 * torch.randn_like(parameter))
    made(5 * torch.randn(4, 200, 16, dtype=torch.float64))
    (_, key, _, a, log_w, *own), *_ = calls
    b = own[0] if own else key
    transition = log_w.exp()[..., None] * (torch.eye(a.shape[3]).to(a) + a[..., None] * b[..., None, :])
    eigenvalues = torch.linalg.eigvals(transition)
    assert eigenvalues.imag.abs().max() < 1e-6
    assert low <= eigenvalues.real.min() < high
