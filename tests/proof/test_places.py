"""The table of a router repaired by its training rows: machines that were spoiled are found again."""

import random
from typing import Any

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings

import csprop
from csprop import CSP, Automaton, CSPConfig, Router
from csprop.data.examples import UNLABELLED
from csprop.proof.examples import Labelled
from csprop.proof.places import _Repair, is_router, repair
from csprop.tasks import MachineTask
from tests.helpers import machines

Table = list[list[int]]


def network(tokens: int, classes: int, width: int, depth: int = 1, **options: Any) -> CSP:
    """A router that was not trained."""
    config = CSPConfig(
        vocab_size=tokens, num_classes=classes, width=width, depth=depth, cell=Router(**options),
        decoder="linear",
    )  # fmt: skip
    return CSP(config).eval().requires_grad_(False)


def routing(table: Table, outputs: list[int], classes: int) -> CSP:
    """A router that holds a table, with logits as uneven as training leaves them."""
    model = network(len(table[0]), classes, len(table))
    (router,) = model.routers
    for place, row in enumerate(table):
        for token, target in enumerate(row):
            router.maps[token, 0, target, place] = 3.0 + place / 10
    decoder: Any = model.decoder
    decoder.linear.weight.zero_()
    for place, output in enumerate(outputs):
        decoder.linear.weight[output, place] = 5.0
    return model


def table_of(model: CSP) -> Table:
    return model.routers[0].targets().T.tolist()


def missed(table: Table, outputs: list[int], examples: Labelled) -> int:
    """Labels that a table contradicts, one row after the other."""
    count = 0
    for tokens, labels in zip(examples.tokens.tolist(), examples.labels.tolist(), strict=True):
        place = 0
        for token, label in zip(tokens, labels, strict=True):
            place = table[place][token]
            count += label not in (UNLABELLED, outputs[place])
    return count


def reached(table: Table) -> set[int]:
    """The places that some input leads to, and the start."""
    found = {0}
    while (more := found | {there for place in found for there in table[place]}) != found:
        found = more
    return found


def drawn(automaton: Automaton, count: int, length: int, seed: int) -> Labelled:
    task = MachineTask(automaton)
    examples = task.examples(count, length, torch.Generator().manual_seed(seed)).padded()
    return Labelled(examples.tokens, examples.labels)


@settings(max_examples=30)
@given(st.integers(0, 2**31))
def test_no_more_labels_are_missed(seed: int) -> None:
    dice = random.Random(seed)
    places, tokens, classes = dice.randint(2, 7), dice.randint(1, 3), dice.randint(2, 3)
    table = [[dice.randrange(places) for _ in range(tokens)] for _ in range(places)]
    outputs = [dice.randrange(classes) for _ in range(places)]
    size = dice.randint(1, 200), dice.randint(1, 6)
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(-1, classes, size, generator=generator)
    labels[labels < 0] = UNLABELLED
    examples = Labelled(torch.randint(tokens, size, generator=generator), labels)
    model = routing(table, outputs, classes)
    kept = repair(model, examples)
    merged = table_of(model)
    assert missed(merged, outputs, examples) <= missed(table, outputs, examples)
    assert kept.nonzero()[:, 1].tolist() == sorted(reached(merged))


def minimal(states: int, dice: random.Random) -> Automaton:
    """A random machine of three tokens and classes, of which no two states are alike."""
    names = machines.names(3)
    while True:
        rows = tuple(tuple(dice.randrange(states) for _ in range(3)) for _ in range(states))
        outputs = tuple(dice.randrange(3) for _ in range(states))
        found = machines.automaton(names, names, False, 0, rows, outputs).minimal()
        if len(found) == states and found.start == 0:
            return found


def taken(table: Table, tokens: list[int]) -> list[tuple[int, int]]:
    """The moves of a row: the place that is left, and the token."""
    moves, place = [], 0
    for token in tokens:
        moves.append((place, token))
        place = table[place][token]
    return moves


def with_a_bad_copy(
    right: Automaton, examples: Labelled, dice: random.Random
) -> tuple[Table, Labelled]:
    """A machine of 5 states as 11 places, and the rows that do not show what is wrong.

    Place 10 is a third copy of state 1. A single move leads to it, and token 2 leaves it wrongly.
    """
    while True:
        copies = [*right.transitions, *right.transitions]  # place 5 + s is a copy of state s
        table = [[there + 5 * dice.randrange(2) for there in row] for row in copies]
        table.append([(there + (token == 2)) % 5 for token, there in enumerate(right.transitions[1])])
        move = dice.choice([(p, k) for p in range(10) for k in range(3) if table[p][k] % 5 == 1])
        table[move[0]][move[1]] = 10
        moves = [taken(table, tokens) for tokens in examples.tokens.tolist()]
        kept = [number for number, each in enumerate(moves) if (10, 2) not in each]
        if any(move in moves[number] for number in kept):
            return table, Labelled(examples.tokens[kept], examples.labels[kept])


@pytest.mark.parametrize("seed", range(5))
def test_copies_become_one_and_a_mistake_that_no_row_shows_is_gone(seed: int) -> None:
    dice = random.Random(seed)
    right = minimal(5, dice)
    table, examples = with_a_bad_copy(right, drawn(right, 1000, 8, seed), dice)
    outputs = [right.outputs[state] or 0 for state in [*range(5), *range(5), 1]]
    rows, names = tuple(map(tuple, table)), right.vocab
    assert machines.automaton(names, names, False, 0, rows, tuple(outputs)).minimal() != right
    assert not missed(table, outputs, examples)
    model = routing(table, outputs, 3)
    found = csprop.certify(model, MachineTask(right), examples, rounds=0)
    assert found.proven, found.statement
    assert found.automaton == right
    # Nothing may lead to the place of the start: what leads to its copy stays there.
    assert found.document["search"]["channels"] in ([5], [6])
    assert table_of(model) == table  # the model itself is as it was


def spoiled(right: Automaton, examples: Labelled, dice: random.Random, share: float) -> Table:
    """The table with a wrong move, which reaches all states; `share` to `share` + 0.1 labels missed."""
    labels, outputs = examples.labels.numel(), [each or 0 for each in right.outputs]
    while True:
        table = [list(row) for row in right.transitions]
        table[dice.randrange(len(table))][dice.randrange(3)] = dice.randrange(len(table))
        wrong = missed(table, outputs, examples) / labels
        if len(reached(table)) == len(table) and share < wrong <= share + 0.1:
            return table


@pytest.mark.parametrize("seed", range(5))
def test_a_move_that_is_wrong_is_redirected(seed: int) -> None:
    dice = random.Random(seed)
    right = minimal(8, dice)
    examples, outputs = drawn(right, 500, 12, seed), [each or 0 for each in right.outputs]
    lines: list[str] = []
    for share, proven in ((0.0, True), (0.1, False)):  # a tenth of the labels may be missed
        model = routing(spoiled(right, examples, dice, share), outputs, 3)
        found = csprop.certify(model, MachineTask(right), examples, on_round=lines.append)
        assert found.proven == proven, found.statement
        assert found.automaton == (right if proven else None)
    assert [line.split(":")[1] for line in lines] == [" 8 channels"]  # nothing was tried


def test_what_is_a_router() -> None:
    assert is_router(network(2, 2, 4))
    assert is_router(network(2, 2, 4, places=4))
    assert not is_router(network(2, 2, 4, places=2))  # two groups
    assert not is_router(network(2, 2, 4, maps=2))  # chosen by what is read, not by the token
    assert not is_router(network(2, 2, 4, depth=2, maps=2))
    assert not is_router(machines.compiled(machines.Counter(2, ((False, 0), (False, 1)), (0, 1), 2)))


def test_padding_takes_no_suspicion_from_a_token() -> None:
    """After token 0 the one label is missed, after token 1 one of two; padding is token 0, too."""
    tokens = torch.tensor([[0, 0, 0], [1, 0, 0], [1, 0, 0]])
    labels = torch.full_like(tokens, UNLABELLED)
    labels[:, 0] = torch.tensor([1, 1, 0])
    everywhere = torch.zeros(2, 2, dtype=torch.int64)
    table = _Repair(everywhere, torch.tensor([0, 1]), Labelled(tokens, labels))
    assert table._suspects() == [0, 1]
