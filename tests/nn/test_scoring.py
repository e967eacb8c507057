"""The scores that the kernel gives, of rows and after every sequence of a length, against a batch."""

import dataclasses
import itertools
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Generator, Tensor, nn

from csprop import CSP, CSPConfig, tasks, use_backend
from csprop.errors import InputError
from csprop.nn.scoring import every_score, row_scores
from csprop.ops import native
from csprop.ops.native import scoring, step
from csprop.tasks.base import every_sequence
from csprop.training.config import configure
from csprop.training.presets import preset
from tests.helpers.options import RELEASED, choices, sensible
from tests.helpers.plain import passes_with_the_plain_kernel

pytestmark = pytest.mark.skipif(bool(native.WHY_NOT), reason=native.WHY_NOT)

Options = dict[str, Any]
PRESET = {
    f"{name} of {task}": dataclasses.asdict(preset(name, tasks.get(task)).model)
    for name, task in (
        ("paper", "parity"), ("rotor", "parity"), ("rotor", "group-A5"), ("rotor", "parenthesis"),
        ("router", "parity"), ("counter", "parenthesis"),
    )
}  # fmt: skip
CLASSES = 3


def model(vocabulary: int, **options: Any) -> CSP:
    """A model in float64 with gates that keep and gates that replace, and nothing at its default."""
    config = CSPConfig(vocab_size=vocabulary, num_classes=CLASSES, **options)
    generator = Generator().manual_seed(3)
    net = CSP(config, generator).double()
    with torch.no_grad():
        for name, parameter in net.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            replaced = name.endswith("gate.bias") and net.layers[0].options.replaces
            parameter.copy_(2 * noise) if replaced else parameter.add_(0.3 * noise)
    return net.eval()


@torch.no_grad()
def by_batch(net: CSP, symbols: int, length: int) -> Tensor:
    """The last scores of a plain loop over the time, for all sequences in their lexicographic order."""
    sequences = torch.tensor(list(itertools.product(range(symbols), repeat=length)))
    with use_backend("reference"):
        return net(sequences)[:, -1]


def agree(net: CSP, symbols: int, length: int) -> None:
    got = every_score(net, symbols, length)
    assert got is not None
    torch.testing.assert_close(got, by_batch(net, symbols, length), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("symbols", [1, 2, 3])
@pytest.mark.parametrize("name", PRESET)
def test_presets_agree_with_a_batch_at_every_length(name: str, symbols: int) -> None:
    net = model(3, **PRESET[name] | {"width": 9})
    for length in range(1, {1: 20, 2: 10, 3: 6}[symbols] + 1):
        agree(net, symbols, length)


@pytest.mark.parametrize("name", ["paper of parity", "router of parity", "rotor of group-A5"])
@pytest.mark.parametrize(
    ("symbols", "length"), [(15, 1), (16, 2), (17, 2), (33, 2), (257, 1), (300, 1), (7, 4)]
)
def test_large_vocabularies_agree_with_a_batch(name: str, symbols: int, length: int) -> None:
    """Blocks have 16 prefixes, and subtrees begin where there are 256."""
    options = PRESET[name] | {"width": 3, "depth": 1, "places": 3 if "router" in name else 0}
    agree(model(symbols, **options), symbols, length)


@pytest.mark.parametrize(
    "fixed", [{}, {"kinds": (), "places": 0}, {"kinds": (), "places": 3}, RELEASED]
)
@settings(max_examples=60)
@given(
    options=st.fixed_dictionaries({name: st.sampled_from(each) for name, each in choices().items()}),
    size=st.sampled_from([(1, 1), (3, 1), (2, 5), (2, 9), (3, 4), (4, 3), (5, 2)]),
)
def test_any_combination_of_options_agrees_with_a_batch(
    fixed: Options, options: Options, size: tuple[int, int]
) -> None:
    agree(model(5, **sensible(options | fixed)), *size)


@pytest.mark.parametrize("name", [name for name in PRESET if "router" not in name])
def test_a_model_in_training_gives_the_same(name: str) -> None:
    net = model(2, **PRESET[name] | {"width": 9})
    agree(net.train(), 2, 5)


@pytest.mark.parametrize("options", [{}, {"rotate": "state"}, {"norm": "layer", "decoder": "linear"}])
def test_saturated_states_agree_with_a_batch(options: Options) -> None:
    """Gates of softplus(10^6): states pass 2^60 within a few steps."""
    net = model(2, **{"width": 5, "depth": 2} | options)
    with torch.no_grad():
        for block in net.layers:
            block.gate.bias.fill_(1e6)
    _, last = net(torch.zeros(1, 8, dtype=torch.int64), return_state=True)
    assert torch.linalg.vector_norm(last, dim=2).max().item() > 2.0**59
    agree(net, 2, 8)


@pytest.mark.parametrize("token", [0, 1])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_counts_that_are_not_exact_are_refused(dtype: torch.dtype, token: int) -> None:
    """Only one sequence counts as far, the first or the last of all."""
    net = model(2, **PRESET["counter of parenthesis"]).to(dtype)
    limit = 2 ** (24 if dtype is torch.float32 else 53)
    for more, refused in ((0, False), (1, True)):
        with torch.no_grad():
            net.embedding[:, 0] = 0
            net.embedding[token, 0] = limit // 10 + more
        if not refused:
            assert every_score(net, 2, 10) is not None
            continue
        with pytest.raises(InputError, match=f"holds whole numbers up to ±{limit:,}"):
            every_score(net, 2, 10)


@pytest.mark.parametrize("name", PRESET)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_scores_are_the_same_bits_with_any_number_of_threads(name: str, dtype: torch.dtype) -> None:
    net, found = model(3, **PRESET[name]).to(dtype), []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        try:
            found.append(every_score(net, 3, 8))
        finally:
            torch.set_num_threads(1)
    assert all(torch.equal(found[0], other) for other in found[1:])


@pytest.mark.parametrize("name", PRESET)
def test_float32_is_near_float64(name: str) -> None:
    net = model(2, **PRESET[name])
    wide, narrow = every_score(net, 2, 10), every_score(net.float(), 2, 10)
    assert narrow is not None
    assert wide is not None
    assert narrow.dtype is torch.float32
    assert (narrow - wide).abs().median() <= 1e-5


def test_what_the_kernel_does_not_know_is_left_to_a_batch() -> None:
    assert every_score(nn.Linear(2, 2), 2, 3) is None
    assert every_score(model(2, width=4), 3, 2) is None  # a token too many
    with use_backend("torch"):
        assert every_score(model(2, width=4), 2, 3) is None
    watched = model(2, width=4)
    watched.blocks[0].register_forward_hook(lambda *_: None)
    assert every_score(watched, 2, 3) is None
    routing = model(2, **PRESET["router of parity"] | {"width": 9})
    assert every_score(routing.train(), 2, 3) is None  # its maps are soft
    frozen = model(2, width=4)
    agree(frozen.requires_grad_(False), 2, 3)


def test_a_shortage_of_memory_is_an_exception(monkeypatch: pytest.MonkeyPatch) -> None:
    class Full:
        @staticmethod
        def csprop_every(*arguments: Any) -> int:
            return 1

        csprop_scores = csprop_every

    monkeypatch.setattr(scoring, "library", Full)
    with pytest.raises(MemoryError):
        every_score(model(2, width=4), 2, 3)
    with pytest.raises(MemoryError):
        row_scores(model(2, width=4), *rows(2, 1, 1))


def rows(symbols: int, count: int, length: int, share: float = 0.4) -> tuple[Tensor, Tensor]:
    """Tokens, and labels of some steps; a row may have none at all."""
    generator = Generator().manual_seed(count + length)
    tokens = torch.randint(symbols, (count, length), generator=generator)
    labels = torch.randint(CLASSES, (count, length), generator=generator)
    return tokens, labels.where(torch.rand(labels.shape, generator=generator) < share, -1)


def rows_agree(net: CSP, tokens: Tensor, labels: Tensor) -> None:
    got = row_scores(net, tokens, labels)
    assert got is not None
    with use_backend("reference"), torch.no_grad():
        torch.testing.assert_close(got, net(tokens)[labels >= 0], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("share", [0.1, 0.4, 1.0])
@pytest.mark.parametrize("name", PRESET)
def test_rows_agree_with_a_batch_where_they_have_labels(name: str, share: float) -> None:
    net = model(3, **PRESET[name] | {"width": 9})
    for count, length in ((1, 1), (3, 17), (33, 5), (70, 16)):
        rows_agree(net, *rows(3, count, length, share))


@pytest.mark.parametrize("span", [1, 2, 5])
@pytest.mark.parametrize("name", PRESET)
def test_rows_in_pieces_agree_with_a_batch(
    name: str, span: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(step, "SPAN", span)
    for length in (1, 5, 10, 12):
        rows_agree(model(3, **PRESET[name] | {"width": 9}), *rows(3, 7, length))


@pytest.mark.parametrize(
    "fixed", [{}, {"kinds": (), "places": 0}, {"kinds": (), "places": 3}, RELEASED]
)
@settings(max_examples=60)
@given(
    options=st.fixed_dictionaries({name: st.sampled_from(each) for name, each in choices().items()}),
    count=st.integers(1, 20),
    length=st.integers(1, 20),
)
def test_rows_agree_for_any_combination_of_options(
    fixed: Options, options: Options, count: int, length: int
) -> None:
    rows_agree(model(3, **sensible(options | fixed)), *rows(3, count, length))


def test_rows_without_labels_have_no_scores_and_wrong_ones_are_refused() -> None:
    net, (tokens, labels) = model(2, width=4), rows(2, 5, 6)
    empty = row_scores(net, tokens, torch.full_like(labels, -1))
    assert empty is not None
    assert empty.shape == (0, CLASSES)
    for wrong in ((tokens + 1, labels), (tokens, labels + CLASSES), (tokens - 1, labels)):
        with pytest.raises(InputError, match="outside of its range"):
            row_scores(net, *wrong)
    with use_backend("torch"):
        assert row_scores(net, tokens, labels) is None


def test_rows_have_the_same_bits_with_any_number_of_threads() -> None:
    net, found = model(3, **PRESET["paper of parity"]), []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        try:
            found.append(row_scores(net, *rows(3, 500, 40)))
        finally:
            torch.set_num_threads(1)
    assert all(torch.equal(found[0], other) for other in found[1:])


@pytest.mark.slow
def test_the_plain_kernel_gives_the_same() -> None:
    """The tests of presets in a process that does not use the instructions of this processor."""
    passes_with_the_plain_kernel(__file__, test_presets_agree_with_a_batch_at_every_length.__name__)


@pytest.mark.parametrize("name", ["released", "released-fast", "released-first"])
def test_sums_over_time_are_those_of_each_sequence(name: str) -> None:
    net = CSP(configure("parity", name, width=8).model).double().eval()
    found = every_score(net, 2, 7)
    with torch.no_grad(), use_backend("reference"):
        want = net(every_sequence(2, 7))[:, -1]
    assert found is not None
    torch.testing.assert_close(found, want, rtol=1e-9, atol=1e-9)
