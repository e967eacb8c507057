"""Pictures of groups: solids where they have many states, labelled arrows where they have few."""

from pathlib import Path

import pytest
from matplotlib.colors import to_hex

from csprop import tasks
from csprop.automata import solids
from csprop.automata.automaton import Automaton
from csprop.automata.cayley import cayley
from csprop.automata.drawing import draw


def automaton(name: str) -> Automaton:
    task = tasks.get(name)
    return Automaton.from_machine(task.machine, task.vocab, task.classes, task.words)


@pytest.mark.parametrize(("name", "faces"), [("group-A5", 20 + 12), ("group-S4", 8), ("group-S5", 0)])
def test_a_solid_has_a_dot_for_each_state_and_an_edge_for_each_move(name: str, faces: int) -> None:
    machine = automaton(name)
    solid = cayley(machine)
    assert solid is not None
    (axes,) = solids.figure(machine, solid).axes
    colours = [to_hex(dot.get_facecolor()[0]) for dot in axes.collections]
    assert colours.count("#1d2329") == len(machine) - 1
    assert colours.count("#e69f00") == 1, "the start"
    assert len(axes.lines) == 2 * len(machine)
    assert len(axes.patches) == faces
    assert [each.get_text() for each in axes.get_legend().get_texts()] == ["a", "b"]
    across = [abs(value) for dot in axes.collections for value in dot.get_offsets()[0]]
    assert max(across) <= 1


@pytest.mark.parametrize(
    ("name", "solid"), [("group-S4", True), ("group-A4", False), ("nested-3", False)]
)
def test_many_states_of_a_group_are_drawn_as_a_solid(
    name: str, solid: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[Automaton] = []
    figure = solids.figure
    monkeypatch.setattr(solids, "figure", lambda *given: (drawn.append(given[0]), figure(*given))[1])
    draw(automaton(name), tmp_path / "one.png")
    assert (tmp_path / "one.png").stat().st_size > 5000
    assert len(drawn) == solid
