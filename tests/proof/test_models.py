"""Locking and proof take models that csprop did not make."""

from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor, nn

from csprop import certify, tasks
from csprop.errors import InputError
from csprop.proof.models import FromRNN, FromStep
from csprop.proof.tune import follow


def parity_cell(state: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
    """One number, whose sign a 1 turns round; it leans a little, as learned ones do."""
    flipped = torch.where(tokens[:, None] == 1, -state, state) * 1.01 + 0.02
    new = torch.tanh(3 * flipped)
    return new, torch.cat([new, -new], dim=1)


def test_a_function_of_one_step_is_certified() -> None:
    found = certify(FromStep(torch.ones(1), parity_cell), tasks.get("parity"))
    assert found.verdict == "proven for all lengths"
    assert found.automaton is not None
    assert len(found.automaton) == 2


KINDS: Sequence[type[nn.RNNBase]] = (nn.RNN, nn.GRU, nn.LSTM)


def adapted(kind: Callable[..., nn.RNNBase], layers: int = 2, batch_first: bool = True) -> FromRNN:
    torch.manual_seed(0)
    rnn = kind(3, 5, num_layers=layers, batch_first=batch_first)
    return FromRNN(nn.Embedding(4, 3), rnn, nn.Linear(5, 2)).requires_grad_(False)


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_a_step_of_an_rnn_is_torch_s_own(kind: Callable[..., nn.RNNBase], batch_first: bool) -> None:
    model = adapted(kind, batch_first=batch_first)
    tokens = torch.randint(4, (6, 7), generator=torch.Generator().manual_seed(1))
    everything = torch.ones(2, 5, dtype=torch.bool)
    torch.testing.assert_close(follow(model, everything, tokens), model(tokens))


@pytest.mark.parametrize("kind", [pytest.param(each, marks=pytest.mark.slow) for each in KINDS])
def test_a_trained_rnn_is_certified(kind: Callable[..., nn.RNNBase]) -> None:
    task = tasks.get("flip-flop")
    torch.manual_seed(3)
    model = FromRNN(nn.Embedding(3, 4), kind(4, 6, batch_first=True), nn.Linear(6, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    draws = torch.Generator().manual_seed(0)
    for _ in range(400):
        tokens = task.sample(64, 16, draws)
        loss = nn.functional.cross_entropy(model(tokens).flatten(0, 1), task.labels(tokens).flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    found = certify(model, task)
    assert found.proven, found.statement
    assert found.automaton is not None
    assert len(found.automaton) == 2
    assert any(parameter.requires_grad for parameter in model.parameters()), "the model was changed"


def test_an_rnn_without_a_single_step_is_refused() -> None:
    for options in ({"bidirectional": True}, {"proj_size": 2}):
        with pytest.raises(InputError, match="no single step"):
            FromRNN(nn.Embedding(2, 3), nn.LSTM(3, 4, **options), nn.Linear(4, 2))
