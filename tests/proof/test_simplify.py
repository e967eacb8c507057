"""Models that count, with as few counters and switches as their rows need."""

import copy
import math
from collections import Counter, defaultdict

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Generator

from csprop.automata.comparison import Invariant, compare_counting
from csprop.automata.forms import primitive
from csprop.nn.model import CSP
from csprop.proof.choose import Choice, Pattern, choices, conflicts, patterns
from csprop.proof.counters import tabulate
from csprop.proof.examples import Labelled
from csprop.proof.locked_counter import counting_parts, weights_of
from csprop.proof.simplify import SHARP, _Plan, misses, simplify
from csprop.tasks import get
from csprop.training.batches import training_data
from csprop.training.config import configure
from csprop.training.session import execute
from csprop.training.stored import Trained

LETTERS = ((0, 1), (1, -1), (1, 0), (1, -2), (2, -1))


def rows(name: str, seed: int = 0) -> Labelled:
    task = get(name)
    return Labelled.of(training_data(task, configure(task, "counter", seed, samples=1000))[0])


def counter(name: str, seed: int = 0) -> CSP:
    config = configure(name, "counter", seed).model
    return CSP(config, Generator().manual_seed(seed)).requires_grad_(False)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), min_size=1, max_size=30))
def test_conflicts_are_labels_that_are_not_the_commonest(points: list[tuple[int, int]]) -> None:
    known, labels = torch.tensor(points).T
    of_each: dict[int, Counter[int]] = defaultdict(Counter)
    for number, label in points:
        of_each[number][label] += 1
    expected = sum(sum(each.values()) - max(each.values()) for each in of_each.values())
    assert conflicts(known, torch.eye(3, dtype=torch.int64)[labels]) == expected


def fires(pattern: Pattern, token: int, count: int) -> bool:
    inside = count >= pattern.count if pattern.above else count == pattern.count
    return inside == pattern.inside and pattern.token in (None, token)


def knowledge(choice: Choice, tokens: list[int]) -> list[tuple[object, ...]]:
    """What a control of this choice knows after each token, in plain Python."""
    counts, flags, known = [0] * len(choice.forms), [False] * len(choice.patterns), []
    for token in tokens:
        counts = [count + form[token] for count, form in zip(counts, choice.forms, strict=True)]
        seen = [max(-choice.window, min(choice.window, count)) for count in counts]
        for place, each in enumerate(choice.patterns):
            flags[place] |= fires(each, token, seen[each.form])
        known.append((token, *seen, *flags))
    return known


@pytest.mark.parametrize(
    ("name", "forms", "switches"),
    [("majority", {(1, -1)}, 0), ("anbn", {(0, 1), (1, -1)}, 1), ("anb2n", {(0, 1), (2, -1)}, 1)],
)
def test_what_is_chosen_tells_all_labels_apart(
    name: str, forms: set[tuple[int, ...]], switches: int
) -> None:
    examples = rows(name)
    choice = choices(examples, LETTERS, 1, 0, Generator().manual_seed(0))[0]
    assert set(choice.forms) == forms
    assert len(choice.patterns) == switches
    labels: dict[tuple[object, ...], int] = {}
    for tokens, given_labels in zip(examples.tokens.tolist(), examples.labels.tolist(), strict=True):
        for known, label in zip(knowledge(choice, tokens), given_labels, strict=True):
            assert label < 0 or labels.setdefault(known, label) == label


def test_nothing_is_chosen_if_the_counters_are_not_enough() -> None:
    assert not choices(rows("anbn"), [(0, 1), (1, 0)], 1, 0, Generator().manual_seed(0))


@pytest.mark.parametrize("window", [1, 2, 3])
def test_a_gate_fires_at_its_pattern_at_every_count(window: int) -> None:
    model = counter("parenthesis")
    listed = tuple(patterns(2, 1, window))
    plan = _Plan(model, Choice(((1, -1),), listed[:4], window))
    for pattern in listed:
        weights, bias = plan.gate(pattern)
        for token in range(2):
            for count in [*range(-50, 51), -(10**6), 10**6]:
                value = bias + float(weights[0, token])
                for scale in (SHARP, 1) if window > 1 else (SHARP,):
                    modulus = math.hypot(1, scale * count)
                    point = torch.tensor([scale * count / modulus, 1 / modulus])
                    value += float(weights[:, plan.channel(0, scale)] @ point)
                assert value <= -0.999 if fires(pattern, token, count) else value >= 0.999


def test_a_model_stays_as_it_is_if_nothing_simpler_gives_its_labels() -> None:
    generator, model = Generator().manual_seed(0), counter("majority")
    tokens = torch.randint(2, (300, 12), generator=generator)
    scores = model(tokens)
    middle = (scores[..., 1] - scores[..., 0]).median()
    counting_parts(model)[2].bias[0] += middle
    examples = Labelled(tokens, model(tokens).argmax(dim=2))
    before = copy.deepcopy(model.state_dict())
    simplify(model, examples, generator)
    assert all(torch.equal(each, before[name]) for name, each in model.state_dict().items())


def trained(name: str, epochs: int) -> tuple[CSP, Labelled]:
    task = get(name)
    config = configure(task, "counter", 0, samples=1000, epochs=epochs)
    (run,) = execute(task, [config], [None], every_input=False)
    assert isinstance(run, Trained)
    return run.model, Labelled.of(training_data(task, config)[0])


def forms_of(model: CSP) -> set[tuple[int, ...]]:
    return {primitive(each)[1] for each in model.embedding[:, 0].round().int().T.tolist()}


def proven(model: CSP, name: str) -> bool:
    known = get(name).counting
    assert known is not None
    return isinstance(compare_counting(tabulate(weights_of(model)).machine, known), Invariant)


def test_a_control_that_was_trained_long_enough_is_kept() -> None:
    model, examples = trained("parenthesis", epochs=10)
    points = counting_parts(model)[1].point.detach().clone()
    assert simplify(model, examples, Generator().manual_seed(0))
    moved = counting_parts(model)[1].point.detach() - points
    assert float(moved.abs().max()) < 0.5
    assert misses(model, examples) == 0
    assert proven(model, "parenthesis")
    assert forms_of(model) == {(0, 0), (1, -1)}
    gate = counting_parts(model)[1].gate
    assert int((gate.weight == 0).all(dim=1).sum()) >= 24  # switches that were dropped


def test_a_control_that_was_hardly_trained_is_made_anew() -> None:
    model, examples = trained("anb2n", epochs=1)
    before, config = misses(model, examples), model.config
    assert not simplify(model, examples, Generator().manual_seed(0))
    assert misses(model, examples) == 0 < before
    assert forms_of(model) == {(0, 0), (0, 1), (2, -1)}
    assert model.config == config
    assert proven(model, "anb2n")
