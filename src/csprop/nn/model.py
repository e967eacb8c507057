"""The whole model: embedding, blocks, decoder."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast, overload

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int64
from torch import Generator, Tensor, nn

from csprop.cells.block import Block, Transition
from csprop.cells.options import BUILT_IN, Shape
from csprop.cells.parts import start_again
from csprop.errors import InputError
from csprop.nn.config import CSPConfig
from csprop.nn.coupling import Coupling
from csprop.nn.decoder import make_decoder
from csprop.nn.kernel import has_hooks, make_stepper, propagate
from csprop.ops.backends import exporting
from csprop.ops.checks import check_tensor
from csprop.ops.planes import wide
from csprop.stream import Stream

if TYPE_CHECKING:
    from csprop.cells.router import RouterBlock
    from csprop.nn.hub import Names


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
        """Initialise the parameters again, for example after `to_empty` if no weights are loaded.

        Args:
            generator: draws the parameters; by default, torch's global generator.
        """
        start_again(self, lambda: CSP(self.config, generator))

    @property
    def routers(self) -> "list[RouterBlock]":
        """The blocks of routers."""
        from csprop.cells.router import RouterBlock

        return [block for block in self.layers if isinstance(block, RouterBlock)]

    @property
    def layers(self) -> list[Block]:
        """The blocks, first layer first."""
        return cast(list[Block], list(self.blocks))

    def save_pretrained(self, save_directory: str | Path, **options: Any) -> Any:
        """Save weights, configuration, and the names of tokens and classes if the model has them.

        The options are those of `PyTorchModelHubMixin.save_pretrained`; `push_to_hub` saves the same.
        """
        return self._on_hub().save_pretrained(save_directory, **self._with_config(options))

    def push_to_hub(self, repo_id: str, **options: Any) -> Any:
        """Upload what `save_pretrained` saves to the Hugging Face Hub.

        The options are those of `PyTorchModelHubMixin.push_to_hub`.
        """
        return self._on_hub().push_to_hub(repo_id, **self._with_config(options))

    @classmethod
    def from_pretrained(cls, name: str | Path, **options: Any) -> "CSP":
        """Read a model from a directory or from the Hugging Face Hub.

        The options are those of `PyTorchModelHubMixin.from_pretrained`.
        """
        options.setdefault("generator", Generator())  # torch's own would go on from elsewhere
        from csprop.nn.hub import on_hub

        return on_hub(cls).from_pretrained(name, **options).copy_to(cls)

    def _on_hub(self) -> Any:
        """Return a copy with the methods of `PyTorchModelHubMixin`."""
        from csprop.nn.hub import on_hub

        return self.copy_to(on_hub(type(self)))

    def copy_to(self, cls: "type[CSP]") -> "CSP":
        """Return this model as one of another class, with the same weights and names."""
        model = cls(self.config, Generator()).to(self.embedding)
        model.load_state_dict(self.state_dict(), assign=True)
        model.names = self.names
        return model.train(self.training)

    def _with_config(self, options: dict[str, Any]) -> dict[str, Any]:
        from csprop.nn.hub import to_document

        return {**options, "config": options.get("config") or to_document(self.config, self.names)}

    def to_onnx(self, path: str | Path) -> None:
        """Write the model to an ONNX file, for batches and sequences of any size.

        Inputs are `tokens` (B, T) and `state`, which has batch size 0 at the start of a sequence.
        Outputs are `scores` and `last_state`, to carry on from. Names of tokens and classes are added.

        Args:
            path: the file; one that exists is replaced.

        Raises:
            InputError: the file cannot be written, or onnx is not installed.
        """
        from csprop.nn import onnx

        onnx.write(self, path, self.names)

    def initial_state(self, batch: int = 1) -> Float[Tensor, "B L M D"]:
        """Return h_0 of every layer, for each sequence of a batch, in float32 or float64."""
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
        done = propagate(self, tokens, state, reset)
        if done is None:
            start = self.initial_state(tokens.shape[0]) if state is None else state
            done = self._propagate_in_torch(tokens, start, reset)
        logits, last = done
        return (logits, last) if return_state else logits

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
            coupled = self._coupled(layer, z)
            known = None if layer else self._first_transition(tokens)
            z, h = block(z, state[:, layer], reset, coupled, known)
            last.append(h)
        return self.decoder(z), torch.stack(last, dim=1)

    def _coupled(self, layer: int, z: Tensor) -> Tensor | None:
        """Return what the coupling adds to a layer's recurrence, if there is one."""
        coupling = self.coupling_of(layer)
        return None if coupling is None else coupling(z)

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
            h = settle(layer, block.advance(z, state[:, layer], self._coupled(layer, z)))
            states.append(h)
            before = state[:, layer, None] if block.recalls else None
            z = block.finish(h[:, None], z, before)
        return torch.stack(states, dim=1), self.decoder(z)[:, 0]

    def _first_transition(self, tokens: Int64[Tensor, "B T"]) -> Transition | None:
        """Return the first layer's transition, if looking it up by token is less work."""
        first = self.layers[0]
        few = tokens.numel() < self.config.vocab_size
        if (few and not exporting()) or type(first.cell) not in BUILT_IN.values() or has_hooks([first]):
            return None  # a hook, such as that of FSDP, expects the layer to be called as a whole
        a, u = first.transition(self.rows[None])
        return _look_up(tokens, a[0]), None if u is None else _look_up(tokens, u[0])

    def _check(self, tokens: Tensor, state: Tensor | None, reset: Tensor | None) -> None:
        device = self.embedding.device
        check_tensor("tokens", tokens, "int64", ("batch", "time"), device)
        if state is not None:
            shape = (tokens.shape[0], self.config.depth, self.config.order, self.config.width)
            check_tensor("state", state, "floating-point", shape, device)
        if reset is not None:
            check_tensor("reset", reset, "bool", tokens.shape, device)

    def check_token(self, token: int) -> None:
        """Refuse a token outside the vocabulary."""
        if not 0 <= token < self.config.vocab_size:
            raise InputError(
                f"token {token} is outside the vocabulary: write 0 to {self.config.vocab_size - 1}"
            )

    def stream(self) -> Stream:
        """A tracker that reads one token at a time."""
        return Stream(self)

    def stepper(self, state: Float[Tensor, "1 L M D"]) -> "Any":
        """Return an object whose `step(token)` takes single steps, or None to call the model."""
        return make_stepper(self, state) or (_Steps(self, state) if self.routers else None)


class _Steps:
    """Single steps of a model in torch operations; maps of routers are hard in them."""

    def __init__(self, model: CSP, state: Float[Tensor, "1 L M D"]) -> None:
        self.model, self.state = model, state

    def step(self, token: int) -> Float[Tensor, " V"]:
        tokens = torch.tensor([token], device=self.state.device)
        self.state, scores = self.model.step(self.state, tokens)
        return scores[0]


def _look_up(tokens: Int64[Tensor, "B T"], rows: Float[Tensor, "V ..."]) -> Float[Tensor, "B T ..."]:
    """Return a row for each token; `embedding` has a faster gradient than an index."""
    return F.embedding(tokens, rows.flatten(1)).unflatten(2, rows.shape[1:])
