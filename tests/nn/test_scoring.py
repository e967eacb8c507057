"""The scores that the kernel gives, of rows and after every sequence of a length, against a batch."""

import itertools
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Generator, Tensor, nn

from csprop import CSP, CSPConfig, Paper, use_backend
from csprop.errors import InputError
from csprop.nn.kernel import every_score, row_scores
from csprop.ops import native
from csprop.ops.native import library
from csprop.ops.native import model as models
from tests.helpers.descent import CELLS, CLASSES
from tests.helpers.options import config, configs
from tests.helpers.options import model as make
from tests.helpers.processor import in_threads, passes_with_the_plain_kernel

pytestmark = pytest.mark.skipif(bool(native.WHY_NOT), reason=native.WHY_NOT)


def model(name: str, vocabulary: int = 3, width: int = 9) -> CSP:
    cells = CELLS[name]
    return make(config(cells[0], cells=cells, vocab_size=vocabulary, width=width)).double().eval()


def small() -> CSP:
    return make(config(Paper(), vocab_size=2)).double().eval()


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
@pytest.mark.parametrize("name", CELLS)
def test_every_cell_agrees_with_a_batch_at_every_length(name: str, symbols: int) -> None:
    net = model(name)
    for length in range(1, {1: 20, 2: 10, 3: 6}[symbols] + 1):
        agree(net, symbols, length)


@pytest.mark.parametrize("name", ["paper", "router", "rotor of order 4"])
@pytest.mark.parametrize(
    ("symbols", "length"), [(15, 1), (16, 2), (17, 2), (33, 2), (257, 1), (300, 1), (7, 4)]
)
def test_large_vocabularies_agree_with_a_batch(name: str, symbols: int, length: int) -> None:
    """Blocks have 16 prefixes, and subtrees begin where there are 256."""
    agree(model(name, symbols, width=3), symbols, length)


@settings(max_examples=100)
@given(
    chosen=configs(vocab_size=5),
    size=st.sampled_from([(1, 1), (3, 1), (2, 5), (2, 9), (3, 4), (4, 3), (5, 2)]),
)
def test_any_stack_of_cells_agrees_with_a_batch(chosen: CSPConfig, size: tuple[int, int]) -> None:
    agree(make(chosen).double().eval(), *size)


@pytest.mark.parametrize("name", [name for name in CELLS if name != "router"])
def test_a_model_in_training_gives_the_same(name: str) -> None:
    agree(model(name).train(), 2, 5)


@pytest.mark.parametrize("cell", [Paper(), Paper(rotate="state"), Paper(norm="layer")])
def test_saturated_states_agree_with_a_batch(cell: Paper) -> None:
    """Gates of softplus(10^6): states pass 2^60 within a few steps."""
    net = make(config(cell, vocab_size=2)).double().eval()
    with torch.no_grad():
        for block in net.layers:
            block.gate.bias.fill_(1e6)  # pyright: ignore
    _, last = net(torch.zeros(1, 8, dtype=torch.int64), return_state=True)
    assert torch.linalg.vector_norm(last, dim=2).max().item() > 2.0**59
    agree(net, 2, 8)


@pytest.mark.parametrize("token", [0, 1])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_counts_that_are_not_exact_are_refused(dtype: torch.dtype, token: int) -> None:
    """Only one sequence counts as far, the first or the last of all."""
    net = model("counter and switch", 2).to(dtype)
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


@pytest.mark.parametrize("name", CELLS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_scores_are_the_same_bits_with_any_number_of_threads(name: str, dtype: torch.dtype) -> None:
    net = model(name).to(dtype)
    first, *others = in_threads(lambda: every_score(net, 3, 8))
    assert all(torch.equal(first, other) for other in others)
    first, *others = in_threads(lambda: row_scores(net, *rows(3, 500, 40)))
    assert all(torch.equal(first, other) for other in others)


@pytest.mark.parametrize("name", CELLS)
def test_float32_is_near_float64(name: str) -> None:
    net = model(name)
    wide, narrow = every_score(net, 2, 10), every_score(net.float(), 2, 10)
    assert narrow is not None
    assert wide is not None
    assert narrow.dtype is torch.float32
    assert (narrow - wide).abs().median() <= 1e-5


def test_models_that_the_kernel_does_not_know_are_left_to_a_batch() -> None:
    assert every_score(nn.Linear(2, 2), 2, 3) is None
    assert every_score(small(), 3, 2) is None  # a token too many
    with use_backend("torch"):
        assert every_score(small(), 2, 3) is None
        assert row_scores(small(), *rows(2, 5, 6)) is None
    watched = small()
    watched.blocks[0].register_forward_hook(lambda *_: None)
    assert every_score(watched, 2, 3) is None
    assert every_score(model("router").train(), 2, 3) is None  # its maps are soft
    agree(small().requires_grad_(False), 2, 3)


def test_a_shortage_of_memory_is_an_exception(monkeypatch: pytest.MonkeyPatch) -> None:
    class Full:
        def __getattr__(self, name: str) -> Any:
            return lambda *arguments: 1

    monkeypatch.setattr(library, "_library", Full())
    with pytest.raises(MemoryError):
        every_score(small(), 2, 3)
    with pytest.raises(MemoryError):
        row_scores(small(), *rows(2, 1, 1))


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
@pytest.mark.parametrize("name", CELLS)
def test_rows_agree_with_a_batch_where_they_have_labels(name: str, share: float) -> None:
    for count, length in ((1, 1), (3, 17), (33, 5), (70, 16)):
        rows_agree(model(name), *rows(3, count, length, share))


@pytest.mark.parametrize("span", [1, 2, 5])
@pytest.mark.parametrize("name", CELLS)
def test_rows_in_pieces_agree_with_a_batch(
    name: str, span: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(models, "SPAN", span)
    for length in (1, 5, 10, 12):
        rows_agree(model(name), *rows(3, 7, length))


@settings(max_examples=100)
@given(chosen=configs(), count=st.integers(1, 20), length=st.integers(1, 20))
def test_rows_agree_for_any_stack_of_cells(chosen: CSPConfig, count: int, length: int) -> None:
    rows_agree(make(chosen).double().eval(), *rows(3, count, length))


def test_rows_without_labels_have_no_scores_and_wrong_ones_are_refused() -> None:
    net, (tokens, labels) = small(), rows(2, 5, 6)
    empty = row_scores(net, tokens, torch.full_like(labels, -1))
    assert empty is not None
    assert empty.shape == (0, CLASSES)
    for wrong in ((tokens + 1, labels), (tokens, labels + CLASSES), (tokens - 1, labels)):
        with pytest.raises(InputError, match="outside of its range"):
            row_scores(net, *wrong)


@pytest.mark.slow
def test_the_kernel_for_any_processor_gives_the_same() -> None:
    passes_with_the_plain_kernel(__file__, test_every_cell_agrees_with_a_batch_at_every_length.__name__)
