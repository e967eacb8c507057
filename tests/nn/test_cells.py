"""Configurations in JSON, options that reach a cell, and cells of one's own."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field, make_dataclass
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from torch import Generator, Tensor, nn

import csprop
from csprop import CSP, Block, Cell, Counter, CSPConfig, Paper, Rotor, Router, Switch, use_backend
from csprop.cells.options import Shape
from csprop.cells.paper import PaperBlock
from csprop.cells.rotor import RotorBlock
from csprop.errors import InputError
from csprop.fields import check_types, find_changes
from csprop.nn.kernel import unreadable
from csprop.training.config import configure
from tests.helpers.options import config, configs, vary

BACKENDS = ("reference", "torch", "native")
SAVED = config(Rotor(order=3)).to_json()


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (lambda: config(Paper(), width=0), "width=0: out of range: write 1 to 65536"),
        (lambda: config(Paper(), depth=-1), "depth=-1: out of range: write 1 to 1024"),
        (lambda: config(Paper(), width=2.5), "width=2.5: does not fit: write a whole number"),
        (lambda: config(Paper(), width=True), "width=True: does not fit: write a whole number"),
        (lambda: config(Paper(), vocab_size=0), "vocab_size=0: out of range: write 1"),
        (lambda: config(Paper(), num_classes=1), "num_classes=1: out of range: write 2"),
        (lambda: Paper(rotate="both"), "rotate='both': does not fit: write one of 'input', 'state'"),  # pyright: ignore
        (lambda: Paper(skip="yes"), "skip='yes': does not fit: write True or False"),  # pyright: ignore
        (lambda: Paper(coupling="per_layer"), "needs a coupling_rank of 1 or more"),
        (lambda: config(Paper(coupling_rank=7)), "choose a depth of 2 or more, and a rank of at m"),
        (lambda: config(Paper(coupling_rank=1), depth=1), "coupling_rank=1: it joins neighbouring"),
        (lambda: config(Paper(), cells=(Paper(coupling_rank=1), Rotor())), "leave it out of a mixed"),
        (lambda: Rotor(order=17), "order=17: out of range: write 2 to 16"),
        (lambda: config(Rotor(order=3), decoder="phase"), "decoder='phase': it does not read stat"),
        (lambda: config(Router(places=4)), "places=4: does not divide the width, 6, into groups"),
        (lambda: config(Paper(), cells=(Counter(), Router(places=4))), "places=4: does not divide"),
        (lambda: config(Paper(), cells=Rotor()), "write a list; one cell for all layers"),
        (lambda: configure("parity", cells=5), "write a list; one cell for all layers"),
        (lambda: config(Router(maps=-1)), "maps=-1: out of range: write 0 to"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(wrong: Callable[[], Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        wrong()


def test_a_configuration_is_frozen_and_the_printed_model_by_default() -> None:
    made = CSPConfig(vocab_size=2, num_classes=2)
    assert (made.width, made.depth, made.decoder, made.layers) == (64, 3, "cos_sin", (Paper(),) * 3)
    assert (Paper().rotate, Paper().decay, Paper().norm) == ("input", "softplus", "complex")
    with pytest.raises(AttributeError):
        made.width = 3  # pyright: ignore


@settings(max_examples=100)
@given(config=configs())
def test_a_configuration_survives_json(config: CSPConfig) -> None:
    values = json.loads(json.dumps(config.to_json()))
    assert CSPConfig.from_json(values) == config
    assert len(values["cells"]) == config.depth == len(config.layers)
    assert [block.cell for block in CSP(config).layers] == list(config.layers)
    smallest = values | {"cells": [{"kind": each.kind} | find_changes(each) for each in config.layers]}
    assert CSPConfig.from_json(smallest) == config


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"widht": 3}, "'widht' is not an option of a model: it has vocab_size, num_classes, width"),
        ({"depth": 3}, "`cells` has 2 entries, but depth is 3"),
        ({"depth": 2.0}, "`cells` has 2 entries, but depth is 2.0"),
        ({"cells": "rotor"}, "a model needs `cells`, a list with one entry for each layer"),
        ({"cells": [{"kind": "wheel"}] * 2}, "there is no cell of the kind 'wheel': choose from paper"),
        ({"cells": [{}] * 2}, "there is no cell of the kind None: choose from paper, rotor"),
        ({"cells": [{"kind": "lost.module:Mine"}] * 2}, "import lost.module first"),
        (
            {"cells": [{"kind": "rotor", "decay": "exp"}] * 2},
            "'decay' is not an option of Rotor: it has order, skip, recall",
        ),
        (
            {"cells": [{"kind": "counter", "order": 2}] * 2},
            "'order' is not an option of Counter: it has no options",
        ),
        ({"cells": [{"kind": "rotor", "order": "3"}] * 2}, "order='3': does not fit: write a whole"),
        (
            {"cells": [{"kind": "rotor", "order": 3}, {"kind": "switch"}]},
            "the cells of one model must have states of the same order",
        ),
    ],
)  # fmt: skip
def test_damaged_json_is_refused_in_one_sentence(change: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError) as refusal:
        CSPConfig.from_json(SAVED | change)
    assert sentence in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("name", ["vocab_size", "num_classes", "width", "depth", "decoder", "cells"])
def test_a_field_that_is_missing_is_named(name: str) -> None:
    with pytest.raises(InputError, match=f"a model needs .{name}"):
        CSPConfig.from_json({key: value for key, value in SAVED.items() if key != name})


def test_an_option_that_is_added_changes_no_digest() -> None:
    added = [("speed", int, field(default=1))]
    wider = make_dataclass("Rotor", added, bases=(Rotor,), frozen=True, kw_only=True)
    wider.kind = "rotor"
    for options in ({}, {"recall": True, "order": 3}):
        before, after = config(Rotor(**options)), config(wider(**options))
        assert after.to_digest() == before.to_digest()
        assert "speed" in str(config(wider(**options, speed=2)).to_digest())
    digests = {str(config(cell).to_digest()) for cell in vary().values()}
    assert len(digests) == len(vary())
    assert config(Rotor()).to_digest() != config(Rotor(), depth=3).to_digest()


@pytest.mark.parametrize(
    ("preset", "changes", "cells"),
    [
        ("rotor", {"order": 3, "recall": True}, [Rotor(order=3, recall=True, parts=64)]),
        ("rotor", {"skip": False, "depth": 2}, [Rotor(skip=False, parts=64)] * 2),
        ("paper", {"rotate": "state", "lr": 0.5}, [Paper(rotate="state")] * 3),
        ("router", {"maps": 4, "places": 8}, [Router(maps=4, places=8)]),
        ("counter", {"width": 8}, [Counter(), Switch()]),
        ("counter", {"cell": Rotor(), "depth": 3}, [Rotor()] * 3),
        ("rotor", {"cells": [Counter(), Switch()]}, [Counter(), Switch()]),
        ("paper", {"cell": Rotor(), "order": 4}, [Rotor(order=4)] * 3),
    ],
)
def test_options_reach_the_cell_of_a_preset(
    preset: str, changes: dict[str, Any], cells: list[Cell]
) -> None:
    changes = {"decoder": "linear"} | changes
    made = configure("parity", preset, **changes)
    assert list(made.model.layers) == cells
    assert made.recipe.lr == changes.get("lr", made.recipe.lr)


@pytest.mark.parametrize(
    ("preset", "changes", "sentence"),
    [
        ("rotor", {"places": 4}, "places is an option of the cell router; the preset rotor has rotor"),
        ("paper", {"recall": True}, "recall is an option of the cell rotor; the preset paper has"),
        ("counter", {"skip": False}, "skip is an option of the cell paper or rotor; the preset"),
        ("counter", {"depth": 3}, "the preset counter has 2 layers: leave out depth"),
        ("rotor", {"ordre": 3}, "'ordre' is not an option: "),
        ("rotor", {"cell": "rotor"}, "'rotor' is not a cell: write one such as csprop.Paper()"),
    ],
)  # fmt: skip
def test_options_of_other_cells_are_refused(
    preset: str, changes: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(InputError) as refusal:
        configure("parity", preset, **changes)
    assert sentence in str(refusal.value)


@dataclass(frozen=True, kw_only=True)
class Leaky(Cell):
    """A complex state that forgets at a learned rate: the cell of one's own that the guide shows."""

    rate: float = 0.9

    def make(self, shape: Shape, generator: Generator) -> "LeakyBlock":
        return LeakyBlock(self, shape, generator)


class LeakyBlock(Block):
    def __init__(self, cell: Leaky, shape: Shape, generator: Generator) -> None:
        super().__init__(cell, shape, generator)
        self.turns = nn.Parameter(torch.randn(shape.width, generator=generator))
        self.rate = cell.rate

    def transition(self, z: Tensor) -> tuple[Tensor, Tensor]:
        angle = self.turns * z[:, :, 0]
        return self.rate * torch.stack([angle.cos(), angle.sin()], dim=2), z


def train(cell: Cell, backend: str) -> dict[str, Tensor]:
    with use_backend(backend):
        run = csprop.train("parity", cell=cell, epochs=2, samples=32, length=4, width=4)
    return run.model.state_dict()


def test_a_cell_of_ones_own_trains_alike_on_every_backend(tmp_path: Any) -> None:
    first, *others = (train(Leaky(rate=0.8), backend) for backend in BACKENDS)
    for other in others:
        torch.testing.assert_close(other, first, rtol=1e-4, atol=1e-5)
    assert not torch.equal(first["embedding"], train(Leaky(), "native")["embedding"])
    run = csprop.train(
        "parity", cell=Leaky(rate=0.8), epochs=1, samples=32, length=4, out=tmp_path / "run"
    )
    again = csprop.load(tmp_path / "run")
    assert again.model.config.cell == Leaky(rate=0.8)
    tokens = torch.tensor([[0, 1, 1, 0]])
    assert torch.equal(again.model(tokens), run.model(tokens))
    with pytest.raises(InputError, match=r"the cell .*:Leaky cannot be certified: the verifier knows"):
        again.certify(progress=False)


@dataclass(frozen=True, kw_only=True)
class Tagged(Leaky):
    """A cell with options of other types."""

    name: str = "a"
    sizes: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        check_types(self)


def test_a_cell_with_texts_and_lists_survives_json() -> None:
    made = config(Tagged(name="b", sizes=(1, 2)))
    again = CSPConfig.from_json(json.loads(json.dumps(made.to_json())))
    assert again == made
    assert CSP(again).layers[0].cell == made.cell
    with pytest.raises(InputError, match="name=3: does not fit: write a text"):
        Tagged(name=3)  # pyright: ignore


def distance(one: Tensor, two: Tensor) -> float:
    return float((one - two).abs().max())


def changed(block: type[Block], method: str) -> type[Block]:
    """Return a subclass whose method returns twice as much, or half of it where that would grow."""

    def override(self: Any, *given: Any) -> Any:
        value = getattr(super(made, self), method)(*given)
        return tuple(each / 2 for each in value) if isinstance(value, tuple) else 2 * value

    made = type(f"Changed{block.__name__}", (block,), {method: override})
    return made


def cell_of(block: type[Block], base: Cell) -> Cell:
    """Return a cell that makes blocks of this class."""

    def make(self: Cell, shape: Shape, generator: Generator) -> Block:
        return block(self, shape, generator)  # pyright: ignore[reportArgumentType]

    mine = dataclass(frozen=True, kw_only=True)(type("Mine", (type(base),), {"make": make}))
    return mine(**vars(base))


OVERRIDES = {
    "theta of paper": (PaperBlock, "theta", Paper()),
    "decay of paper": (PaperBlock, "decay", Paper()),
    "transition of paper": (PaperBlock, "transition", Paper()),
    "finish of paper": (PaperBlock, "finish", Paper(norm="none", decay="exp")),
    "theta of rotor": (RotorBlock, "theta", Rotor()),
    "finish of rotor": (RotorBlock, "finish", Rotor()),
    "finish of one's own": (LeakyBlock, "finish", Leaky()),
    "transition of one's own": (LeakyBlock, "transition", Leaky()),
}


@pytest.mark.parametrize("name", OVERRIDES)
def test_a_variant_of_a_block_is_never_ignored(name: str) -> None:
    """Forward, in single steps and while training, as the reference backend has it."""
    block, method, base = OVERRIDES[name]
    mine = cell_of(changed(block, method), base)
    plain, variant = (CSP(config(cell), Generator().manual_seed(0)) for cell in (base, mine))
    tokens = torch.tensor([[0, 1, 2, 2, 1, 0]])
    with use_backend("reference"):
        expected = variant(tokens)[0]
    for backend in BACKENDS:
        with use_backend(backend), torch.no_grad():
            stream = variant.stream()
            steps = torch.stack([stream.step(int(token)) for token in tokens[0]])
            torch.testing.assert_close([variant(tokens)[0], steps], [expected] * 2)
            assert not torch.allclose(plain(tokens)[0], expected)
    want, got, without = train(mine, "torch"), train(mine, "native"), train(base, "native")
    near, far = (distance(got["embedding"], each["embedding"]) for each in (want, without))
    assert near < far / 10


def test_the_advance_of_a_variant_is_used_in_single_steps() -> None:
    variant = CSP(config(cell_of(changed(RotorBlock, "advance"), Rotor())))
    with use_backend("native"):
        state, _ = variant.step(variant.initial_state(), torch.tensor([1]))
    assert state[0, 0].square().sum(dim=0).min() > 3.9  # the square of a radius of 2


@pytest.mark.parametrize("method", ["theta", "finish"])
@pytest.mark.parametrize("of_class", [False, True])
def test_a_method_that_was_replaced_is_never_ignored(
    method: str, of_class: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The method of one block, or of all blocks of a class."""
    net, tokens = CSP(config(Rotor())), torch.tensor([[0, 1, 2, 1]])
    block = RotorBlock if of_class else net.layers[1]
    own, plain = getattr(block, method), net(tokens)
    monkeypatch.setattr(block, method, lambda *given: 2 * own(*given))
    with use_backend("reference"):
        want = net(tokens)
    with use_backend("native"):
        torch.testing.assert_close(net(tokens), want)
    assert not torch.allclose(want, plain)


def test_a_part_of_the_first_layer_that_looks_at_all_steps_is_never_ignored() -> None:
    """The transition is not looked up by token then."""

    class Average(nn.Linear):
        def forward(self, input: Tensor) -> Tensor:
            return super().forward(input.mean(dim=1, keepdim=True).expand_as(input))

    net, tokens = CSP(config(Paper())), torch.tensor([[0, 1, 2, 1]])
    block: Any = net.layers[0]
    block.gate.__class__ = Average
    with use_backend("torch"):
        z, _ = block(net.embedding[tokens], net.initial_state()[:, 0])
        want = net.decoder(net.layers[1](z, net.initial_state()[:, 1])[0])
        torch.testing.assert_close(net(tokens), want)


def test_a_start_of_another_type_is_not_read_by_the_kernel() -> None:
    """Loading float64 weights by assignment leaves the constant h_0 in float32."""
    net, tokens = CSP(config(Paper())), torch.tensor([[0, 1, 2, 1]])
    net.load_state_dict({name: each.double() for name, each in net.state_dict().items()}, assign=True)
    with use_backend("torch"):
        want = net(tokens)
    assert torch.allclose(net(tokens), want)
    assert "not contiguous CPU tensors of one type" in unreadable(net)


def test_layers_of_features_refuse_what_they_would_ignore() -> None:
    with pytest.raises(InputError, match="has no coupling"):
        csprop.CSPLayer(8, kind=Paper(coupling_rank=4), depth=2)
    with pytest.raises(InputError, match="places=3: does not divide the width, 8"):
        csprop.CSPLayer(8, kind="router", places=3)
    with pytest.raises(InputError, match="leave out cell and depth"):
        configure("parity", cells=[Counter(), Switch()], depth=7)


def test_a_subclass_of_a_built_in_cell_makes_its_block() -> None:
    class Quiet(Rotor):
        pass

    model = CSP(CSPConfig(vocab_size=2, num_classes=2, width=4, cell=Quiet(order=3)))
    assert {type(block) for block in model.blocks} == {RotorBlock}
