"""Sections 6 to 8 of docs/theory.md: machines, counting, attention; and the names on the page."""

import math
import random
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Generator, Tensor, nn

import csprop
from csprop.tasks import Task
from csprop.training.presets import preset
from csprop_lab.layers import PEERS
from csprop_lab.layers.attention import Attention
from csprop_lab.layers.linear_attention import LinearAttention
from csprop_lab.layers.mlstm import read_memory
from tests.helpers import machines
from tests.lab.theory.weights import SEEDS, STEPS, make_pd_ssm, words

# 6: any machine


def draw_machine(seed: int, states: int = 6) -> csprop.Automaton:
    dice = random.Random(f"theory {seed}")
    rows = tuple(tuple(dice.randrange(states) for _ in range(2)) for _ in range(states))
    outputs = tuple(dice.randrange(3) for _ in range(states))
    return machines.automaton("ab", "xyz", False, 0, rows, outputs)


def run_router(machine: csprop.Automaton, tokens: Tensor) -> Tensor:
    model = csprop.compile(machine).model
    assert model.config.depth == 1
    return model(tokens).argmax(dim=2)


def run_pd_ssm(machine: csprop.Automaton, tokens: Tensor) -> Tensor:
    """A matrix for each token, D = 1, and nothing that enters."""
    layer = make_pd_ssm(torch.tensor(machine.transitions).T, width=6)
    layer.read.weight[:, ::2] = torch.eye(6)
    states = layer(nn.functional.one_hot(tokens, 6).float())
    assert torch.equal(states.sum(2), torch.ones(tokens.shape)), "nothing fades"
    return torch.tensor(machine.outputs)[states.argmax(2)]


def run_elman(machine: csprop.Automaton, tokens: Tensor, gain: float = 20.0) -> Tensor:
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
    start = -torch.ones(1, len(tokens), units)
    start[:, :, -1] = 1
    states, _ = net(nn.functional.one_hot(tokens, 2).float(), start)
    assert (states.abs() == 1).all(), "saturated, so nothing can drift"
    after = torch.tensor([machine.transitions[state][token] for state, token in pairs])
    return torch.tensor(machine.outputs)[after[states[:, :, :-1].argmax(dim=2)]]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("run", [run_router, run_pd_ssm, run_elman])
def test_one_layer_holds_any_machine(
    run: Callable[[csprop.Automaton, Tensor], Tensor], seed: int
) -> None:
    """After every token of all words of eight tokens."""
    machine, tokens = draw_machine(seed), words(8)
    expected = []
    for word in tokens.tolist():
        state, outputs = machine.start, []
        for token in word:
            state = machine.transitions[state][token]
            outputs.append(machine.outputs[state])
        expected.append(outputs)
    assert run(machine, tokens).tolist() == expected


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
        _, (_, high) = net(ups)
        _, (_, back) = net(torch.cat([ups, -ups], dim=1))
        assert high.item() == pytest.approx(n * math.tanh(1))
        assert abs(back.item()) < 1e-9


@pytest.mark.parametrize("seed", SEEDS)
def test_the_state_of_a_gru_is_never_above_1(seed: int) -> None:
    """It is a mean of the old state and a tanh."""
    generator = Generator().manual_seed(seed)
    net = nn.GRU(2, 8, batch_first=True)
    for parameter in net.parameters():
        parameter.copy_(5 * torch.randn(parameter.shape, generator=generator))
    states, _ = net(torch.randn(4, 2000, 2, generator=generator))
    assert states.abs().max() <= 1


def test_an_mlstm_reads_a_difference_up_to_1() -> None:
    """Opposite keys: it divides by a quarter of the difference of counts, or by 1 if that is less."""
    keys, ones = STEPS.view(1, 1, -1, 1) / 4, torch.ones(1, 1, 1000, 1)
    read = read_memory(ones, keys, ones, 0 * ones[..., 0], 0 * ones[..., 0])
    difference = STEPS.cumsum(0) / 4
    assert difference.abs().max() > 2
    torch.testing.assert_close(read.flatten(), difference.clamp(-1, 1), rtol=0, atol=1e-5)


def test_after_n_open_brackets_counters_know_little_of_their_order() -> None:
    """Each of the 2^n words asks for other closing brackets; what counters hold takes n + 1 values."""
    block = csprop.nn.CSPBlock(2, 8, "counter", generator=Generator().manual_seed(0)).double()
    _, counts = block(nn.functional.one_hot(words(10), 2).double())
    assert len(counts.flatten(1).mul(1e6).round().unique(dim=0)) == 11


@pytest.mark.parametrize("seed", SEEDS)
def test_a_counter_forgets_what_was_written_last(seed: int) -> None:
    """After (ab ba)^k c and (ab ba)^k ab c, its scores become equal; c only reads."""
    options = preset("counter", Task).model
    config = csprop.CSPConfig(vocab_size=3, num_classes=2, **vars(options))
    model = csprop.CSP(config, Generator().manual_seed(seed))

    def distance(k: int) -> float:
        pair = [[0, 1, 1, 0] * k + [2], [0, 1, 1, 0] * k + [0, 1, 2]]
        scores, others = (model(torch.tensor([word]))[0, -1] for word in pair)
        return float((scores - others).abs().max())

    assert distance(5000) < 1e-4 < distance(1)


# 8: attention


@pytest.mark.parametrize("kind", [Attention, LinearAttention])
def test_one_token_far_back_changes_soft_attention_by_one_over_n(kind: type[nn.Module]) -> None:
    """The last output of a layer: n times its change is bounded, from above and from below."""
    generator = Generator().manual_seed(0)
    layer, embedding = kind(16).double(), torch.randn(2, 16, generator=generator, dtype=torch.float64)
    scaled = []
    for n in (64, 256, 1024, 4096):
        tokens = torch.randint(2, (n,), generator=generator)
        changed = tokens.clone()
        changed[0] = 1 - changed[0]
        one, other = (layer(embedding[each][None])[0, -1] for each in (tokens, changed))
        scaled.append(n * float((one - other).norm()))
    assert max(scaled) < 2 * min(scaled)


PAGE = (Path(__file__).parents[3] / "docs" / "theory.md").read_text()


def test_the_page_names_every_test_of_this_folder() -> None:
    code = "".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))
    claims = set(re.findall(r"^def (test_\w+)", code, re.MULTILINE))
    claims -= {name for name in claims if name.startswith("test_the_page_")}
    assert set(re.findall(r"`(test_\w+)`", PAGE)) == claims


def test_the_page_has_every_compared_layer_in_its_table() -> None:
    first = [line.split("|")[1] for line in PAGE.splitlines() if line.startswith("| ")]
    names = [name for cell in first for name in re.findall(r"`([^`]+)`", cell)]
    assert all(names.count(name) == 1 for name in PEERS)
