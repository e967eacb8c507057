"""The split against a plain one, row by row."""

from typing import Literal

import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import Generator

from csprop.data.splits import HELD_OUT, split
from csprop.errors import InputError
from csprop.tasks import from_rows

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
