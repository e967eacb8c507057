"""Training steps of networks around one layer of features: those that the study's table compares."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from torch import Generator

from csprop.training.seeding import generator
from csprop_lab.signals.networks import NetworkKind
from csprop_lab.signals.sequences import (
    BATCHES,
    CHANNELS,
    FEATURES,
    DataName,
    Learner,
    Rows,
    sequences,
    size_of,
    text,
)

NAMES: dict[str, NetworkKind] = {
    "csprop": "csprop",
    "csprop, two blocks": "csprop, two blocks",
    "nn.LSTM": "LSTM",
    "nn.GRU": "GRU",
    "selective SSM": "SSM [0, 1]",
}
RATE = 0.003
LONG = 1024
"""Characters of the one row in a batch of long text."""


Draw = Callable[[Generator], Rows]
"""Draws a batch."""


@dataclass(frozen=True)
class Step:
    """A training step, from the choice of its rows on, and the size of its network."""

    step: Callable[[], object]
    parameters: int


def parts(digits: bool) -> dict[str, dict[str, Step]]:
    """Return the training steps of all networks, by data set."""
    asked: list[tuple[DataName, Draw]] = [
        (data, partial(sequences(data).batch, size))
        for data, size in BATCHES.items()
        if data == "sentences" or (digits and data.startswith("digits"))
    ]
    asked.append(("sentences", partial(text().batch, 1, steps=LONG)))
    found = {}
    for data, draw in asked:
        batch, length = draw(generator(0, "batches")).inputs.shape[:2]
        work = f"{data}, T = {length:,}, batch {batch}"
        found[work] = {name: training_step(data, name, draw) for name in NAMES}
    return found


def training_step(data: DataName, name: str, draw: Draw) -> Step:
    """A step of one of `NAMES` as the study takes it."""
    kind, draws = NAMES[name], generator(0, "batches")
    sizes = FEATURES[data][kind], CHANNELS.get(kind, 0)
    network = sequences(data).network(kind, *sizes, generator(0, "weights"))
    learner = Learner(network, RATE)
    return Step(lambda: learner.step(draw(draws)), size_of(network))
