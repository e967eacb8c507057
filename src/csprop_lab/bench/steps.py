"""Training steps of csprop and of other models, with the same batches, loss and clipping."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from csprop import CSP
from csprop.data.examples import UNLABELLED
from csprop.ops.backends import backend, use_backend
from csprop.tasks import get
from csprop.training.batches import Batch
from csprop.training.config import RunConfig, configure
from csprop.training.loop import Trainer, take_steps
from csprop.training.seeding import generator
from csprop_lab.layers.basic import Kind, Peer, PeerConfig

MOST_TOKENS = 1 << 20
"""Tokens of the rows from which batches are drawn."""
PEERS: dict[str, Kind] = {"nn.LSTM": "LSTM", "nn.GRU": "GRU", "Transformer": "Transformer"}
BACKENDS = {"torch backend": "torch", "reference loop": "reference"}
"""csprop by another backend than the fastest one."""
CALL = "csprop, the call alone"
OPERATORS = "csprop as a torch module"
EVERYONE = ("csprop", CALL, OPERATORS, *BACKENDS, *PEERS)


def configure_printed(batch: int, length: int, **changes: Any) -> RunConfig:
    """The preset `paper` for parity."""
    return configure("parity", "paper", length=length, batch_size=batch, **changes)


def network(name: str, config: RunConfig) -> nn.Module:
    """One of `EVERYONE`, with the width, the depth, the vocabulary and the classes of a model."""
    model, draws = config.model, generator(config.seed, "weights")
    if name not in PEERS:
        return CSP(model, draws)
    sizes = {key: getattr(model, key) for key in ("vocab_size", "num_classes", "width", "depth")}
    return Peer(PeerConfig(kind=PEERS[name], **sizes), draws)


def parameters(name: str, config: RunConfig) -> int:
    """Return the number of parameters of one of `EVERYONE`."""
    return sum(parameter.numel() for parameter in network(name, config).parameters())


def training_step(name: str, config: RunConfig) -> Callable[[], None]:
    """A step of one of `EVERYONE` as training takes it, from the choice of its rows on.

    `csprop` and its backends do what `csprop train` does. All others take the same batches, and have a
    loop of nothing but torch's operations. `CALL` takes one batch again and again.
    """
    model: Any = network(name, config)
    trainer = _trainer(model, config)
    batches = _batches(trainer)
    with_backend(BACKENDS.get(name, backend()), trainer.begin_epoch)()
    if name in PEERS or name == OPERATORS:
        return _by_torch(trainer, batches)
    if name in BACKENDS:
        return with_backend(BACKENDS[name], lambda: _by_csprop(trainer, next(batches)))
    if name == CALL:
        batch = next(batches)
        return lambda: _by_csprop(trainer, batch)
    return lambda: _by_csprop(trainer, next(batches))


def _trainer(model: Any, config: RunConfig) -> Trainer:
    task, recipe = get(config.task["name"]), config.recipe
    count = max(recipe.batch_size, min(task.samples, MOST_TOKENS // recipe.length))
    rows = task.examples(count, recipe.length, generator(config.seed, "data"))
    trainer = Trainer(model, rows, rows, recipe, config.seed)
    trainer.epoch = recipe.short_first  # the first epochs may have shorter rows
    return trainer


def _batches(trainer: Trainer) -> Iterator[Batch]:
    while True:
        yield from trainer.batches()


def _by_csprop(trainer: Trainer, batch: Batch) -> None:
    (outcome,) = take_steps([trainer], [batch])
    if isinstance(outcome, FloatingPointError):
        raise outcome


def _by_torch(trainer: Trainer, batches: Iterator[Batch]) -> Callable[[], None]:
    """The shortest loop that trains a torch module in the same way."""
    model, recipe = trainer.model, trainer.recipe
    weights = list(model.parameters())
    optimizer = torch.optim.Adam(weights, lr=recipe.lr, fused=True)

    def step() -> None:
        ((tokens, labels),) = next(batches)
        optimizer.zero_grad()
        scores = model(tokens)
        if recipe.supervise == "last":
            scores, labels = scores[:, -1:], labels[:, -1:]
        value = F.cross_entropy(scores.flatten(0, 1), labels.flatten(), ignore_index=UNLABELLED)
        value.backward()
        nn.utils.clip_grad_norm_(weights, recipe.clip_norm)
        optimizer.step()

    return step


def with_backend(name: str, work: Callable[[], object]) -> Callable[[], None]:
    """The same work by a backend."""

    def within() -> None:
        with use_backend(name):
            work()

    return within
