"""The claims of docs/theory.md, as far as a small calculation can show them.

They run the package's own layers. Weights are set where a claim says that a layer can do something;
where it says that none can, they are drawn at random. The page names every test.
"""

import itertools
import math
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest
import torch
from jaxtyping import Float
from torch import Generator, Tensor, nn

import csprop
from csprop.cells import Resonator, Shape
from csprop.cells.rotor import RotorBlock
from csprop.tasks import Task
from csprop.training.presets import preset
from csprop_lab.layers import PEERS, fast_weights, gated_deltanet, layer, rwkv7
from csprop_lab.layers.attention import Attention
from csprop_lab.layers.basic import SelectiveSSM
from csprop_lab.layers.delta_rule import delta_rule
from csprop_lab.layers.diagonal import DiagonalSSM
from csprop_lab.layers.frame import Frame, FrameConfig
from csprop_lab.layers.linear_attention import LinearAttention
from csprop_lab.layers.mlstm import remembered
from csprop_lab.layers.pd_ssm import PDSSM
from csprop_lab.layers.retnet import Retention
from csprop_lab.layers.s5 import S5
from csprop_lab.layers.selective import selective_scan
from tests.helpers import machines

PAGE = Path(__file__).parents[2] / "docs" / "theory.md"
SEEDS = range(8)


def cleared(made: nn.Module) -> None:
    """All weights of a layer to 0."""
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.zero_()


# 2: positive eigenvalues


@pytest.mark.parametrize("name", ["ssm", "mamba", "mamba-2", "mlstm", "fast-weights", "gated-deltanet"])
def test_with_eigenvalues_from_0_to_1_long_words_of_ones_become_equal(name: str) -> None:
    """Through two blocks: 1^n and 1^(n+1) have the same scores in the end."""
    config = FrameConfig(layer=name, vocab_size=2, num_classes=2, width=16, depth=2)
    model = Frame(config, Generator().manual_seed(0))
    with torch.no_grad():
        scores = model(torch.ones(1, 12_000, dtype=torch.int64))[0]
    apart = scores.diff(dim=0).abs().amax(dim=1)
    assert apart[-100:].max() < 2e-5 < 1e-3 < apart[0]


def gated(delta: Tensor, entering: Tensor, negative: bool) -> Tensor:
    """The first state of a SelectiveSSM whose δ and B x are the two features of its input."""
    made, x = SelectiveSSM(2, negative), torch.stack([delta, entering], dim=1)
    cleared(made)
    with torch.no_grad():
        made.project.weight[0, 0] = made.project.weight[2, 1] = made.out.weight[0, 0] = 1
        made.project.bias[6] = 64  # the gate: SiLU of 64 is 64
        return made(x[None])[0, :, 0] / 64


def test_with_the_eigenvalue_minus_1_parity_is_held_exactly() -> None:
    """A one maps h to 1 − h, and a zero keeps it."""
    tokens = torch.randint(2, (20_000,), generator=Generator().manual_seed(0))
    states = gated(200.0 - 400.0 * tokens, tokens.float(), negative=True)
    assert torch.equal(states, (tokens.cumsum(0) % 2).float())


def test_a_sum_stops_when_what_is_added_is_lost_in_rounding() -> None:
    """Of Mamba's states in float32: adding 1 stays without effect from 2^24 on."""
    x = torch.ones(1, 10, 1)
    x[0, 0] = 2.0**24 - 3
    ones = torch.ones_like(x)
    y = selective_scan(ones, torch.full((1, 1), -1e-9), ones, ones, x)[0, :, 0] - 2.0**24
    assert y.tolist() == [-3, -2, -1, 0, 0, 0, 0, 0, 0, 0]


# 3: diagonal transitions


def drawn_rotor(seed: int, order: int = 2) -> csprop.CSP:
    """One layer of the preset rotor, all of whose weights are drawn, so that some gates let go."""
    options = preset("rotor", type("Turning", (Task,), {"order": order})).model
    config = csprop.CSPConfig(vocab_size=2, num_classes=2, **vars(options))
    generator = Generator().manual_seed(seed)
    model = csprop.CSP(config, generator).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
    return model


def last_of(model: csprop.CSP, word: str) -> tuple[Tensor, Tensor]:
    """The scores and the state after a word."""
    tokens = torch.tensor([["01".index(letter) for letter in word]])
    with torch.no_grad():
        scores, state = model(tokens, return_state=True)
    return scores[0, -1], state


def moved(a: Tensor, b: Tensor, words: Tensor) -> Tensor:
    """The complex states h ↦ a h + b from 1 on, after every token of (B, T); a and b are by token."""
    kept, added = (torch.view_as_real(part)[words].movedim(-1, 2) for part in (a, b))
    begin = torch.tensor([1, 0], dtype=torch.float64)[:, None].expand(2, a.shape[1])
    states, _ = csprop.scan(kept, added, begin)
    return torch.view_as_complex(states.movedim(2, -1).contiguous())


def rows(steps: int) -> Tensor:
    """All words of two tokens and some length."""
    return torch.tensor(list(itertools.product(range(2), repeat=steps)))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_state_that_is_only_multiplied_by_diagonals_knows_no_order(seed: int) -> None:
    generator = Generator().manual_seed(seed)
    a = torch.randn(2, 16, dtype=torch.complex128, generator=generator)
    a = a / a.abs()
    states = (moved(a, torch.zeros_like(a), each)[:, -1] for each in (rows(7), rows(7).sort().values))
    torch.testing.assert_close(*states)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("pair", [("00101", "10001"), ("0101", "1001"), ("110010", "011010")])
def test_one_rotor_of_order_2_cannot_tell_words_apart(pair: tuple[str, str], seed: int) -> None:
    """They have the same tokens, and a common end in which every token occurs."""
    model = drawn_rotor(seed)
    (scores, state), (others, other) = (last_of(model, word) for word in pair)
    torch.testing.assert_close(state, other)
    torch.testing.assert_close(scores, others)


def test_the_gates_of_the_drawn_rotors_keep_and_replace() -> None:
    """So that the pairs above are tried with resets: 01 and 10 differ where a token lets go alone."""
    for seed in SEEDS:
        (_, state), (_, other) = (last_of(drawn_rotor(seed), word) for word in ("01", "10"))
        same = (state - other).abs().amax(dim=(0, 1, 2)) < 1e-9  # by channel
        assert same.any()
        assert not same.all()


def test_one_rotor_of_order_3_tells_these_words_apart() -> None:
    """Rotations of space do not commute."""
    (_, state), (_, other) = (last_of(drawn_rotor(0, order=3), word) for word in ("00101", "10001"))
    assert (state - other).abs().max() > 0.1


def test_one_rotor_of_any_order_cannot_hold_three_zeros_in_a_row() -> None:
    """Quarter turns about the axes of a cube, whose rotations are all back after 12 of them."""
    generator = Generator().manual_seed(0)
    model = drawn_rotor(0, order=3)
    layer, tokens = cast(RotorBlock, model.layers[0]), model.embedding.detach().flatten(1)
    axes = torch.randint(3, (2, model.config.width), generator=generator)
    turns = (math.pi / 2) * nn.functional.one_hot(axes, 3).double().transpose(1, 2).flatten(1)
    with torch.no_grad():
        layer.angle.weight.copy_((torch.linalg.pinv(tokens) @ turns).T)
        layer.angle.bias.zero_()
    (scores, state), (others, other) = (last_of(model, 12 * each + "01") for each in ("0001", "01"))
    torch.testing.assert_close(state, other)
    torch.testing.assert_close(scores, others)
    (_, state), (_, other) = (last_of(model, word) for word in ("00101", "10001"))
    assert (state - other).abs().max() > 0.1, "the rotations do not commute"


THIRD = complex(-0.5, math.sqrt(0.75))


def test_two_diagonal_layers_hold_the_permutations_of_three() -> None:
    """Below a sign; above a rotation by thirds, in the direction that the sign says."""
    words, none = rows(9), torch.zeros(4, 1, dtype=torch.complex128)
    sign = moved(torch.tensor([[-1 + 0j], [1 + 0j]], dtype=torch.complex128), none[:2], words)
    turns = torch.tensor([[1], [THIRD], [1], [THIRD.conjugate()]], dtype=torch.complex128)
    turned = moved(turns, none, words + 2 * (sign[..., 0].real < 0))
    thirds = (turned.angle() / (2 * math.pi / 3)).round().long() % 3
    known = (3 * (sign.real < 0) + thirds)[..., 0].tolist()
    swap, cycle, seen = (1, 0, 2), (1, 2, 0), {}
    for word, states in zip(words.tolist(), known, strict=True):
        place = (0, 1, 2)
        for token, state in zip(word, states, strict=True):
            place = tuple(place[x] for x in (cycle if token else swap))
            assert seen.setdefault(state, place) == place
    assert len(set(seen.values())) == 6


def test_rotations_about_one_centre_close_and_about_two_centres_never_do() -> None:
    """How many states are reached from 1 in 6 and in 12 steps."""
    a = torch.tensor([[-1 + 0j], [THIRD]], dtype=torch.complex128)
    centre, counted = torch.tensor([[0], [0.3 + 0.2j]], dtype=torch.complex128), []
    for b in (0 * centre, centre - a * centre):
        states = (1e6 * torch.view_as_real(moved(a, b, rows(12)))).round()
        counted.append([len(states[:, :steps].flatten(0, 2).unique(dim=0)) for steps in (6, 12)])
    assert counted[0] == [6, 6]
    assert counted[1][1] > 3 * counted[1][0] > 60


# 4: drift


STEPS = torch.randint(-1, 2, (1000,), generator=Generator().manual_seed(0)).float()
"""Of a counter: up, down or none."""


def s4d_sum() -> Tensor:
    made = DiagonalSSM(1, states=2)
    cleared(made)
    with torch.no_grad():
        made.log_decay.fill_(-30.0)
        made.c[..., 0] = 0.5
        return made(STEPS[None, :, None])


def s5_sum() -> Tensor:
    made, step = S5(8), 2.0**-13
    cleared(made)
    with torch.no_grad():
        made.log_step.fill_(math.log(step))
        made.b[0, 0, 0], made.c[0, 0, 0] = 1 / step, 0.5
        return made.ssm(STEPS[None, :, None].repeat(1, 1, 8))[..., :1]


def mamba_sum() -> Tensor:
    ones = torch.ones(1, 1000, 1)
    return selective_scan(ones, torch.full((1, 1), -1e-9), ones, ones, STEPS[None, :, None])


def delta_rule_sum() -> Tensor:
    """A single key; β is too small to forget anything, and values are as large as it is small."""
    ones, beta = torch.ones(1, 1, 1000, 1), 2.0**-40
    return delta_rule(ones, ones, beta * (STEPS / beta).view_as(ones), -beta * ones, 0 * ones)


def moving(states: Tensor, width: int) -> PDSSM:
    """A PD-SSM whose tokens are the first features, with D = 1 and where each sends each state."""
    made = PDSSM(width, states=states.shape[1], matrices=len(states))
    cleared(made)
    with torch.no_grad():
        made.select.weight[:, : len(states)] = 100 * torch.eye(len(states))
        made.columns.copy_(nn.functional.one_hot(states, states.shape[1]))
        for part, bias in ((made.magnitude, 200.0), (made.phase, -200.0)):
            part[-1].get_parameter("bias").fill_(bias)
    return made


def pd_ssm_sum() -> Tensor:
    made = moving(torch.tensor([[0, 1]]), width=1)
    with torch.no_grad():
        made.enter[2, 0] = made.read.weight[0, 2] = 1
        return made(STEPS[None, :, None])


def resonator_sum() -> Tensor:
    made, entries = Resonator().make(Shape(1), Generator()), torch.zeros(1, 1000, 5, 1)
    entries[..., 2, :], entries[..., 3, :] = 20.0, 64.0  # κ, and what reads
    gamma = math.sqrt(2 / (1 + math.exp(20)))
    entries[0, :, 0, 0] = STEPS / gamma / 64
    with torch.no_grad():
        made.theta.zero_()
        return made(entries, made.start[None])[0]


SUMS = [s4d_sum, s5_sum, mamba_sum, delta_rule_sum, pd_ssm_sum, resonator_sum]


@pytest.mark.parametrize("given", SUMS, ids=lambda given: given.__name__)
def test_where_a_factor_rounds_to_1_a_layer_adds(given: Callable[[], Tensor]) -> None:
    """In float32, up, down or not at every step."""
    torch.testing.assert_close(given().flatten(), STEPS.cumsum(0), rtol=0, atol=0.02)


def test_where_the_eigenvalue_of_ssm_is_1_nothing_enters() -> None:
    """And elsewhere its state is a mean: no larger than the largest that enters."""
    generator = Generator().manual_seed(0)
    assert not gated(torch.full((1000,), 200.0), torch.ones(1000), negative=False).any()
    delta = 20 * torch.randn(1000, generator=generator)
    assert gated(delta, torch.ones(1000), negative=False).abs().max() <= 1


def test_with_the_eigenvalue_minus_1_alternating_inputs_add() -> None:
    """A token that counts enters with the sign of its step, which a layer below can know."""
    signs = 1.0 - 2 * (torch.arange(1000) % 2)
    states = gated(torch.full((1000,), -200.0), signs * STEPS, negative=True)
    assert torch.equal(signs * states, STEPS.cumsum(0))


def test_retention_forgets_what_is_far_back() -> None:
    generator = Generator().manual_seed(0)
    x, made = torch.randn(1, 16_384, 16, generator=generator), Retention(16)
    changed = x.clone()
    changed[0, 0] += 1
    with torch.no_grad():
        one, other = made(x)[0], made(changed)[0]
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


def held(steps: list[tuple[float, Tensor, Tensor]]) -> Float[Tensor, "V K"]:
    """S of the delta rule after steps with β, a key and a value each."""
    rates, *vectors = zip(*steps, strict=True)
    keys, values = (torch.stack(each) for each in vectors)
    beta = torch.tensor(rates, dtype=torch.float64)[:, None]
    size = keys.shape[1]
    read = torch.eye(size, dtype=torch.float64)[:, None, None].expand(size, 1, len(steps), size)
    given = (keys, beta * values, -beta * keys, 0 * beta)
    return delta_rule(read, *(part.expand(size, 1, *part.shape) for part in given))[:, 0, -1].T


AXES = torch.eye(5, dtype=torch.float64)
WRITTEN = [(1.0, axis, axis) for axis in AXES]
"""Five writes that make S the identity."""


def swap(i: int, j: int) -> tuple[float, Tensor, Tensor]:
    """I − 2 k kᵀ for k = (e_i − e_j)/√2."""
    return 2.0, (AXES[i] - AXES[j]) * math.sqrt(0.5), torch.zeros_like(AXES[0])


def test_one_householder_step_swaps_two_elements() -> None:
    torch.testing.assert_close(held([*WRITTEN, swap(1, 3)]), AXES[[0, 3, 2, 1, 4]])


@pytest.mark.parametrize("seed", SEEDS)
def test_a_cycle_of_three_takes_two_householder_steps(seed: int) -> None:
    """One step changes I by a matrix of rank 1, whatever β and k are, and the cycle by rank 2."""
    generator = Generator().manual_seed(seed)
    k = nn.functional.normalize(torch.randn(5, generator=generator, dtype=torch.float64), dim=0)
    beta = 2 * float(torch.rand(1, generator=generator))
    assert torch.linalg.matrix_rank(held([*WRITTEN, (beta, k, 0 * k)]) - AXES, rtol=1e-9) == 1
    cycle = held([*WRITTEN, swap(0, 1), swap(1, 2)])
    torch.testing.assert_close(cycle, AXES[[2, 0, 1, 3, 4]])
    assert torch.linalg.matrix_rank(cycle - AXES) == 2


def test_every_permutation_of_five_is_a_product_of_up_to_four_reflections_and_of_no_fewer() -> None:
    """A product of n steps differs from I by a matrix of rank n at most."""
    needed = set()
    for images in itertools.permutations(range(5)):
        left, steps = list(images), []
        for i in range(5):
            if left[i] != i:
                j = left.index(i)
                left[i], left[j] = left[j], left[i]
                steps.append(swap(i, j))
        wanted = AXES[list(images)]
        torch.testing.assert_close(held(WRITTEN + steps), wanted)
        assert len(steps) == torch.linalg.matrix_rank(wanted - AXES)
        needed.add(len(steps))
    assert needed == {0, 1, 2, 3, 4}


def test_a_delta_rule_write_is_a_reset() -> None:
    """With β = 1 the value at a key is replaced, whatever was there, and others are kept."""
    values = torch.randn(6, 5, generator=Generator().manual_seed(0), dtype=torch.float64)
    before = [(1.0, axis, value) for axis, value in zip(AXES, values[:5], strict=True)]
    after = held([*before, (1.0, AXES[2], values[5])])
    torch.testing.assert_close(after.T, values[[0, 1, 5, 3, 4]])


def test_keys_of_both_signs_are_shorter_than_1() -> None:
    """A SiLU is nowhere below −0.279, so that what is added to |k|² shows; long keys hide it."""
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
    seen: list[tuple[Tensor, ...]] = []

    def seeing(*inputs: Tensor) -> Tensor:
        seen.append(inputs)
        return delta_rule(*inputs)

    for module in (fast_weights, gated_deltanet, rwkv7):
        monkeypatch.setattr(module, "delta_rule", seeing)
    torch.manual_seed(0)
    made = layer(name)(16).double()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(5 * torch.randn_like(parameter))
        made(5 * torch.randn(4, 200, 16, dtype=torch.float64))
    (_, key, _, a, log_w, *own), *_ = seen
    b = own[0] if own else key
    transition = log_w.exp()[..., None] * (torch.eye(a.shape[3]).to(a) + a[..., None] * b[..., None, :])
    eigenvalues = torch.linalg.eigvals(transition)
    assert eigenvalues.imag.abs().max() < 1e-6
    assert low <= eigenvalues.real.min() < high


# 6: any machine


def drawn_machine(seed: int, states: int = 6) -> csprop.Automaton:
    dice = random.Random(f"theory {seed}")
    rows = tuple(tuple(dice.randrange(states) for _ in range(2)) for _ in range(states))
    outputs = tuple(dice.randrange(3) for _ in range(states))
    return machines.automaton("ab", "xyz", False, 0, rows, outputs)


def answers(machine: csprop.Automaton, word: list[int]) -> list[int | None]:
    """What a table says after every token."""
    state, said = machine.start, []
    for token in word:
        state = machine.transitions[state][token]
        said.append(machine.outputs[state])
    return said


@pytest.mark.parametrize("seed", SEEDS)
def test_one_router_holds_any_machine(seed: int) -> None:
    """All words of up to eight tokens: those of eight, after every token."""
    machine = drawn_machine(seed)
    model = csprop.compile(machine).model
    assert model.config.depth == 1
    with torch.no_grad():
        said = model(rows(8)).argmax(dim=2).tolist()
    assert said == [answers(machine, row) for row in rows(8).tolist()]


@pytest.mark.parametrize("seed", SEEDS)
def test_one_pd_ssm_holds_any_machine(seed: int) -> None:
    """A matrix for each token, D = 1, and nothing that enters."""
    machine = drawn_machine(seed)
    made = moving(torch.tensor(machine.transitions).T, width=6)
    with torch.no_grad():
        made.read.weight[:, ::2] = torch.eye(6)
        given = made(nn.functional.one_hot(rows(8), 6).float())
    assert torch.equal(given.sum(2), torch.ones(2**8, 8)), "nothing fades"
    said = [[machine.outputs[state] for state in row] for row in given.argmax(2).tolist()]
    assert said == [answers(machine, row) for row in rows(8).tolist()]


def unit_for_each_pair(machine: csprop.Automaton, gain: float = 20.0) -> nn.RNN:
    """Minsky's network: a unit of a state and a token is 1 after that token in that state, else −1.

    A unit is 1 if both hold: one of the units that lead to its state was 1, and the token is its own.
    The last unit is 1 only at the start.
    """
    pairs = [(state, token) for state in range(len(machine)) for token in range(2)]
    units = len(pairs) + 1
    reads, recurs, bias = torch.zeros(units, 2), torch.zeros(units, units), torch.full((units,), -gain)
    for unit, (state, token) in enumerate(pairs):
        before = [i for i, (p, t) in enumerate(pairs) if machine.transitions[p][t] == state]
        before += [len(pairs)] if state == machine.start else []
        reads[unit, token], recurs[unit, before] = gain, gain / 2
        bias[unit] = gain * (len(before) / 2 - 1.5)
    net = nn.RNN(2, units, batch_first=True)
    weights = {"weight_ih_l0": reads, "weight_hh_l0": recurs, "bias_ih_l0": bias}
    net.load_state_dict(weights | {"bias_hh_l0": torch.zeros(units)})
    return net


@pytest.mark.parametrize("seed", SEEDS)
def test_one_elman_network_holds_any_machine(seed: int) -> None:
    machine = drawn_machine(seed)
    net = unit_for_each_pair(machine)
    start = -torch.ones(1, 2**8, net.hidden_size)
    start[:, :, -1] = 1
    with torch.no_grad():
        states, _ = net(nn.functional.one_hot(rows(8), 2).float(), start)
    said = []
    for row in states[:, :, :-1].argmax(dim=2).tolist():
        after = [machine.transitions[unit // 2][unit % 2] for unit in row]
        said.append([machine.outputs[state] for state in after])
    assert said == [answers(machine, row) for row in rows(8).tolist()]
    assert (states.abs() == 1).all(), "saturated, so that nothing can drift"


# 7: counting


def test_an_lstm_counts_in_its_cell() -> None:
    """All gates open: every a adds tanh(1), every b takes it away, and a^n b^n leads back to 0."""
    net = nn.LSTM(1, 1, batch_first=True).double()
    weights = {name: torch.zeros_like(weight) for name, weight in net.state_dict().items()}
    weights["bias_ih_l0"] = torch.tensor([50.0, 50.0, 0.0, 50.0])  # in, keep, what enters, out
    weights["weight_ih_l0"][2] = 1.0
    net.load_state_dict(weights)
    for n in (1, 10, 1000):
        ups = torch.ones(1, n, 1, dtype=torch.float64)
        with torch.no_grad():
            _, (_, high) = net(ups)
            _, (_, back) = net(torch.cat([ups, -ups], dim=1))
        assert high.item() == pytest.approx(n * math.tanh(1))
        assert abs(back.item()) < 1e-9


@pytest.mark.parametrize("seed", SEEDS)
def test_the_state_of_a_gru_is_never_above_1(seed: int) -> None:
    """It is a mean of the old state and a tanh."""
    generator = Generator().manual_seed(seed)
    net = nn.GRU(2, 8, batch_first=True)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.copy_(5 * torch.randn(parameter.shape, generator=generator))
        states, _ = net(torch.randn(4, 2000, 2, generator=generator))
    assert states.abs().max() <= 1


def test_an_mlstm_reads_a_difference_up_to_1() -> None:
    """Opposite keys: it divides by a quarter of the difference of counts, or by 1 if that is less."""
    keys, ones = STEPS.view(1, 1, -1, 1) / 4, torch.ones(1, 1, 1000, 1)
    read = remembered(ones, keys, ones, 0 * ones[..., 0], 0 * ones[..., 0])
    difference = STEPS.cumsum(0) / 4
    assert difference.abs().max() > 2
    torch.testing.assert_close(read.flatten(), difference.clamp(-1, 1), rtol=0, atol=1e-5)


def test_after_n_open_brackets_counters_know_little_of_their_order() -> None:
    """Each of the 2^n words asks for other closing brackets; what counters hold takes n + 1 values."""
    made = csprop.nn.CSPBlock(2, 8, "counter", generator=Generator().manual_seed(0)).double()
    opened = nn.functional.one_hot(rows(10), 2).double()
    with torch.no_grad():
        _, counts = made(opened)
    assert len(counts.flatten(1).mul(1e6).round().unique(dim=0)) == 11


@pytest.mark.parametrize("seed", SEEDS)
def test_a_counter_forgets_what_was_written_last(seed: int) -> None:
    """After (ab ba)^k c and (ab ba)^k ab c, its scores become equal; c only reads."""
    options = preset("counter", Task).model
    config = csprop.CSPConfig(vocab_size=3, num_classes=2, **vars(options))
    model = csprop.CSP(config, Generator().manual_seed(seed))

    def apart(k: int) -> float:
        words = [[0, 1, 1, 0] * k + [2], [0, 1, 1, 0] * k + [0, 1, 2]]
        with torch.no_grad():
            scores, others = (model(torch.tensor([word]))[0, -1] for word in words)
        return float((scores - others).abs().max())

    assert apart(5000) < 1e-4 < apart(1)


# 8: attention


@pytest.mark.parametrize("kind", [Attention, LinearAttention])
def test_one_token_far_back_changes_soft_attention_by_one_over_n(kind: type[nn.Module]) -> None:
    """The last output of a layer: n times its change is bounded, from above and from below."""
    torch.manual_seed(0)
    generator = Generator().manual_seed(0)
    made, embedding = kind(16).double(), torch.randn(2, 16, generator=generator, dtype=torch.float64)
    scaled = []
    for n in (64, 256, 1024, 4096):
        tokens = torch.randint(2, (n,), generator=generator)
        changed = tokens.clone()
        changed[0] = 1 - changed[0]
        with torch.no_grad():
            one, other = (made(embedding[each][None])[0, -1] for each in (tokens, changed))
        scaled.append(n * float((one - other).norm()))
    assert max(scaled) < 2 * min(scaled)


# the page


def test_every_test_is_named_on_the_page_and_every_name_is_a_test() -> None:
    named = set(re.findall(r"test_\w+", PAGE.read_text())) - {"test_theory"}
    here = {name for name in globals() if name.startswith("test_")}
    of_the_page = {name for name in here if name.endswith(("every_name_is_a_test", "in_the_table"))}
    assert named == here - of_the_page


def test_every_compared_layer_is_in_the_table() -> None:
    first = [line.split("|")[1] for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    named = [name for cell in first for name in re.findall(r"`([^`]+)`", cell)]
    assert all(named.count(name) == 1 for name in PEERS)
