"""Packed rows against lists of lists, and the split against a plain one, row by row."""

from typing import Any, Literal

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import Generator

from csprop.automata.machine import Machine
from csprop.data.examples import UNLABELLED, WINDOW, Examples, Steps
from csprop.data.splits import HELD_OUT, split
from csprop.data.summary import find_disagreements
from csprop.errors import InputError
from csprop.tasks.rows import from_rows

Rows = list[list[tuple[int, int]]]
"""Tokens and labels; UNLABELLED only before the last step."""


@st.composite
def drawn(draw: st.DrawFn, longest: int = 12, symbols: int = 3) -> Rows:
    steps = st.tuples(st.integers(0, symbols - 1), st.integers(UNLABELLED, 2))
    row = st.tuples(
        st.lists(steps, max_size=longest - 1), st.integers(0, symbols - 1), st.integers(0, 2)
    ).map(lambda each: [*each[0], each[1:]])
    rows = draw(st.lists(row, min_size=1, max_size=12))
    return rows + draw(st.lists(st.sampled_from(rows), max_size=4))


def pack(tokens: Any, labels: Any, lengths: Any) -> Examples:
    return Examples(tokens, labels, labels >= 0, lengths.cumsum() - lengths, lengths)


def packed(rows: Rows) -> Examples:
    tokens, labels = np.array([step for row in rows for step in row]).T
    lengths = np.array([len(row) for row in rows])
    return pack(tokens.astype(np.uint8), labels.astype(np.int8), lengths)


def unpadded(steps: Steps) -> Rows:
    rows = []
    for tokens, labels, answers, length in zip(*(each.tolist() for each in steps), strict=True):
        rest = zip(tokens[length:], labels[length:], answers[length:], strict=True)
        assert set(rest) <= {(0, UNLABELLED, False)}
        assert answers[:length] == [label >= 0 for label in labels[:length]]
        rows.append(list(zip(tokens[:length], labels[:length], strict=True)))
    return rows


@given(drawn(), st.data())
def test_any_rows_in_any_order_are_padded_to_their_longest(rows: Rows, data: st.DataObject) -> None:
    chosen = data.draw(st.lists(st.integers(0, len(rows) - 1), min_size=1, max_size=9))
    kind = data.draw(st.sampled_from((torch.tensor, np.array)))
    some = packed(rows)[kind(chosen)]
    wanted = [rows[i] for i in chosen]
    steps = some.padded()
    assert unpadded(steps) == wanted
    assert steps.tokens.shape == (len(chosen), max(map(len, wanted)))
    assert steps.tokens.dtype == steps.labels.dtype == torch.int64
    assert some.last.tolist() == [row[-1][1] for row in wanted]
    assert some.longest == steps.tokens.shape[1]


@given(drawn())
def test_matrices_are_packed_by_their_last_answers(rows: Rows) -> None:
    steps = packed(rows).padded()
    again = Examples.from_matrices(
        steps.tokens + (steps.labels == UNLABELLED), steps.labels, steps.answers
    )
    assert again.lengths.tolist() == [len(row) for row in rows]
    assert again.labels.tolist() == steps.labels.tolist()


@given(drawn(), st.integers(1, 40))
def test_windows_are_all_rows_in_order_and_small(rows: Rows, most: int) -> None:
    windows = list(packed(rows).windows(most))
    assert [row for window in windows for row in unpadded(window)] == rows
    for window, following in zip(windows, [*windows[1:], None], strict=True):
        count, longest = window.tokens.shape
        assert count * longest <= most or count == 1
        if following is not None:  # one more row would have been too many
            assert (count + 1) * max(longest, int(following.lengths[0])) > most


@given(drawn(longest=200), st.integers(0, 300))
def test_parts_hold_every_row_once_and_little_padding(rows: Rows, most: int) -> None:
    whole = packed(rows)
    parts = whole.parts(most)
    found = sorted(row for part in parts for row in unpadded(part.padded()))
    assert found == sorted(rows)
    sizes = [(len(part) * part.longest, int(part.lengths.sum())) for part in parts]
    if len(rows) * whole.longest <= max(most, 4 * int(whole.lengths.sum())):
        assert len(parts) == 1
    else:
        assert all(padded < 2 * tokens for padded, tokens in sizes)


@given(drawn(longest=100))
def test_sequences_are_numbered_in_lexicographic_order(rows: Rows) -> None:
    sequences = [tuple(token for token, _ in row) for row in rows]
    numbers = {sequence: number for number, sequence in enumerate(sorted(set(sequences)))}
    assert packed(rows).same.tolist() == [numbers[each] for each in sequences]


@pytest.mark.parametrize("symbols", [1, 2, 255, 70_000])
@pytest.mark.parametrize("length", [1, 31, 32, 33, 63, 64, 200])
def test_beginnings_and_repetitions_are_told_apart(symbols: int, length: int) -> None:
    """Rows that agree for a long time, some of which end where others go on."""
    last = symbols - 1
    rows = [[last] * n for n in range(1, length + 1)]
    rows += [[last] * length + [0], [0] * length, [last] * length, [last] * (length - 1) + [0]]
    sequences = [tuple(row) for row in reversed(rows)]
    numbers = {sequence: number for number, sequence in enumerate(sorted(set(sequences)))}
    flat = np.array([token for row in sequences for token in row], np.int32)
    examples = pack(flat, flat, np.array([len(row) for row in sequences]))
    assert examples.same.tolist() == [numbers[each] for each in sequences]


def test_one_long_row_among_thousands_needs_no_matrix_of_all() -> None:
    """A matrix of all rows would have 10^11 entries; no part of the work may make one."""
    lengths = np.ones(500_000, np.int64)
    lengths[1000] = 200_000
    flat = np.zeros(lengths.sum(), np.uint8)
    examples = pack(flat, flat.astype(np.int8), lengths)
    assert sum(len(window.tokens) for window in examples.windows(1 << 16)) == 500_000
    assert sorted(len(part) for part in examples.parts(1 << 16)) == [1, 499_999]
    assert int(examples.same.max()) == 1


@pytest.mark.parametrize("every", [False, True])
def test_disagreements_are_those_of_a_loop_over_every_token(every: bool) -> None:
    draw = np.random.default_rng(5)
    machine = Machine(transitions=((1, 2), (2, 0), (1, 1)), outputs=(0, 1, 2))
    expected, sequences, labels = [], [], []
    for row, length in enumerate(draw.integers(1, 90, 2000).tolist()):
        tokens = draw.integers(0, 2, length).tolist()
        given = draw.integers(0, 3, length).tolist()
        state, wrong = 0, []
        for step, (token, label) in enumerate(zip(tokens, given, strict=True)):
            state = machine.transitions[state][token]
            if (every or step == length - 1) and machine.outputs[state] != label:
                wrong.append((row, step, machine.outputs[state]))
        expected += wrong[:1]
        sequences.append("".join(map(str, tokens)))
        labels.append(given if every else given[-1])
    task = from_rows(sequences, labels)
    assert sum(map(len, sequences)) > WINDOW  # more than one window
    assert list(find_disagreements(machine, task.data)) == expected
    assert 1000 < len(expected) < 2000


# The split.


Row = tuple[str, int]


def by_hand(rows: list[Row], how: str, generator: Generator) -> list[bool]:
    """Which rows are held out, with dictionaries and loops."""
    names = [sequence if how == "disjoint" else i for i, (sequence, _) in enumerate(rows)]
    kinds = sorted(set(names), key=names.index) if how == "paper" else sorted(set(names))  # pyright: ignore
    count = {name: names.count(name) for name in kinds}
    label = {name: rows[names.index(name)][1] for name in kinds}
    held, seen, wanted = set(), 0, 0
    for each in sorted(set(label.values())):
        members = [name for name in kinds if label[name] == each]
        seen += sum(count[name] for name in members)
        share = round(HELD_OUT * seen) - wanted
        wanted += share
        shuffled = [members[i] for i in torch.randperm(len(members), generator=generator).tolist()]
        for name in shuffled:
            if count[name] <= share:
                held.add(name)
                share -= count[name]
        if len(members) > 1 and not held & set(members):
            held.add(shuffled[0])
    return [name in held for name in names]


@given(
    st.lists(
        st.tuples(st.text("01", min_size=1, max_size=4), st.integers(0, 2)), min_size=2, max_size=60
    ),
    st.sampled_from(["disjoint", "paper"]),
    st.integers(0, 3),
)
def test_a_split_is_what_a_plain_loop_makes(
    rows: list[Row], how: Literal["disjoint", "paper"], seed: int
) -> None:
    """Also for a sequence that occurs with different labels."""
    assume(len({label for _, label in rows}) > 1)
    data = from_rows([sequence for sequence, _ in rows], [label for _, label in rows]).data
    wanted = by_hand(rows, how, Generator().manual_seed(seed))
    try:
        training, held_out = split(data, how, Generator().manual_seed(seed))
    except InputError:
        assert len(set(wanted)) == 1
        return
    begins = data.begins.tolist()
    assert held_out.begins.tolist() == [at for at, held in zip(begins, wanted, strict=True) if held]
    assert training.begins.tolist() == [at for at, held in zip(begins, wanted, strict=True) if not held]
