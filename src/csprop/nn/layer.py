"""The recurrence as a layer of features, for networks of any kind."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Generator, Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from csprop.cells.block import start_again
from csprop.cells.options import Cell
from csprop.errors import InputError
from csprop.nn.feature_block import CSPBlock, LayerKind, check_sizes, look_up
from csprop.ops.checks import check_tensor


class CSPLayer(nn.Module):
    """A recurrent layer for networks of your own: features (B, T, F) in and out, and a state to carry.

    Use it as you use `nn.LSTM`: `y, state = layer(x)`, then `layer(x, state)` continues from there. A
    sequence in pieces gives the same result as the whole sequence. The layer is a stack of
    `csprop.nn.CSPBlock`, each with a norm before it and a residual around it; a norm ends the stack.

    Args:
        features: size of the feature vector at each step, for input and output.
        width: the complex channels of each block; as many as features by default.
        kind: `"resonator"`, for signals and text, has channels of fixed frequencies, and the input
            decides how long they remember. `"tracker"` learns state machines without a hint: it has
            heads of several kinds, and training prunes those that it does not need. By default,
            tokens have a tracker and features a resonator. The others are the
            layers of `csprop.CSP`, which hold exact states: `"rotor"` rotates its state by angles from
            the input; `"router"` moves contents between places by one of several learned maps;
            `"counter"`, `"switch"`; and `"paper"`, the printed block. You can also pass a cell, such as
            `csprop.Rotor(order=3)`.
        depth: the number of blocks.
        dropout: the probability that a number of what a block adds is dropped while training.
        bidirectional: adds to each block a second one that reads the sequence from its end.
        batch_first: x is (B, T, F); if False, (T, B, F).
        vocab_size: if given, x is token numbers (B, T), and the layer begins with an embedding of so
            many tokens. What the first block of resonators makes of a token is then computed once
            for each token of the vocabulary, not for each step.
        generator: draws the parameters; by default, torch's global generator.
        device: where the parameters are to be.
        dtype: their type of numbers.
        options: options of the cell of this kind, such as `order=3` of a rotor.

    Raises:
        InputError: a value is out of range, or options contradict each other.
    """

    def __init__(
        self,
        features: int,
        width: int | None = None,
        kind: LayerKind | Cell | None = None,
        depth: int = 1,
        dropout: float = 0.0,
        bidirectional: bool = False,
        batch_first: bool = True,
        *,
        vocab_size: int | None = None,
        generator: Generator | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        **options: Any,
    ) -> None:
        super().__init__()
        check_sizes(features=features, depth=depth, vocab_size=1 if vocab_size is None else vocab_size)
        generator = torch.default_generator if generator is None else generator
        if kind is None:
            kind = "resonator" if vocab_size is None else "tracker"
        self.features, self.depth, self.batch_first = features, depth, batch_first
        self.bidirectional, self.vocab_size = bidirectional, vocab_size
        if vocab_size is not None:
            self.embedding = nn.Parameter(torch.randn(vocab_size, features, generator=generator))
        self.blocks = nn.ModuleList(
            CSPBlock(
                features, width, kind, depth=depth, dropout=dropout, generator=generator, **options
            )
            for _ in range(depth * (1 + bidirectional))
        )
        self.norm = nn.LayerNorm(features)
        self._options = {
            "features": features, "width": width, "kind": kind, "depth": depth,
            "bidirectional": bidirectional, "vocab_size": vocab_size, **options,
        }  # fmt: skip
        self.to(device, dtype)

    def reset_parameters(self, generator: Generator | None = None) -> None:
        """Draw new parameters, from torch's generator or this one, for example after `to_empty`."""
        start_again(self, lambda: CSPLayer(**self._options, generator=generator))
        self.temperature = 1.0

    @property
    def layers(self) -> list[Any]:
        """The blocks, first layer first; of a bidirectional layer each followed by its second one."""
        return list(self.blocks)

    @property
    def temperature(self) -> float:
        """The softness of the maps of routers while training, 1 at first. In evaluation maps are hard.
        Lower it to 0.2 over the first two thirds of the training; soft and hard maps then agree. It
        is not saved with the weights: set it at every step, like a learning rate."""
        return self.layers[0].temperature

    @temperature.setter
    def temperature(self, value: float) -> None:
        for each in self.layers:
            each.temperature = value

    def initial_state(self, batch: int = 1) -> Float[Tensor, "B L M D"]:
        """Return the state before the first step, for each sequence of a batch."""
        return torch.stack([each.initial_state(batch) for each in self.layers], dim=1)

    def forward(
        self,
        x: Tensor | PackedSequence,
        state: Float[Tensor, "B L M D"] | None = None,
        reset: Bool[Tensor, "*steps"] | None = None,
    ) -> tuple[Any, Float[Tensor, "B L M D"]]:
        """Return the features after every step, and the state to carry on from.

        Args:
            x: features (B, T, F), or tokens (B, T) if the layer has an embedding; (T, B, …) without
                `batch_first`; one sequence without B; or a `PackedSequence`.
            state: the state returned by an earlier call; for a single unbatched sequence its batch size
                is 1.
            reset: where it is true, a sequence starts again before that step, so one row can hold
                several sequences; it has the shape of a batch of tokens.

        Raises:
            InputError: an argument is not a tensor of the right shape, type and device.
        """
        if isinstance(x, PackedSequence):
            padded, lengths = pad_packed_sequence(x, batch_first=True)
            self._check(padded, state, reset, ("batch", "time"))
            y, last = self._run(padded, state, reset, lengths)
            order = torch.arange(len(lengths)) if x.sorted_indices is None else x.sorted_indices
            data = pack_padded_sequence(y[order], lengths[order.cpu()], batch_first=True).data
            return PackedSequence(data, *x[1:]), last
        alone = isinstance(x, Tensor) and x.ndim == (1 if self.vocab_size else 2)
        sizes = ("batch", "time") if self.batch_first else ("time", "batch")
        self._check(x, state, reset, ("time",) if alone else sizes)
        if alone:
            x, reset = x[None], None if reset is None else reset[None]
        elif not self.batch_first:
            x, reset = x.transpose(0, 1), None if reset is None else reset.transpose(0, 1)
        y, last = self._run(x, state, reset)
        if alone:
            return y[0], last
        return y if self.batch_first else y.transpose(0, 1), last

    def step(
        self,
        x: Tensor,
        state: Float[Tensor, "B L M D"],
        settle: Callable[[int, Tensor], Tensor] = lambda layer, h: h,
    ) -> tuple[Tensor, Float[Tensor, "B L M D"]]:
        """Take one step: features (B, F) or tokens (B,) in, features (B, F) and state out.

        It uses torch operations only. `settle(number, h)` replaces the new state of a block.

        Raises:
            InputError: the layer is bidirectional, so a step depends on later ones; or an argument is
                not a tensor of the right shape, type and device.
        """
        if self.bidirectional:
            raise InputError("a bidirectional layer has no single step: it reads from both ends")
        self._check(x, state, None, ("batch",))
        x, states = look_up(x, self.embedding) if self.vocab_size else x, []
        for number, block in enumerate(self.layers):
            x, last = block.step(x, state[:, number], partial(settle, number))
            states.append(last)
        return self.norm(x), torch.stack(states, dim=1)

    def _run(
        self, x: Tensor, state: Tensor | None, reset: Tensor | None, lengths: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        tokens = None
        if self.vocab_size:
            tokens, x = x, look_up(x, self.embedding)
        states, ways = [], 1 + self.bidirectional
        vocabulary = (
            self.vocab_size or 0
        )  # the entries of all tokens, or of all steps: whichever are fewer
        for number in range(0, len(self.layers), ways):
            below = x
            for place, block in enumerate(self.layers[number : number + ways], start=number):
                first = None if state is None else state[:, place]
                if place or tokens is None or lengths is not None or tokens.numel() < vocabulary:
                    backward = place > number
                    x, last = _run_block(block, below, x, first, reset, lengths, backward)
                else:
                    x, last = block(self.embedding, first, reset, index=tokens, onto=x)
                states.append(last)
        return self.norm(x), torch.stack(states, dim=1)

    def _check(
        self, x: Tensor, state: Tensor | None, reset: Tensor | None, sizes: tuple[str, ...]
    ) -> None:
        """Refuse wrong arguments; `sizes` are the names of x's dimensions before F."""
        device = self.norm.weight.device
        if self.vocab_size:
            check_tensor("x", x, "int64", sizes, device)
        else:
            check_tensor("x", x, "floating-point", (*sizes, self.features), device)
        if state is not None:
            batch = x.shape[sizes.index("batch")] if "batch" in sizes else 1
            shape = (batch, len(self.blocks), *self.layers[0].initial_state().shape[1:])
            check_tensor("state", state, "floating-point", shape, device)
        if reset is not None:
            check_tensor("reset", reset, "bool", x.shape[: len(sizes)], device)

    def extra_repr(self) -> str:
        """Return the sizes, for `print`."""
        parts = [f"{self.features}", f"depth={self.depth}"]
        parts += ["bidirectional"] * self.bidirectional
        return ", ".join(parts + ([f"vocab_size={self.vocab_size}"] if self.vocab_size else []))


def _run_block(
    block: CSPBlock,
    x: Tensor,
    onto: Tensor,
    state: Tensor | None,
    reset: Tensor | None,
    lengths: Tensor | None,
    backward: bool = False,
) -> tuple[Tensor, Tensor]:
    """Apply a block, or from the end of each row; the last state of a row is the state at its own end.

    Read backwards, a step with a reset is the last step of its sequence.
    """
    if backward:
        if reset is not None:  # the next step backwards begins a sequence
            reset = torch.cat([reset[:, 1:], torch.zeros_like(reset[:, :1])], dim=1)
            reset = _reverse(reset, lengths)
        x, onto = _reverse(x, lengths), _reverse(onto, lengths)
        y, last = _run_block(block, x, onto, state, reset, lengths)
        return _reverse(y, lengths), last
    if lengths is None:
        return block(x, state, reset, onto=onto)
    state, begin = block.initial_state(len(x)) if state is None else state, 0
    y = torch.zeros_like(onto)
    for end in lengths.unique().tolist():
        rows = (lengths >= end).nonzero()[:, 0].to(x.device)
        piece = None if reset is None else reset[rows, begin:end]
        some, last = block(x[rows, begin:end], state[rows], piece, onto=onto[rows, begin:end])
        y[rows, begin:end] = some.to(y.dtype)
        state = state.index_copy(0, rows, last.to(state.dtype))
        begin = end
    return y, state


def _reverse(x: Tensor, lengths: Tensor | None) -> Tensor:
    """Reverse each row up to its length; the padding stays in place."""
    if lengths is None:
        return x.flip(1)
    steps = torch.arange(x.shape[1])
    order = torch.where(steps < lengths[:, None], lengths[:, None] - 1 - steps, steps).to(x.device)
    return x[torch.arange(len(x), device=x.device)[:, None], order]
