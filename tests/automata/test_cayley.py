"""Machines that are groups, in space: the solids that their Cayley graphs are."""

import itertools

import numpy as np
import pytest
from numpy.typing import NDArray

from csprop import tasks
from csprop.automata.cayley import cayley
from csprop.automata.machine import Machine
from csprop.automata.walk import Oracle
from csprop.tasks.group import after, cycles

Points = NDArray[np.float64]


def group(*generators: str, degree: int = 5) -> Machine:
    """Return the machine of the group that some permutations generate."""
    tokens = [cycles(each, degree) for each in generators]
    numbers: dict[tuple[int, ...], int] = {}
    return Machine.explore(
        Oracle(
            len(tokens),
            tuple(range(degree)),
            lambda state, token: after(tokens[token], state),
            lambda state: numbers.setdefault(state, len(numbers)),
        )
    )


def lengths(places: Points, table: NDArray[np.int64], token: int) -> Points:
    return np.linalg.norm(places - places[table[:, token]], axis=1)


def loops(table: NDArray[np.int64], *word: int) -> set[frozenset[int]]:
    """Return the faces around which a word leads, again and again; each is a set of states."""
    found = set()
    for start in range(len(table)):
        state, seen = start, []
        for token in itertools.cycle(word):
            seen.append(state)
            state = int(table[state, token])
            if state == start and len(seen) % len(word) == 0:
                break
        found.add(frozenset(seen))
    return found


def on_the_hull(places: Points, face: frozenset[int]) -> bool:
    """Return True if some states lie in a plane that has all others on one side."""
    corners = places[sorted(face)]
    normal = np.linalg.svd(corners - corners.mean(axis=0))[2][-1]
    heights = (places - corners.mean(axis=0)) @ normal
    inside = np.delete(heights, sorted(face))
    flat = np.abs(heights[sorted(face)]).max() < 1e-6
    return bool(flat and (inside.max() < -1e-3 or inside.min() > 1e-3))


def test_a5_with_a_swap_of_pairs_and_a_turn_of_five_is_the_football() -> None:
    machine = group("(01)(23)", "(01234)")
    table, found = np.array(machine.transitions), cayley(machine)
    assert found is not None
    assert (found.shape, found.tokens) == ("ball", (0, 1))
    np.testing.assert_allclose(np.linalg.norm(found.places, axis=1), 1, atol=1e-9)
    edges = np.concatenate([lengths(found.places, table, token) for token in (0, 1)])
    np.testing.assert_allclose(edges, 1 / np.sqrt((29 + 9 * np.sqrt(5)) / 8), atol=1e-6)
    pentagons, hexagons = loops(table, 1), loops(table, 0, 1)
    assert sorted(map(len, pentagons)) == [5] * 12
    assert sorted(map(len, hexagons)) == [6] * 20
    assert all(on_the_hull(found.places, face) for face in pentagons | hexagons)


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("group-S3", "solid"),
        ("group-A4", "solid"),
        ("group-S4", "solid"),
        ("group-A5", "ball"),
        ("group-A5-all", "ball"),
        ("group-C60", "circle"),
        ("mod7-residue", "circle"),
    ],
)
def test_every_group_has_a_place_for_each_element(name: str, shape: str) -> None:
    machine = tasks.get(name).machine
    table, found = np.array(machine.transitions), cayley(machine)
    assert found is not None
    assert found.shape == shape
    gaps = np.linalg.norm(found.places[:, None] - found.places[None], axis=2)
    assert gaps[~np.eye(len(gaps), dtype=bool)].min() > 0.09, "no two states coincide"
    assert np.linalg.norm(found.places, axis=1).round(6).tolist() == [1] * len(table)
    for token in found.tokens:
        assert np.ptp(lengths(found.places, table, token)) < 1e-6


def test_of_many_tokens_two_are_drawn_that_reach_every_state() -> None:
    machine = tasks.get("group-A5-all").machine
    found = cayley(machine)
    assert found is not None
    assert len(found.tokens) == 2
    table = np.array(machine.transitions)[:, found.tokens]
    assert sorted(map(len, loops(table, 1))) == [5] * 12, "it is the football, too"
    reached = {0}
    for _ in range(60):
        reached |= {int(there) for state in reached for there in table[state]}
    assert len(reached) == 60


@pytest.mark.parametrize("name", ["tomita-4", "mod3-reset", "flip-flop", "parity", "group-S5"])
def test_other_machines_have_no_solid(name: str) -> None:
    assert cayley(tasks.get(name).machine) is None


def test_permutations_that_fix_a_state_are_no_group_of_states() -> None:
    swap, turn = (1, 0, 2), (1, 2, 0)  # six permutations of three states
    machine = Machine(transitions=tuple(zip(swap, turn, strict=True)), outputs=(0, 1, 2), start=0)
    assert cayley(machine) is None


def test_groups_of_every_kind_have_a_place_for_each_state_or_none() -> None:
    """With many tokens or few, and where no three eigenvectors go together."""
    pairs = [f"({a}{b})" for a, b in ((0, 1), (2, 3), (4, 5), (6, 7))]
    some = {
        "C3 x C3": group("(012)", "(021)", "(345)", "(354)", degree=6),
        "C2^4, all": group(
            *("".join(each) for n in range(1, 5) for each in itertools.combinations(pairs, n)), degree=8
        ),
        "D4": group("(0123)", "(02)", degree=4),
        "S3 x S3, all": tasks.get("group-S3xS3-all").machine,
    }
    for name, machine in some.items():
        found = cayley(machine)
        assert found is None or np.isfinite(found.places).all(), name
