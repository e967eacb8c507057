"""Models without the channels that their answers do not need; the angles of rotors, rounded.

A channel that is not needed turns by arbitrary angles, so its states never form a finite set. A pruned
channel stays at its initial value: its angles are 0 and its gate is open.
"""

import copy
from dataclasses import dataclass, replace
from typing import Any, TypeGuard, cast

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int64
from torch import Generator, Tensor, nn

from csprop.cells.block import polar
from csprop.cells.rotor import RotorBlock
from csprop.cells.tracker import SparseHeads, TrackerBlock
from csprop.data.examples import UNLABELLED
from csprop.nn.model import CSP
from csprop.ops.scan import turn
from csprop.training.labelled import Judgement, Labelled

Mask = Bool[Tensor, "L D"]  # the channels in use
PRUNING_ROWS, GLANCE_ROWS = 1024, 256
MANY_TOKENS, FEW_TOKENS = 1 << 14, 1 << 12  # of the rows by which heads are left out
READING_STEPS, READING_ROWS, READING_RATE = 40, 32, 3e-3
OPEN = 40.0  # σ(40) is 1 in float32 and in float64


def is_rotor(model: object) -> TypeGuard[CSP]:
    """Return True if every layer rotates its state, with an angle and a gate for each channel."""
    return isinstance(model, CSP) and all(type(block) is RotorBlock for block in model.layers)


@torch.no_grad()
def follow(model: Any, kept: Mask, tokens: Int64[Tensor, "N T"]) -> Float[Tensor, "N T C"]:
    """Return the scores after every token; channels that are not kept stay at their initial value."""
    start = model.initial_state()[0]
    state, scores = start.expand(len(tokens), *start.shape), []
    for column in tokens.unbind(1):
        state, said = model.step(
            state, column, lambda layer, h: torch.where(kept[layer], h, start[layer])
        )
        scores.append(said)
    return torch.stack(scores, dim=1)


@dataclass(frozen=True)
class Pruned:
    """A model, and its channels in use."""

    model: Any
    kept: Mask

    @classmethod
    def whole(cls, model: Any) -> "Pruned":
        """Return a model with all of its channels."""
        layers, _, width = model.initial_state()[0].shape
        return cls(model, torch.ones(layers, width, dtype=torch.bool))

    def __str__(self) -> str:
        return f"{int(self.kept.sum())} channels"

    @torch.no_grad()
    def freeze(self) -> None:
        """Change the rotor: hold the other channels at their initial value."""
        for block, mine in zip(self.model.blocks, self.kept, strict=True):
            for rows in (block.angle.weight, block.angle.bias):
                rows.unflatten(0, (-1, len(mine)))[:, ~mine] = 0
            block.gate.weight[~mine] = 0
            block.gate.bias[~mine] = OPEN

    @torch.no_grad()
    def judge(self, examples: Labelled) -> Judgement:
        """Compare the scores after every token with the labels."""
        if not is_rotor(self.model):
            return examples.judge(follow(self.model, self.kept, examples.tokens))
        frozen = replace(self, model=copy.deepcopy(self.model))
        frozen.freeze()
        return examples.judge(frozen.model(examples.tokens))

    def prune(self, examples: Labelled) -> "Pruned":
        """Drop whole layers, then single channels, the least needed first.

        There may be no more errors, and the correct scores must keep a fraction of their margin.
        """
        rows = examples.first(PRUNING_ROWS)
        few, now = rows.first(GLANCE_ROWS), self
        layers = torch.arange(len(self.kept))[:, None]
        before = self.judge(few), self.judge(rows)
        for mask in [*((layers == each).expand_as(self.kept) for each in layers), *self._by_need(rows)]:
            fewer = replace(now, kept=now.kept & ~mask)
            if not torch.equal(fewer.kept, now.kept) and not any(
                fewer.judge(each).worse_than(old) for each, old in zip((few, rows), before, strict=True)
            ):
                now = fewer
        return now

    def simplify(self, examples: Labelled) -> "Pruned":
        """Return the model without what the answers do not need; a rotor may have whole angles then."""
        simple = self.prune(examples)
        if is_rotor(simple.model):
            simple = replace(simple, model=copy.deepcopy(simple.model))
            simple.freeze()
            simple = simple.anchor(examples)
            simple.round_angles(examples.first(PRUNING_ROWS))
        return simple

    @torch.no_grad()
    def anchor(self, examples: Labelled) -> "Pruned":
        """Choose a token that turns nothing, if the answers allow it: of a lone layer of order 2.

        Where all rows have one length, every token may turn a channel by the same angle more, if h_0
        is turned back by the sum.
        """
        if not is_rotor(self.model) or (self.model.config.order, len(self.kept)) != (2, 1):
            return self
        block, others = cast(RotorBlock, self.model.layers[0]), []
        for angles in block.theta(self.model.rows[:, None])[:, 0]:
            others.append(replace(self, model=copy.deepcopy(self.model)))
            other = cast(RotorBlock, others[-1].model.layers[0])
            other.angle.bias.sub_(angles)
            back = polar(torch.ones_like(angles), angles * examples.tokens.shape[1])
            other.h0.copy_(turn(back, block.start))
        return min([*others, self], key=lambda each: each.judge(examples.first(PRUNING_ROWS)).misses)

    def round_angles(self, examples: Labelled) -> None:
        """Round the angles of each channel to whole multiples of 2π/k, k as small as can be.

        One k for all channels comes first: alone, a channel may do with a wrong one.
        """
        before = self.judge(examples)
        for each, kept in zip(self.model.blocks, self.kept, strict=True):
            block, k = cast(RotorBlock, each), 0
            for channels in () if block.parts is None else (kept, *_channels(kept)):
                for k in (*range(1, block.cell.parts + 1), 0):
                    block.get_buffer("parts")[channels] = k
                    if not self.judge(examples).worse_than(before):
                        break
                if k and channels is kept:
                    break

    def thin(self, examples: Labelled) -> "Pruned":
        """Drop the least needed third of the channels, whatever it does to the answers."""
        kept, order = self.kept, self._by_need(examples)
        for one in order[: -(-len(order) // 3)]:
            kept = kept & ~one
        return replace(self, model=copy.deepcopy(self.model), kept=kept)

    def _by_need(self, examples: Labelled) -> list[Mask]:
        """Return the channels in use, each as a mask, sorted by the loss without it."""
        glance, each = examples.first(GLANCE_ROWS), _channels(self.kept)
        losses = [replace(self, kept=self.kept & ~one).judge(glance).loss for one in each]
        return [each[i] for i in sorted(range(len(each)), key=losses.__getitem__)]


def _channels(used: Mask) -> list[Mask]:
    """Return each channel in use as a mask."""
    each = torch.eye(used.numel(), dtype=torch.bool).view(-1, *used.shape)
    return list(each[used.flatten()])


def all_heads(model: nn.Module) -> list[SparseHeads]:
    """Return the heads of each tracker in a network, first layer first."""
    return [each for each in model.modules() if isinstance(each, SparseHeads)]


@torch.no_grad()
def drop_heads(model: nn.Module, examples: Labelled) -> None:
    """Leave out heads, and make places hard, as far as there are no more errors.

    Whole layers are tried first, the last one before the others; then rotations that drift, then the
    heads of each kind, then parts of what is left, from the least weights in the readout on.
    """
    many, few = (max(1, tokens // examples.tokens.shape[1]) for tokens in (MANY_TOKENS, FEW_TOKENS))
    samples, layers = (examples.first(few), examples.first(many)), all_heads(model)[::-1]
    before = [each.judge(model(each.tokens)).misses for each in samples]

    def worse() -> bool:
        pairs = zip(samples, before, strict=True)
        return any(each.judge(model(each.tokens)).misses > most for each, most in pairs)

    def drop(layer: SparseHeads, heads: Tensor) -> bool:
        with layer.leave_out(heads):
            needed = worse()
        if not needed:
            layer.keep(~heads)
        return not needed

    def thin(layer: SparseHeads, numbers: Tensor) -> None:
        heads = torch.zeros_like(layer.followed.used).index_fill(0, numbers, True)
        if len(numbers) and not drop(layer, heads) and len(numbers) > 1:
            for half in numbers.tensor_split(2):
                thin(layer, half)

    def harden() -> None:
        for layer in layers:
            layer.hard.fill_(1)
            if worse():
                layer.hard.fill_(0)

    harden()
    for layer in layers:
        drop(layer, torch.ones_like(layer.followed.used))
    for layer in layers:
        for heads in [layer.drifting, *layer.kinds()]:
            drop(layer, heads)
    for layer in layers:
        order = layer.density.argsort()
        thin(layer, order[layer.followed.used[order]])
    harden()


def settle_heads(model: CSP, examples: Labelled, seed: int) -> None:
    """Leave out heads at the end of training, and train what reads the others a little further.

    A head that is hardly needed may be all that keeps a network from being a finite machine. So the
    layers that have such heads are left out, or else these heads, if there are no more errors once the
    rest has learned to do without them.
    """
    some = examples.first(max(1, MANY_TOKENS // examples.tokens.shape[1]))
    before = some.judge(model(some.tokens)).misses
    drop_heads(model, examples)
    for layer in all_heads(model)[::-1]:
        for heads in (torch.ones_like(layer.followed.used), layer.loose):
            if layer.loose.any():
                weights = copy.deepcopy(model.state_dict())
                layer.keep(~heads)
                _learn_to_read(model, examples, Generator().manual_seed(seed))
                if some.judge(model(some.tokens)).misses > before:
                    model.load_state_dict(weights)
    drop_heads(model, examples)


@torch.enable_grad()
def _learn_to_read(model: CSP, examples: Labelled, generator: Generator) -> None:
    """Train what comes after the heads, in evaluation, where their states are exact."""
    parts = [model.decoder]
    for block in model.layers:
        assert isinstance(block, TrackerBlock)
        parts += [block.heads.readout, block.mlp, block.after]
    learning = [each for part in parts for each in part.parameters()]
    trained = {each: each.requires_grad for each in model.parameters()}
    model.requires_grad_(False)
    for each in learning:
        each.requires_grad_()
    adam = torch.optim.Adam(learning, lr=READING_RATE)
    for step in range(READING_STEPS):
        adam.param_groups[0]["lr"] = READING_RATE * (1 - step / READING_STEPS)
        rows = torch.randint(len(examples.tokens), (READING_ROWS,), generator=generator)
        scores = model(examples.tokens[rows]).flatten(0, 1)
        adam.zero_grad()
        F.cross_entropy(scores, examples.labels[rows].flatten(), ignore_index=UNLABELLED).backward()
        adam.step()
    for each, learns in trained.items():
        each.requires_grad_(learns)
    for layer in all_heads(model):
        layer.keep(layer.followed.used)  # with the new weights
