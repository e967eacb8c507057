"""Two machines that count, compared at every length and every depth.

**The theorem.** Let the counters of both machines be multiples of linear forms, and let a pair be a
state of each control together with values of the forms as `Ranges` holds them, where every bound is so
large that beyond it no window changes any more. Let a set of pairs hold the start (both controls at
their starts, all values 0), and let every token lead from a pair in the set only to pairs in the set in
which both machines give the same answer. Then the machines give the same answer after every input.

**Proof.** We show for every input that some pair of the set stands for where the machines are: it has
the states of both controls, and its values stand for the true values of the forms, among others. The
empty input has the start. Let it hold for an input, with values v, and let a token follow. The token
adds a fixed number to each form, so what it makes of the true values is among what `Ranges.after` makes
of v: an exact value moves exactly, and a value beyond the bound may have been any of those for which it
stands. What `after` leaves out contradicts an integer relation among the forms, which the true values
satisfy. So one of the following values stands for the true ones. It determines both views: a counter is
λ times a form, and for values beyond the bound λ times any of them is at the edge of the window or
beyond, on the same side. So both controls take the step of the pair, and the pair that follows is in
the set, with equal answers. ∎

A walk from the start finds the pairs, and the verifier checks such a set without a walk. If the walk
meets a pair with different answers, this may be due to what is not known exactly. We then look for an
input that leads there, among exact values and by a shortest way first. If there is none nearby, the
walk is repeated with more knowledge: with the remainders and the sums that the cycles of this search
keep, or with twice the bounds.

If all counters are multiples of one form, and the machines agree, some bound and period always suffice:
the counts with which two states of the control are reached together repeat with some period from some
number on, and with these the walk meets only what can be reached. With two or more forms the question
is undecidable in general, because tokens can spell the run of a program on two counters, and the
control can check it. So some comparisons remain undecided.
"""

import heapq
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from csprop.automata.counting import CounterMachine
from csprop.automata.forms import Ranges, Values, Weights, view_function
from csprop.automata.refinement import refine
from csprop.automata.walk import Difference, Endless, Walk, trace_back
from csprop.errors import InputError

MOST_PAIRS, MOST_SEARCHED = 1 << 18, 1 << 17
"""The largest numbers of pairs in a walk, and of exact states in one search for a counterexample."""
ATTEMPTS = 8
"""The number of walks, each with more knowledge than the one before."""

Pair = tuple[int, int, Values]
"""A state of the left control, one of the right, and values of the forms."""


@dataclass(frozen=True)
class Invariant:
    """A proof that two machines give the same answer after every input: see the theorem above."""

    ranges: Ranges
    pairs: list[Pair]
    """In the order of discovery, the start first."""


@dataclass(frozen=True)
class Undecided:
    """Neither a proof nor a counterexample was found."""

    reason: str


def compare_counting(left: CounterMachine, right: CounterMachine) -> Invariant | Difference | Undecided:
    """Compare the answers of two machines with the same tokens after every input of one or more.

    Returns:
        A proof that they always agree, a shortest input on which they differ, or why neither is known.
    """
    ranges = _coarsest(left, right)
    counted, guide = len(ranges.forms), (ranges, None)
    reason = f"after {ATTEMPTS} refinements there are still pairs that may differ"
    for attempt in range(ATTEMPTS):
        try:
            following, differ = _walk_pairs(left, right, ranges)
        except Endless:
            reason = f"a proof needs more than {MOST_PAIRS:,} pairs"
            break
        if not differ:
            return Invariant(ranges, list(following))
        guide = ranges, _distances(following, differ)
        # Few states at first: more knowledge may be cheaper than a longer search.
        difference, moves = _search(left, right, *guide, MOST_SEARCHED >> ATTEMPTS - attempt)
        if difference is not None:
            return difference
        ranges = refine(moves, ranges, counted)
    difference, _ = _search(left, right, *guide, MOST_SEARCHED)
    return difference or Undecided(
        f"{reason}, and no counterexample is among the nearest {MOST_SEARCHED:,} states"
    )


def _coarsest(left: CounterMachine, right: CounterMachine) -> Ranges:
    if left.symbols != right.symbols:
        raise InputError("counter machine: only machines with the same tokens can be compared")
    return Ranges.coarsest((left.increments, left.window), (right.increments, right.window))


def _stepping(
    left: CounterMachine, right: CounterMachine, forms: Sequence[Weights]
) -> Callable[[int, int, int, Values], Pair]:
    """Return the function from two states, a token and the values after it to the pair after it."""
    here, there = (view_function(each.increments, each.window, forms) for each in (left, right))
    rows, others = left.control.transitions, right.control.transitions

    def step(p: int, q: int, token: int, values: Values) -> Pair:
        return (
            rows[p][token * left.views + here(values)],
            others[q][token * right.views + there(values)],
            values,
        )

    return step


def _walk_pairs(
    left: CounterMachine, right: CounterMachine, ranges: Ranges
) -> tuple[dict[Pair, list[tuple[int, Pair]]], set[Pair]]:
    """Return the tokens and pairs that follow each pair, and the pairs with different answers.

    A pair with different answers is not followed further.
    """
    following: dict[Pair, list[tuple[int, Pair]]] = {}
    differ: set[Pair] = set()
    step = _stepping(left, right, ranges.forms)
    answers, others = left.control.outputs, right.control.outputs
    start: Pair = (left.control.start, right.control.start, (0,) * len(ranges.forms))

    def leave(pair: Pair) -> list[tuple[int, Pair]]:
        p, q, values = pair
        made: list[tuple[int, Pair]] = []
        if pair not in differ:
            for token in range(left.symbols):
                made += [(token, step(p, q, token, each)) for each in ranges.after(values, token)]
            differ.update(each for _, each in made if answers[each[0]] != others[each[1]])
        following[pair] = made
        return made

    Walk(start).run(lambda pairs: map(leave, pairs), MOST_PAIRS)
    return following, differ


def _distances(following: dict[Pair, list[tuple[int, Pair]]], differ: set[Pair]) -> dict[Pair, int]:
    """Return the least number of tokens to a pair that differs, for pairs that lead to one."""
    before: dict[Pair, list[Pair]] = defaultdict(list)
    for pair, after in following.items():
        for _, each in after:
            before[each].append(pair)
    distances = dict.fromkeys(differ, 0)
    queue = deque(distances)
    while queue:
        pair = queue.popleft()
        for each in before[pair]:
            if each not in distances:
                distances[each] = distances[pair] + 1
                queue.append(each)
    return distances


def _search(
    left: CounterMachine,
    right: CounterMachine,
    ranges: Ranges,
    distances: dict[Pair, int] | None,
    most: int,
) -> tuple[Difference | None, dict[Pair, set[tuple[int, Pair]]]]:
    """Search for a shortest counterexample among exact states.

    A walk never overestimates a state's distance from a difference. So the states are visited in the
    order of their length plus this distance, and states that cannot lead to one are left out.

    Returns:
        The counterexample, and the moves that were made, between pairs as the walk has them.
    """
    moves: dict[Pair, set[tuple[int, Pair]]] = defaultdict(set)
    step = _stepping(left, right, ranges.forms)
    answers, others = left.control.outputs, right.control.outputs
    # The start is another state when it is entered again, because only then it has an answer.
    start: Any = (left.control.start, right.control.start, (0,) * len(ranges.forms), "start")
    before: dict[Any, tuple[Any, int]] = {}
    length, queue, done = {start: 0}, [(0, 0, start)], set()
    while queue and len(done) < most:
        _, _, pair = heapq.heappop(queue)
        if pair != start and answers[pair[0]] != others[pair[1]]:
            return Difference(trace_back(before, pair), answers[pair[0]], others[pair[1]]), moves
        if pair in done:
            continue
        done.add(pair)
        known = (pair[0], pair[1], ranges.rough(pair[2]))
        for token in range(left.symbols):
            exact = tuple(map(int.__add__, pair[2], (form[token] for form in ranges.forms)))
            after = step(pair[0], pair[1], token, exact)
            there = (after[0], after[1], ranges.rough(exact))
            ahead = 0 if distances is None else distances.get(there, -1)
            if ahead < 0:
                continue
            moves[known].add((token, there))
            longer = length[pair] + 1
            if longer < length.get(after, longer + 1):
                length[after], before[after] = longer, (pair, token)
                heapq.heappush(queue, (longer + ahead, -longer, after))
    return None, moves
