"""What `csprop demo` trains: all models of a task learn from the same sequences."""

import pytest

from csprop.cli.demo import TASKS
from csprop.runs.demo import HOLD, MOST_EPOCHS, lstm
from csprop.tasks import get
from csprop.training.batches import training_data
from csprop.training.config import configure


@pytest.mark.parametrize("task", TASKS)
def test_the_printed_model_learns_from_the_sequences_of_the_others(task: str) -> None:
    known = get(task)
    own, printed = (
        training_data(known, configure(known, preset, 0, split="disjoint"))
        for preset in (None, "paper")
    )
    assert configure(known).recipe.split == "disjoint"
    for one, other in zip(own, printed, strict=True):
        assert (one.flat_tokens == other.flat_tokens).all()


def test_the_lstm_stops_once_it_has_learned() -> None:
    scores = lstm("parity", 0)
    assert HOLD <= scores.epochs < MOST_EPOCHS
    assert scores.held_out == scores.accuracy[16] == 1
