"""Partial knowledge of counts holds everything possible, and nothing else."""

import math
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from csprop.automata.forms import Ranges, dependency, primitive, relations, view_function
from csprop.automata.refinement import cycle_sums


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_what_is_known_after_a_token_covers_every_exact_value(data: st.DataObject) -> None:
    size, tokens = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 3))
    weights = st.tuples(*[st.integers(-4, 4)] * tokens)
    forms = tuple(data.draw(st.lists(weights, min_size=size, max_size=size)))
    numbers = st.tuples(*[st.integers(0, 3)] * size)
    ranges = Ranges(forms, data.draw(numbers), tuple(1 + each for each in data.draw(numbers)))
    exact = [0] * size
    for token in data.draw(st.lists(st.integers(0, tokens - 1), max_size=30)):
        known = ranges.rough(exact)
        assert ranges.possible(known)
        exact = [value + form[token] for value, form in zip(exact, forms, strict=True)]
        assert ranges.rough(exact) in ranges.after(known, token)


@settings(max_examples=200, deadline=None)
@given(value=st.integers(-9, 9), change=st.integers(-12, 12), bound=st.integers(0, 4),
       period=st.integers(1, 4))  # fmt: skip
def test_what_is_known_after_a_token_is_no_more_than_can_be(
    value: int, change: int, bound: int, period: int
) -> None:
    ranges = Ranges(((change, 1),), (bound,), (period,))
    (known,) = ranges.rough([value])
    like = [each for each in range(-60, 61) if ranges.rough([each]) == (known,)]
    assert set(ranges.after((known,), 0)) == {ranges.rough([each + change]) for each in like}


@settings(max_examples=200, deadline=None)
@given(factor=st.integers(-5, 5).filter(bool), window=st.integers(0, 7), more=st.integers(1, 3))
def test_what_is_known_decides_the_view(factor: int, window: int, more: int) -> None:
    increments = ((factor,), (-2 * factor,))
    ranges = replace(Ranges.coarsest((increments, window)), periods=(more,))
    view = view_function(increments, window, ranges.forms)
    times = 1 if factor > 0 else -1
    for value in range(-30, 31):
        seen = max(-window, min(value * abs(factor) * times, window)) + window
        assert view((value,)) == seen
        assert view(ranges.rough((value,))) == seen


def test_relations_among_forms() -> None:
    forms = ((1, -1, 0), (0, 1, -1), (1, 0, -1), (1, 1, 1))
    assert relations(forms) == [(1, 1, -1, 0)]
    assert relations(((2, 0), (0, 3), (1, 1))) == [(3, 2, -6)]
    assert relations(((1, 2), (3, 4))) == []
    assert relations(()) == []
    assert dependency([(0, 0)]) == (1,)
    assert primitive((0, -4, 6)) == (-2, (0, 2, -3))
    ranges = Ranges(forms[:3], (1, 1, 1), (1, 1, 2))
    assert ranges.possible((1, 0, 1))
    assert not ranges.possible((1, 0, 0))
    assert not ranges.possible((2, 2, 1))  # 2 or more, and 2 or more, are not 1
    assert ranges.possible((2, -2, 1))
    assert not ranges.possible((1, 1, 3))  # 3, 5, 7, … are not 2


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_gains_generate_every_cycle(data: st.DataObject) -> None:
    count, tokens = data.draw(st.integers(1, 5)), 2
    node = st.integers(0, count - 1)
    edge = st.tuples(st.integers(0, tokens - 1), node)
    following = {each: data.draw(st.lists(edge, max_size=3)) for each in range(count)}
    steps = [(data.draw(st.integers(-6, 6)),) for _ in range(tokens)]
    divisors = sorted(math.gcd(*(gain for (gain,) in part)) for part in cycle_sums(following, steps))
    # Every closed walk of up to 2 · count steps, by plain enumeration.
    expected = {}
    for root in range(count):
        closed, here = 0, {(root, 0)}
        any_closed = False
        for _ in range(2 * count):
            here = {
                (after, sum_ + steps[token][0]) for at, sum_ in here for token, after in following[at]
            }
            back = [sum_ for at, sum_ in here if at == root]
            any_closed |= bool(back)
            closed = math.gcd(closed, *back)
        if any_closed:
            expected[component(following, root)] = closed
    assert divisors == sorted(expected.values())


def component(following: dict[int, list[tuple[int, int]]], root: int) -> frozenset[int]:
    def reached(start: int) -> set[int]:
        found, todo = {start}, [start]
        while todo:
            for _, after in following[todo.pop()]:
                if after not in found:
                    found.add(after)
                    todo.append(after)
        return found

    return frozenset(each for each in reached(root) if root in reached(each))
