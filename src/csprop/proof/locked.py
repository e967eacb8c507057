"""Locked models: networks whose state snaps to the nearest of finitely many codes after every token.

Errors cannot accumulate, because the state after any number of tokens is one of the codes. The network
is then a finite machine and runs as one: each transition is computed once by the network, and then
looked up.

codes[l]      the states of layer l                                 (S_l, M, D)
kept          the channels in use; the others stay at their initial value    (L, D)
machine       its states are the codes of all layers, and the last answer
places        the code of each layer in each state of the machine   (S, L)
following     the transitions of the machine, as a tensor           (S, V)
scores        the scores after each transition                      (S, V, classes)
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn

from csprop.automata.automaton import Automaton
from csprop.automata.machine import Machine, tabulate
from csprop.automata.walk import Endless
from csprop.errors import InputError
from csprop.ops.backends import exporting
from csprop.ops.checks import check_tensor
from csprop.ops.scan import over_time
from csprop.proof.answers import CountingAnswers, FiniteAnswers
from csprop.proof.limits import MOST_LOCKED, NotFinite
from csprop.proof.models import Snap, Stepwise
from csprop.stream import Stream
from csprop.training.pruned import Mask

CPU = torch.device("cpu")
AT_ONCE = 1 << 18
"""The largest number of differences in memory during the search for the nearest code: a megabyte, which
stays in the cache."""
Node = tuple[tuple[int, ...], int | None]  # the code of each layer, and the last answer


def nearest(
    h: Float[Tensor, "N M D"], codes: Float[Tensor, "S M D"]
) -> tuple[Float[Tensor, "N k"], Int64[Tensor, "N k"]]:
    """Return the distances and numbers of the two nearest codes of each state, or of the only one.

    A distance is the largest over the channels.
    """
    count, size = min(2, len(codes)), len(codes) * codes.shape[1]
    theirs = codes.permute(2, 1, 0).contiguous()[:, :, None]  # (D, M, 1, S)
    results = []
    for part in h.split(max(1, AT_ONCE // size)):
        mine = part.permute(2, 1, 0).contiguous()[..., None]  # (D, M, n, 1)
        channels = max(1, AT_ONCE // (size * len(part)))
        apart = mine.new_zeros(len(part), len(codes))
        for here, there in zip(mine.split(channels), theirs.split(channels), strict=True):
            apart = torch.maximum(apart, (here - there).square().sum(dim=1).amax(dim=0))
        results.append(apart.sqrt().topk(count, dim=1, largest=False))
    distances, numbers = zip(*results, strict=True)
    return torch.cat(distances), torch.cat(numbers)


def at(
    codes: Sequence[Float[Tensor, "S M D"]], places: Int64[Tensor, "N L"]
) -> Float[Tensor, "N L M D"]:
    """Return the states of the network in which layer l is at code places[:, l]."""
    return torch.stack([each[i] for each, i in zip(codes, places.unbind(1), strict=True)], dim=1)


class LockedModel(nn.Module, ABC):
    """A model that runs as the machine which a network computes; its state is (B, …) int64."""

    symbols: int
    answers: FiniteAnswers | CountingAnswers
    state_shape: tuple[int, ...] = ()

    def initial_state(self, batch: int = 1) -> Int64[Tensor, "B ..."]:
        """Return the start of the machine, for each row."""
        return torch.zeros(batch, *self.state_shape, dtype=torch.int64)

    @abstractmethod
    def _in_steps(self, tokens: Tensor, state: Tensor, reset: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return the scores and the last states, by steps that `torch.onnx.export` can see."""

    @torch.no_grad()
    def forward(
        self,
        tokens: Int64[Tensor, "B T"],
        state: Int64[Tensor, "B ..."] | None = None,
        *,
        reset: Bool[Tensor, "B T"] | None = None,
        return_state: bool = False,
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Return the scores after every token.

        Args:
            tokens: (B, T) int64.
            state: the states in which the rows begin; without it, the start.
            reset: True where a row returns to the start before the token is read.
            return_state: return the last states too.

        Raises:
            InputError: an argument has a wrong type or shape, a token is outside the vocabulary, a
                state is not a state of the machine, or a count could become too large.
        """
        check_tensor("tokens", tokens, "int64", ("batch", "time"), CPU)
        if not exporting() and tokens.numel():  # a graph cannot refuse a token
            for bound in tokens.aminmax():
                self.check_token(int(bound))
        start = self.initial_state(tokens.shape[0])
        state = start if state is None else state
        check_tensor("state", state, "int64", tuple(start.shape), CPU)
        if reset is not None:
            check_tensor("reset", reset, "bool", tuple(tokens.shape), CPU)
        if exporting():
            scores, last = self._in_steps(tokens, state, reset)
        else:
            resets = None if reset is None else reset.numpy()
            made = self.answers.run(tokens.numpy(), state.numpy(), resets)
            scores, last = torch.from_numpy(made[0]).float(), torch.from_numpy(made[1])
        return (scores, last) if return_state else scores

    def check_token(self, token: int) -> None:
        """Raise an InputError for a token outside of the vocabulary."""
        if not 0 <= token < self.symbols:
            raise InputError(f"token {token} is outside the vocabulary: write 0 to {self.symbols - 1}")

    def stepper(self, state: Tensor) -> "_Steps":
        """Return single steps from a state, for `Stream`."""
        self.answers.check(state.numpy(), 1)
        return _Steps(self.answers, state)

    def stream(self) -> Stream:
        """Return a stream that reads one token at a time."""
        return Stream(self)


class _Steps:
    """Single steps for a stream."""

    def __init__(self, answers: Any, state: Tensor) -> None:
        self.next, (self.place,) = answers.single_step(), state.tolist()

    @property
    def state(self) -> Tensor:
        return torch.tensor([self.place])

    def step(self, token: int) -> Tensor:
        scores, self.place = self.next(self.place, token)
        return torch.tensor(scores, dtype=torch.float32)


class Locked(LockedModel):
    """A network whose state snaps to codes. Its own state is the state of the machine, (B,) int64."""

    places: Tensor
    following: Tensor
    scores: Tensor
    kept: Tensor

    def __init__(
        self,
        network: Stepwise,
        codes: Sequence[Float[Tensor, "S M D"]],
        kept: Mask,
        symbols: int,
    ) -> None:
        super().__init__()
        self.network, self.symbols = network, symbols
        for layer, each in enumerate(codes):
            self.register_buffer(f"codes_{layer}", each)
        self.register_buffer("kept", kept)
        self.machine, places, scores = self._explore()
        following = torch.tensor(self.machine.transitions)
        for name, value in (("places", places), ("following", following), ("scores", scores)):
            self.register_buffer(name, value, persistent=False)
        self.answers = FiniteAnswers(self.machine, scores.numpy())

    @property
    def codes(self) -> list[Tensor]:
        """The codes of each layer."""
        return [self.get_buffer(f"codes_{layer}") for layer in range(len(self.kept))]

    def snapping(self, nearby: list[tuple[Tensor, Tensor]]) -> Snap:
        """Return a function that replaces a state by the nearest code, and appends it to `nearby`."""
        start = self.network.initial_state()[0]  # (L, M, D)

        def snap(layer: int, h: Tensor) -> Tensor:
            h = torch.where(self.kept[layer], h, start[layer])
            distances, numbers = nearest(h, self.codes[layer])
            nearby.append((distances, numbers))
            return self.codes[layer][numbers[:, 0]]

        return snap

    @torch.no_grad()
    def leave(
        self, places: Int64[Tensor, "N L"], tokens: Int64[Tensor, " N"]
    ) -> tuple[Int64[Tensor, "N L"], Float[Tensor, "N C"], list[tuple[Tensor, Tensor]]]:
        """Return new places, scores, and the result of `nearest` by layer, one step from codes."""
        nearby: list[tuple[Tensor, Tensor]] = []
        _, scores = self.network.step(at(self.codes, places), tokens, self.snapping(nearby))
        return torch.stack([numbers[:, 0] for _, numbers in nearby], dim=1), scores, nearby

    def _explore(self) -> tuple[Machine, Int64[Tensor, "S L"], Float[Tensor, "S V C"]]:
        """Return the machine of all states that can be reached, their places, and their scores."""
        first = self.network.initial_state()[0]
        begin = tuple(
            int(nearest(h[None], codes)[1][0, 0]) for h, codes in zip(first, self.codes, strict=True)
        )
        scores: list[Tensor] = []

        def following(nodes: Sequence[Node]) -> list[list[tuple[int, Node]]]:
            places = torch.tensor([place for place, _ in nodes]).repeat_interleave(self.symbols, dim=0)
            reached, said, _ = self.leave(places, torch.arange(self.symbols).repeat(len(nodes)))
            scores.append(said)
            arrived = zip(map(tuple, reached.tolist()), said.argmax(dim=1).tolist(), strict=True)
            return [list(enumerate(next(arrived) for _ in range(self.symbols))) for _ in nodes]

        try:
            machine, nodes = tabulate(
                (begin, None), following, lambda node: node[1], MOST_LOCKED, batch=1024
            )
        except Endless:
            raise NotFinite(f"the codes combine to more than {MOST_LOCKED:,} states") from None
        places = torch.tensor([place for place, _ in nodes])
        return machine, places, torch.cat(scores).unflatten(0, (len(nodes), self.symbols))

    def _in_steps(self, tokens: Tensor, state: Tensor, reset: Tensor | None) -> tuple[Tensor, Tensor]:
        after = over_time(_look_up, state, tokens, reset, fixed=[self.following])
        visited = torch.cat([state[:, None], after], dim=1)  # (B, T + 1)
        before = visited[:, :-1] if reset is None else visited[:, :-1].masked_fill(reset, 0)
        return self.scores[before, tokens], visited[:, -1]

    def automaton(self, vocab: Sequence[str], classes: Sequence[str], words: bool) -> Automaton:
        """Return the machine, with names for its tokens and classes."""
        return Automaton.from_machine(self.machine, vocab, classes, words)


def _look_up(state: Tensor, tokens: Tensor, reset: Tensor | None, following: Tensor) -> Tensor:
    state = state if reset is None else state.masked_fill(reset, 0)
    return following[state, tokens]
