"""The claims of docs/theory.md, as far as a small calculation can show them.

Most are pairs of words that a layer cannot tell apart, whatever its weights are: these are drawn at
random. The page names every test.
"""

import itertools
import math
import random
import re
from dataclasses import asdict
from pathlib import Path

import pytest
import torch
from jaxtyping import Float
from torch import Generator, Tensor, nn

import csprop
from csprop.training.presets import Plain, preset
from tests.helpers import machines

PAGE = Path(__file__).parents[2] / "docs" / "theory.md"
SEEDS = range(8)


def words(symbols: int, longest: int) -> list[tuple[int, ...]]:
    """All words of one token or more."""
    lengths = range(1, longest + 1)
    return [word for length in lengths for word in itertools.product(range(symbols), repeat=length)]


# 2: positive eigenvalues


def settled(a: Tensor, b: Tensor, h: Tensor, most: int) -> int | None:
    """After how many steps h ↦ a h + b changes nothing any more, bit for bit."""
    for steps in range(most):
        before, h = h, a * h + b
        if torch.equal(before, h):
            return steps
    return None


@pytest.mark.parametrize("seed", SEEDS)
def test_with_eigenvalues_from_0_to_1_long_words_of_ones_become_equal(seed: int) -> None:
    """In float32, through two layers: what the second one reads is constant in the end."""
    generator = Generator().manual_seed(seed)
    a = torch.rand(2, 64, generator=generator).clamp(max=0.999)
    b = torch.randn(2, 64, generator=generator)
    first = settled(a[0], b[0], torch.zeros(64), most=100_000)
    assert first is not None
    below = above = torch.zeros(64)
    for _ in range(first):
        below = a[0] * below + b[0]
        above = a[1] * above + b[1] * torch.tanh(below)
    assert settled(a[1], b[1] * torch.tanh(below), above, most=100_000) is not None


def test_a_sum_stops_when_what_is_added_is_lost_in_rounding() -> None:
    """The eigenvalue is 1, and adding 1 stays without effect from 2^11 on in float16."""
    one = torch.ones(1, dtype=torch.float16)
    assert settled(one, one, torch.zeros_like(one), most=5000) == 2048


def test_with_the_eigenvalue_minus_1_words_of_ones_never_become_equal() -> None:
    """Two steps lead back exactly, so that the two states alternate for ever."""
    a, start = torch.tensor(-1.0), torch.tensor(1.0)
    assert not torch.equal(a * start, start)
    assert torch.equal(a * (a * start), start)


# 3: diagonal transitions


def drawn_rotor(seed: int, order: int = 2) -> csprop.CSP:
    """One layer of the preset rotor, all of whose weights are drawn, so that some gates let go."""
    options = preset("rotor", Plain(order=order)).model
    config = csprop.CSPConfig(vocab_size=2, num_classes=2, **asdict(options))
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


@pytest.mark.parametrize("seed", SEEDS)
def test_a_state_that_is_only_multiplied_by_diagonals_knows_no_order(seed: int) -> None:
    generator = Generator().manual_seed(seed)
    a = torch.randn(2, 16, dtype=torch.complex128, generator=generator)
    a = a / a.abs()
    for word in words(2, 6):
        states = [
            math.prod((a[token] for token in each), start=torch.ones(16))
            for each in (word, sorted(word))
        ]
        torch.testing.assert_close(states[0], states[1])


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
    layer, tokens = model.layers[0], model.embedding.detach().flatten(1)
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


def test_two_diagonal_layers_hold_the_permutations_of_three() -> None:
    """Below a sign; above a rotation by thirds, in the direction that the sign says."""
    swap, cycle = (1, 0, 2), (1, 2, 0)
    third = complex(-0.5, math.sqrt(0.75))
    seen: dict[tuple[int, int], tuple[int, ...]] = {}
    for word in words(2, 9):
        place, sign, turned = (0, 1, 2), 1, 1 + 0j
        for token in word:
            if token:  # x ↦ place[cycle[x]]
                place = tuple(place[cycle[x]] for x in range(3))
                turned *= third if sign > 0 else third.conjugate()
            else:
                place = tuple(place[swap[x]] for x in range(3))
                sign = -sign
        thirds = round(math.atan2(turned.imag, turned.real) / (2 * math.pi / 3)) % 3
        assert seen.setdefault((sign, thirds), place) == place
    assert len(set(seen.values())) == 6


def orbit(maps: list[tuple[complex, complex]], depth: int) -> int:
    """How many states h ↦ a h + b reaches from 1 within some steps."""
    seen = newest = {(1.0, 0.0)}
    for _ in range(depth):
        images = [a * complex(*h) + b for h in newest for a, b in maps]
        newest = {(round(h.real, 6) + 0.0, round(h.imag, 6) + 0.0) for h in images} - seen
        seen = seen | newest
    return len(seen)


def test_rotations_about_one_centre_close_and_about_two_centres_never_do() -> None:
    half, third, centre = -1 + 0j, complex(-0.5, math.sqrt(0.75)), 0.3 + 0.2j
    one = [(half, 0j), (third, 0j)]
    two = [(half, 0j), (third, centre - third * centre)]
    assert orbit(one, 10) == orbit(one, 20) == 6
    assert orbit(two, 20) > orbit(two, 10) > 50


# 4: drift


def test_two_reflections_about_different_centres_add() -> None:
    """The delta rule with β = 2 and one key: h ↦ −h, and h ↦ 2v − h. Both lead from h to h + 2v."""
    v, h = 0.75, 0.25
    for _ in range(1000):
        h = 2 * v - (-h)
    assert h == 0.25 + 1000 * 2 * v


@pytest.mark.parametrize(("modulus", "low", "high"), [(0.999, 0, 1e-8), (1.001, 1e8, math.inf)])
def test_a_modulus_that_is_not_1_fades_or_grows(modulus: float, low: float, high: float) -> None:
    a = torch.full((1, 20_000, 2, 1), modulus * math.sqrt(0.5))
    _, last = csprop.scan(a, torch.zeros_like(a), torch.tensor([[1.0], [0.0]]))
    assert low < last.norm() < high


def test_rounding_drifts_with_length_and_a_state_that_snaps_to_codes_does_not() -> None:
    turn = torch.polar(torch.tensor(1.0), torch.tensor(2 * math.pi / 3))  # complex64
    codes = torch.stack([turn**0, turn, turn * turn])
    free = locked = codes[0]
    errors = []
    for step in range(1, 30_001):
        free, locked = free * turn, locked * turn
        locked = codes[(codes - locked).abs().argmin()]
        if step in (300, 3000, 30_000):
            errors.append(float((free - codes[0]).abs()))
            assert torch.equal(locked, codes[0])
    assert 25 * errors[0] < 5 * errors[1] < errors[2]


# 5: Householder products


def reflection(size: int, i: int, j: int) -> Float[Tensor, "N N"]:
    """I − 2 k kᵀ for k = (e_i − e_j)/√2."""
    k = torch.zeros(size, dtype=torch.float64)
    k[i], k[j] = math.sqrt(0.5), -math.sqrt(0.5)
    return torch.eye(size, dtype=torch.float64) - 2 * torch.outer(k, k)


def permutation(images: tuple[int, ...]) -> Float[Tensor, "N N"]:
    """The matrix that leads e_i to e_images[i]."""
    return torch.eye(len(images), dtype=torch.float64)[list(images)].T


def test_one_householder_step_swaps_two_elements() -> None:
    torch.testing.assert_close(reflection(5, 1, 3), permutation((0, 3, 2, 1, 4)))


def test_a_cycle_of_three_takes_two_householder_steps() -> None:
    """I − β k kᵀ differs from I by a matrix of rank 1, whatever β and k are, the cycle by rank 2."""
    cycle = permutation((1, 2, 0, 3, 4))
    unchanged = torch.eye(5, dtype=torch.float64)
    assert torch.linalg.matrix_rank(unchanged - cycle) == 2
    torch.testing.assert_close(reflection(5, 0, 1) @ reflection(5, 1, 2), cycle)


def test_every_permutation_of_five_is_a_product_of_up_to_four_reflections_and_of_no_fewer() -> None:
    """A product of n steps differs from I by a matrix of rank n at most."""
    unchanged, needed = torch.eye(5, dtype=torch.float64), set()
    for images in itertools.permutations(range(5)):
        product, left, steps = unchanged, list(images), 0
        for i in range(5):
            if left[i] != i:
                j = left.index(i)
                left[i], left[j] = left[j], left[i]
                product, steps = reflection(5, i, j) @ product, steps + 1
        torch.testing.assert_close(product, permutation(images))
        assert steps == torch.linalg.matrix_rank(unchanged - permutation(images))
        needed.add(steps)
    assert needed == {0, 1, 2, 3, 4}


def test_a_delta_rule_write_is_a_reset() -> None:
    """With β = 1 the value at a key is replaced, whatever was there, and others are kept."""
    generator = Generator().manual_seed(0)
    state = torch.randn(4, 3, generator=generator, dtype=torch.float64)
    key, other, value = torch.eye(3, dtype=torch.float64)[0], torch.eye(3, dtype=torch.float64)[1], 7.0
    after = state - torch.outer(state @ key, key) + value * key
    torch.testing.assert_close(after @ key, torch.full((4,), value, dtype=torch.float64))
    torch.testing.assert_close(after @ other, state @ other)


# 6: any machine


def drawn_machine(seed: int, states: int = 6) -> csprop.Automaton:
    dice = random.Random(f"theory {seed}")
    rows = tuple(tuple(dice.randrange(states) for _ in range(2)) for _ in range(states))
    outputs = tuple(dice.randrange(3) for _ in range(states))
    return machines.automaton("ab", "xyz", False, 0, rows, outputs)


def answers(machine: csprop.Automaton, word: tuple[int, ...]) -> list[int | None]:
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
    rows = list(itertools.product(range(2), repeat=8))
    with torch.no_grad():
        said = model(torch.tensor(rows)).argmax(dim=2).tolist()
    assert said == [answers(machine, row) for row in rows]


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
    rows = list(itertools.product(range(2), repeat=8))
    start = -torch.ones(1, len(rows), net.hidden_size)
    start[:, :, -1] = 1
    with torch.no_grad():
        states, _ = net(nn.functional.one_hot(torch.tensor(rows), 2).float(), start)
    said = []
    for row in states[:, :, :-1].argmax(dim=2).tolist():
        after = [machine.transitions[unit // 2][unit % 2] for unit in row]
        said.append([machine.outputs[state] for state in after])
    assert said == [answers(machine, row) for row in rows]
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


def test_after_n_open_brackets_counters_know_little_of_their_order() -> None:
    """Each of the 2^n words asks for other closing brackets; the counts take n + 1 values."""
    increments = torch.randint(-5, 6, (2, 7), generator=Generator().manual_seed(0))  # seven counters
    opened = torch.tensor(list(itertools.product(range(2), repeat=10)))
    counts = increments[opened].sum(dim=1)
    assert len(opened) == 2**10
    assert len(counts.unique(dim=0)) == 11


@pytest.mark.parametrize("seed", SEEDS)
def test_a_counter_forgets_what_was_written_last(seed: int) -> None:
    """After (ab ba)^k c and (ab ba)^k ab c, its scores become equal; c only reads."""
    options = preset("counter", Plain()).model
    config = csprop.CSPConfig(vocab_size=3, num_classes=2, **asdict(options))
    model = csprop.CSP(config, Generator().manual_seed(seed))

    def apart(k: int) -> float:
        words = [[0, 1, 1, 0] * k + [2], [0, 1, 1, 0] * k + [0, 1, 2]]
        with torch.no_grad():
            scores, others = (model(torch.tensor([word]))[0, -1] for word in words)
        return float((scores - others).abs().max())

    assert apart(5000) < 1e-4 < apart(1)


# 8: attention


def test_one_token_far_back_changes_soft_attention_by_one_over_n() -> None:
    """The last output of a causal head of drawn weights: n times its change is bounded, from above
    and from below."""
    generator = Generator().manual_seed(0)
    query, key, value = torch.randn(3, 8, 8, generator=generator, dtype=torch.float64) / math.sqrt(8)
    embedding = torch.randn(2, 8, generator=generator, dtype=torch.float64)

    def last(tokens: Tensor) -> Tensor:
        x = embedding[tokens]
        weights = torch.softmax((x @ key) @ (x[-1] @ query) / math.sqrt(8), dim=0)
        return weights @ (x @ value)

    scaled = []
    for n in (64, 256, 1024, 4096, 16_384):
        tokens = torch.randint(2, (n,), generator=generator)
        changed = tokens.clone()
        changed[0] = 1 - changed[0]
        scaled.append(n * float((last(tokens) - last(changed)).norm()))
    assert max(scaled) < 1.5 * min(scaled)


# the page


def test_every_test_is_named_on_the_page_and_every_name_is_a_test() -> None:
    named = set(re.findall(r"test_\w+", PAGE.read_text())) - {"test_theory"}
    here = {name for name in globals() if name.startswith("test_")}
    assert named == here - {"test_every_test_is_named_on_the_page_and_every_name_is_a_test"}
