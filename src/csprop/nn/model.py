"""The whole model: embedding, blocks, decoder."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int64
from torch import Generator, Tensor, nn

from csprop.cells.block import Block, Transition, start_again
from csprop.cells.options import Shape
from csprop.errors import InputError
from csprop.nn.config import CSPConfig
from csprop.nn.decoder import make_decoder
from csprop.nn.untouched import untouched
from csprop.ops.backends import backend, exporting
from csprop.ops.checks import check_tensor, traced
from csprop.ops.scan import wide

if TYPE_CHECKING:
    from csprop.cells.router import RouterBlock
    from csprop.nn.hub import Names
    from csprop.stream import Stream


class Coupling(nn.Module):
    """The coupling of the paper's future work: h ↦ u vᵀ h on each plane enters the next recurrence.

    u and v are real (d, r). u starts at 0: a fresh model is uncoupled.
    """

    def __init__(self, width: int, rank: int, generator: Generator) -> None:
        super().__init__()
        self.u = nn.Parameter(torch.zeros(width, rank))
        self.v = nn.Parameter(torch.randn(width, rank, generator=generator) / math.sqrt(width))

    def forward(self, h: Float[Tensor, "B T M D"]) -> Float[Tensor, "B T M D"]:
        return h @ self.v @ self.u.T


class CSP(nn.Module):
    """The Complex State Propagator: tokens in, a score for each class after every token out.

    Parameters are initialised from `generator`, or from torch's global generator if none is given. On
    the device `meta` they have no values: call `to_empty`, and `load_state_dict` or `reset_parameters`.
    """

    trained_as: Any = None
    """The configuration of the run that trained it: `certify` uses the same data."""

    def __init__(self, config: CSPConfig | dict[str, Any], generator: Generator | None = None) -> None:
        super().__init__()
        self.names: Names | None = None
        if isinstance(config, dict):  # the content of a config.json
            from csprop.nn.hub import read

            config, self.names = read(config)
        generator = torch.default_generator if generator is None else generator
        self.config, width = config, config.width
        rows = torch.randn((config.vocab_size, config.order, width), generator=generator)
        self.embedding = nn.Parameter(rows / math.sqrt(config.order))
        shape = Shape(width, config.depth, config.vocab_size)
        self.blocks = nn.ModuleList()
        for cell in config.layers:
            self.blocks.append(cell.make(shape, generator))
        self.layers[0].begin(self.embedding, generator)
        self.couplings = nn.ModuleList(
            Coupling(width, config.coupling_rank, generator) for _ in range(config.couplings)
        )
        self.decoder = make_decoder(config, self.layers[-1], generator)
        self.shapes = [parameter.shape for parameter in self.parameters()]

    def reset_parameters(self, generator: Generator | None = None) -> None:
        """Draw new parameters, from torch's generator or this one, for example after `to_empty`."""
        start_again(self, lambda: CSP(self.config, generator))

    @property
    def routers(self) -> "list[RouterBlock]":
        """The blocks of routers."""
        return [cast("RouterBlock", block) for block in self.layers if block.routes]

    @property
    def layers(self) -> list[Block]:
        """The blocks, first layer first."""
        return cast(list[Block], list(self.blocks))

    def save_pretrained(self, save_directory: str | Path, **options: Any) -> Any:
        """Save weights, configuration and names, with the options of `PyTorchModelHubMixin`."""
        from csprop.nn import hub

        return hub.hand_over(self, "save_pretrained", save_directory, **options)

    def push_to_hub(self, repo_id: str, **options: Any) -> Any:
        """Upload what `save_pretrained` saves, with the options of `PyTorchModelHubMixin`."""
        from csprop.nn import hub

        return hub.hand_over(self, "push_to_hub", repo_id, **options)

    @classmethod
    def from_pretrained(cls, name: str | Path, **options: Any) -> "CSP":
        """Read a model from a directory or the Hugging Face Hub, with the options of its mixin."""
        from csprop.nn import hub

        return hub.pull(cls, name, **options)

    def to_onnx(self, path: str | Path) -> None:
        """Write the model to an ONNX file, for batches and sequences of any size.

        Inputs are `tokens` (B, T) and `state`, which has batch size 0 at the start of a sequence.
        Outputs are `scores` and `last_state`. Names of tokens and classes are added.
        """
        from csprop.nn import onnx

        onnx.write(self, path, self.names)

    def initial_state(self, batch: int = 1) -> Float[Tensor, "B L M D"]:
        """Return h_0 of every layer, for each sequence of a batch, in float32 or float64."""
        starts = [wide(block.start) for block in self.layers]
        return torch.stack(starts).expand(batch, -1, -1, -1)

    def forward(
        self,
        tokens: Int64[Tensor, "B T"],
        state: Float[Tensor, "B L M D"] | None = None,
        *,
        reset: Bool[Tensor, "B T"] | None = None,
        return_state: bool = False,
    ) -> Float[Tensor, "B T V"] | tuple[Float[Tensor, "B T V"], Float[Tensor, "B L M D"]]:
        """Return scores after every token; with `return_state`, also the state to carry on from.

        Args:
            tokens: the sequences.
            state: the state that an earlier call returned.
            reset: where it is true, a sequence starts again before that token, so one row can hold
                several sequences.
            return_state: return the last state too.

        Raises:
            InputError: a token is outside the vocabulary, or an argument is not a tensor of the right
                shape, type and device. (On a GPU torch itself stops at such tokens; looking at them
                first would synchronise.)
        """
        self._check(tokens, state, reset)
        result = None
        if backend() == "native" and not traced(tokens):
            from csprop.nn.kernel import propagate

            result = propagate(self, tokens, state, reset)
        if result is None:
            start = self.initial_state(tokens.shape[0]) if state is None else state
            result = self._propagate_in_torch(tokens, start, reset)
        return result if return_state else result[0]

    @property
    def trains_embedding(self) -> bool:
        """False if the embedding only tells tokens apart, or is what counters add."""
        return self.layers[0].trains_embedding

    @property
    def rows(self) -> Float[Tensor, "V M D"]:
        """The input of the first layer for each token."""
        return self.embedding if self.trains_embedding else self.embedding.detach()

    def _propagate_in_torch(
        self, tokens: Int64[Tensor, "B T"], state: Float[Tensor, "B L M D"], reset: Tensor | None
    ) -> tuple[Float[Tensor, "B T V"], Float[Tensor, "B L M D"]]:
        """Return the scores and the last states, by torch operations."""
        try:
            z = _look_up(tokens, self.rows)  # (B, T, order, D)
        except IndexError:
            for bound in tokens.aminmax():
                self.check_token(int(bound))
            raise
        last: list[Tensor] = []
        for layer, block in enumerate(self.layers):
            coupling = self.coupling_of(layer)
            coupled = None if coupling is None else coupling(z)
            known = None if layer else self._first_transition(tokens)
            z, h = block(z, state[:, layer], reset, coupled, known)
            last.append(h)
        return self.decoder(z), torch.stack(last, dim=1)

    def coupling_of(self, layer: int) -> Coupling | None:
        """Return the coupling of a layer to the output below, if there is one."""
        if not (layer and self.couplings):
            return None
        return cast(Coupling, self.couplings[(layer - 1) % len(self.couplings)])

    def step(
        self,
        state: Float[Tensor, "B L M D"],
        tokens: Int64[Tensor, " B"],
        settle: Callable[[int, Tensor], Tensor] = lambda layer, h: h,
    ) -> tuple[Float[Tensor, "B L M D"], Float[Tensor, "B V"]]:
        """Take one token of each sequence, and return the states and the scores after it.

        `settle(layer, h)` replaces the new state (B, M, D) of a layer.
        """
        z, states = self.rows[tokens][:, None], []
        for layer, block in enumerate(self.layers):
            coupling = self.coupling_of(layer)
            coupled = None if coupling is None else coupling(z)
            h = settle(layer, block.advance(z, state[:, layer], coupled))
            states.append(h)
            before = state[:, layer, None] if block.recalls else None
            z = block.finish(h[:, None], z, before)
        return torch.stack(states, dim=1), self.decoder(z)[:, 0]

    def _first_transition(self, tokens: Int64[Tensor, "B T"]) -> Transition | None:
        """Return the first layer's transition, if looking it up by token is less work."""
        first = self.layers[0]
        few = tokens.numel() < self.config.vocab_size
        if (few and not exporting()) or not untouched(first.modules()):
            return None  # a hook, such as that of FSDP, expects the layer to be called as a whole
        a, u = first.transition(self.rows[None])
        return _look_up(tokens, a[0]), None if u is None else _look_up(tokens, u[0])

    def _check(self, tokens: Tensor, state: Tensor | None, reset: Tensor | None) -> None:
        device = self.embedding.device
        check_tensor("tokens", tokens, "int64", ("batch", "time"), device)
        if state is not None:
            shape = (tokens.shape[0], self.config.depth, *self.layers[0].h0.shape)
            check_tensor("state", state, "floating-point", shape, device)
        if reset is not None:
            check_tensor("reset", reset, "bool", tokens.shape, device)

    def check_token(self, token: int) -> None:
        """Refuse a token outside the vocabulary."""
        if not 0 <= token < self.config.vocab_size:
            raise InputError(
                f"token {token} is outside the vocabulary: write 0 to {self.config.vocab_size - 1}"
            )

    def stream(self) -> "Stream":
        """Return a tracker that reads one token at a time."""
        from csprop.stream import Stream

        return Stream(self)

    def stepper(self, state: Float[Tensor, "1 L M D"]) -> Any:
        """Return an object whose `step(token)` takes single steps."""
        from csprop.nn.kernel import make_stepper
        from csprop.stream import Steps

        return make_stepper(self, state) or Steps(self, state)


def _look_up(tokens: Int64[Tensor, "B T"], rows: Float[Tensor, "V ..."]) -> Float[Tensor, "B T ..."]:
    """Return a row for each token; `embedding` has a faster gradient than an index."""
    return F.embedding(tokens, rows.flatten(1)).unflatten(2, rows.shape[1:])
