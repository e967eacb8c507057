"""The whole model: embedding, blocks, decoder."""

import copy
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, cast, overload

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int64
from torch import Generator, Tensor, nn

from csprop.errors import InputError
from csprop.nn import counter, kernel
from csprop.nn.block import Block, Transition
from csprop.nn.config import CSPConfig
from csprop.nn.coupling import Coupling
from csprop.nn.decoder import DECODERS
from csprop.nn.hub import Names, on_hub, read, saved_as
from csprop.nn.kinds import make_block
from csprop.nn.layers import linear, start_again
from csprop.nn.router import Router
from csprop.ops.backends import exporting
from csprop.ops.checks import check_tensor
from csprop.ops.native.forward import Stepper
from csprop.ops.planes import wide
from csprop.stream import Stream

NARROW = 16
"""Numbers of a token where its embedding is narrow."""


class CSP(nn.Module):
    """The Complex State Propagator: tokens in, a score for each class after every token out.

    Parameters start from the given generator; without one, from torch's own, as `torch.manual_seed` has
    it. On the device `meta` they have no values: `to_empty`, then `load_state_dict` or
    `reset_parameters`, gives them some.
    """

    trained_as: Any = None
    """The configuration of the run that trained it: `certify` goes by the same data."""

    def __init__(self, config: CSPConfig | dict[str, Any], generator: Generator | None = None) -> None:
        super().__init__()
        self.names: Names | None = None
        if isinstance(config, dict):  # as it comes from config.json, a hub's or a run's
            config, self.names = read(config)
        generator = torch.default_generator if generator is None else generator
        self.config = config
        self._embed(generator)
        self.blocks = nn.ModuleList(self._block(layer, generator) for layer in range(config.depth))
        if self.layers[0].counts and not self.embedding.is_meta:
            counter.prepare(self.embedding, generator)
        links = 1 if config.coupling == "shared" else config.depth - 1
        self.couplings = nn.ModuleList(
            Coupling(config.width, config.coupling_rank, generator)
            for _ in range(links if config.coupling_rank else 0)
        )
        self.decoder = DECODERS[config.decoder](config, generator)
        self.shapes = [parameter.shape for parameter in self.parameters()]

    def _embed(self, generator: Generator) -> None:
        """Make what a token enters as: a row of complex numbers, or what a real map makes of one."""
        config = self.config
        shape = (config.vocab_size, config.order, config.width)
        if config.embedding == "complex":
            rows = torch.randn(shape, generator=generator) / math.sqrt(config.order)
        elif config.embedding == "narrow":
            rows = nn.init.orthogonal_(torch.empty(config.vocab_size, NARROW), generator=generator)
        else:
            rows = torch.arange(config.vocab_size, dtype=torch.float32)[:, None]
        self.embedding = nn.Parameter(rows)
        if config.embedding != "complex":
            self.widen = linear(rows.shape[1], config.width, generator)

    def _block(self, layer: int, generator: Generator) -> Block:
        options = self.config.of_layer(layer)
        block = make_block(options, generator, self.config.vocab_size)
        if layer == 0 and isinstance(block, Router) and not options.maps:
            block.read_tokens(self.embedding)
        return block

    def reset_parameters(self, generator: Generator | None = None) -> None:
        """Start again, as a new model does: after `to_empty`, if no weights are loaded.

        Args:
            generator: what parameters start from; without one, torch's own.
        """
        start_again(self, lambda: CSP(self.config, generator))

    @property
    def routers(self) -> list[Router]:
        """The layers that route."""
        return [block for block in self.layers if isinstance(block, Router)]

    @property
    def layers(self) -> list[Block]:
        """The blocks, first layer first."""
        return cast(list[Block], list(self.blocks))

    def save_pretrained(self, save_directory: str | Path, **options: Any) -> Any:
        """Save weights, configuration, and the names of tokens and classes if the model has them.

        The options are those of `PyTorchModelHubMixin.save_pretrained`; `push_to_hub` saves the same.
        """
        return self._on_hub().save_pretrained(save_directory, **self._saved_with(options))

    def push_to_hub(self, repo_id: str, **options: Any) -> Any:
        """Upload what `save_pretrained` saves to the Hugging Face Hub.

        The options are those of `PyTorchModelHubMixin.push_to_hub`.
        """
        return self._on_hub().push_to_hub(repo_id, **self._saved_with(options))

    @classmethod
    def from_pretrained(cls, name: str | Path, **options: Any) -> "CSP":
        """Read a model from a directory or from the Hugging Face Hub.

        The options are those of `PyTorchModelHubMixin.from_pretrained`.
        """
        options.setdefault("generator", Generator())  # torch's own would go on from elsewhere
        model = on_hub(cls).from_pretrained(name, **options)
        model.__class__ = cls
        return model

    def to_onnx(self, path: str | Path) -> None:
        """Write the model to an ONNX file, for batches and sequences of any size.

        Its inputs are `tokens` (B, T) and `state`, which has no rows where sequences begin; its outputs
        are `scores` and `last_state`, to carry on from. Names of tokens and classes are its metadata.

        Args:
            path: the file; one that exists is replaced.

        Raises:
            InputError: the file cannot be written, or onnx is not installed.
        """
        from csprop.nn import onnx

        onnx.write(self, path, self.names)

    def _on_hub(self) -> Any:
        """This model, with the methods of `PyTorchModelHubMixin`."""
        model: Any = copy.copy(self)
        model.__class__ = on_hub(type(self))
        return model

    def _saved_with(self, options: dict[str, Any]) -> dict[str, Any]:
        return {**options, "config": options.get("config") or saved_as(self.config, self.names)}

    def initial_state(self, batch: int = 1) -> Float[Tensor, "B L M D"]:
        """h_0 of every layer, for each sequence of a batch; in float32 at least, as all states are."""
        starts = [wide(block.start) for block in self.layers]
        return torch.stack(starts).expand(batch, -1, -1, -1)

    @overload
    def forward(
        self,
        tokens: Tensor,
        state: Tensor | None = ...,
        *,
        reset: Tensor | None = ...,
        return_state: Literal[False] = ...,
    ) -> Tensor: ...
    @overload
    def forward(
        self,
        tokens: Tensor,
        state: Tensor | None = ...,
        *,
        reset: Tensor | None = ...,
        return_state: Literal[True],
    ) -> tuple[Tensor, Tensor]: ...
    def forward(
        self,
        tokens: Int64[Tensor, "B T"],
        state: Float[Tensor, "B L M D"] | None = None,
        *,
        reset: Bool[Tensor, "B T"] | None = None,
        return_state: bool = False,
    ) -> Float[Tensor, "B T V"] | tuple[Float[Tensor, "B T V"], Float[Tensor, "B L M D"]]:
        """Scores after every token; with `return_state`, also what to carry on from.

        `state` is what an earlier call returned; where `reset` is true a sequence starts anew before
        that token, so that several can be packed into one row. Raises InputError for tokens outside of
        the vocabulary, and for what is no tensor of the right shape, type and device. (On a GPU torch
        itself stops at such tokens: to look at them first would be to wait for it.)
        """
        self._check(tokens, state, reset)
        if results := kernel.propagate(self, tokens, state, reset):
            return results if return_state else results[0]
        if state is None:
            state = self.initial_state(tokens.shape[0])
        try:
            z = _look_up(tokens, self.rows)  # (B, T, order, D)
        except IndexError:
            for bound in tokens.aminmax():
                self.check_token(int(bound))
            raise
        z, last = self._propagate(tokens, z, state, reset)
        logits = self.decoder(z)
        return (logits, last) if return_state else logits

    @property
    def trains_embedding(self) -> bool:
        """Whether the embedding is trained: not where it only tells tokens apart, or what to count."""
        first = self.layers[0]
        chosen = first.counts or (isinstance(first, Router) and first.by_token)
        return self.config.embedding == "complex" and not chosen

    @property
    def rows(self) -> Float[Tensor, "V M D"]:
        """What each token enters the first layer as."""
        table = self.embedding if self.trains_embedding else self.embedding.detach()
        if self.config.embedding == "complex":
            return table
        wide = self.widen(table)
        wide = torch.tanh(wide) if self.config.embedding == "scalar" else wide
        return torch.stack([wide, torch.zeros_like(wide)], dim=1)

    def _propagate(
        self,
        tokens: Int64[Tensor, "B T"],
        z: Float[Tensor, "B T K D"],
        state: Float[Tensor, "B L M D"],
        reset: Tensor | None,
    ) -> tuple[Float[Tensor, "B T K D"], Float[Tensor, "B L M D"]]:
        """Through all blocks: the last one's output, and the states after the last token."""
        last: list[Tensor] = []
        for layer, block in enumerate(self.layers):
            coupled = self._coupled(layer, z)
            known = None if layer else self._first_transition(tokens)
            z, h = block(z, state[:, layer], reset, coupled, known)
            last.append(h)
        return z, torch.stack(last, dim=1)

    def _coupled(self, layer: int, z: Tensor) -> Tensor | None:
        """What a layer's recurrence receives from the output below, beside its input."""
        coupling = self.coupling_of(layer)
        return None if coupling is None else coupling(z)

    def coupling_of(self, layer: int) -> Coupling | None:
        """What couples a layer to the output below, if anything does."""
        if not (layer and self.couplings):
            return None
        return cast(Coupling, self.couplings[(layer - 1) % len(self.couplings)])

    def step(
        self,
        state: Float[Tensor, "B L M D"],
        tokens: Int64[Tensor, " B"],
        settle: Callable[[int, Tensor], Tensor] = lambda layer, h: h,
    ) -> tuple[Float[Tensor, "B L M D"], Float[Tensor, "B V"]]:
        """One token for each sequence: the states and the scores after it.

        A layer passes on what `settle(layer, h)` makes of its new state (B, M, D).
        """
        z, states = self.rows[tokens][:, None], []
        for layer, block in enumerate(self.layers):
            h = settle(layer, block.advance(z, state[:, layer], self._coupled(layer, z)))
            states.append(h)
            before = state[:, layer, None] if block.options.recall else None
            z = block.finish(h[:, None], z, before)
        return torch.stack(states, dim=1), self.decoder(z)[:, 0]

    def _first_transition(self, tokens: Int64[Tensor, "B T"]) -> Transition | None:
        """The first layer's, where one for each token is less work than one for each step."""
        first = self.layers[0]
        # Worth it for what is beyond the kernel, but for SiLU in the recurrence: its loop costs more.
        little = first.options.beyond_kernel <= {"activation"}
        few = not exporting() and tokens.numel() < self.config.vocab_size
        if little or first.options.released or few:
            return None
        a, u = first.transition(self.rows[None])
        return _look_up(tokens, a[0]), None if u is None else _look_up(tokens, u[0])

    def _check(self, tokens: Tensor, state: Tensor | None, reset: Tensor | None) -> None:
        device = self.embedding.device
        check_tensor("tokens", tokens, "int64", ("batch", "time"), device)
        if state is not None:
            shape = (tokens.shape[0], self.config.depth, self.config.planes, self.config.width)
            check_tensor("state", state, "floating-point", shape, device)
        if reset is not None:
            check_tensor("reset", reset, "bool", tokens.shape, device)

    def check_token(self, token: int) -> None:
        """Refuse one that is outside of the vocabulary."""
        if not 0 <= token < self.config.vocab_size:
            raise InputError(
                f"token {token} is outside the vocabulary: write 0 to {self.config.vocab_size - 1}"
            )

    def stream(self) -> Stream:
        """A tracker that reads one token at a time."""
        return Stream(self)

    def stepper(self, state: Float[Tensor, "1 L M D"]) -> "Stepper | _Steps | None":
        """This model laid out for single steps, where the compiled kernel can do all of it."""
        return kernel.stepper(self, state) or (_Steps(self, state) if self.routers else None)


class _Steps:
    """Single steps of a model with routers, whose maps are hard there whatever it is used for else."""

    def __init__(self, model: CSP, state: Float[Tensor, "1 L M D"]) -> None:
        self.model, self.state = model, state

    def step(self, token: int) -> Float[Tensor, " V"]:
        tokens = torch.tensor([token], device=self.state.device)
        self.state, scores = self.model.step(self.state, tokens)
        return scores[0]


def _look_up(tokens: Int64[Tensor, "B T"], rows: Float[Tensor, "V ..."]) -> Float[Tensor, "B T ..."]:
    """A row for each token; `embedding` has a faster gradient than an index."""
    return F.embedding(tokens, rows.flatten(1)).unflatten(2, rows.shape[1:])
