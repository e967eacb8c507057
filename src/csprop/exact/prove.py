"""The proof: a locked machine and the task's own automaton, walked side by side until nothing is new.

From the pair of first states every token leads to another pair; there are finitely many, and if the
machine's answer is the task's on the way to each, it is right after every input of every length.
The pairs are what a certificate carries: an invariant that anyone can check without the search.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

from csprop.exact.lock import Inputs
from csprop.exact.locked import Locked, NotFinite
from csprop.tasks.base import Task

MOST_PAIRS = 1 << 20


@dataclass(frozen=True)
class Counterexample:
    """The shortest input, or one of them, that is answered wrongly."""

    tokens: tuple[int, ...]
    said: int
    right: int


@dataclass(frozen=True)
class Proof:
    """Pairs of a state of the machine and one of the task, closed under every input of the domain."""

    pairs: list[tuple[int, int]]
    states: list[Hashable]  # the task's, by their number in the pairs


def within(task: Task, depth: int | None) -> Inputs:
    """The task's automaton as a domain; states deeper than `depth` are outside of it."""

    def inputs(state: Any, token: int) -> Hashable | None:
        after = task.step(state, token)
        return None if depth is not None and task.size(after) > depth else after

    return inputs


def prove(locked: Locked, task: Task, depth: int | None = None) -> Proof | Counterexample:
    """That the machine answers as the task does, or an input where it does not."""
    inputs, following = within(task, depth), locked.following.tolist()
    answers = locked.scores.argmax(dim=2).tolist()
    numbers: dict[Hashable, int] = {task.start(): 0}
    states = [task.start()]
    pairs = [(0, 0)]
    before: dict[tuple[int, int], tuple[tuple[int, int], int] | None] = {(0, 0): None}
    for pair in pairs:  # grows as new ones are found
        state, number = pair
        for token, reached in enumerate(following[state]):
            after = inputs(states[number], token)
            if after is None:
                continue
            if answers[state][token] != (right := task.answer(after)):
                return Counterexample((*_way(before, pair), token), answers[state][token], right)
            if after not in numbers:
                numbers[after] = len(states)
                states.append(after)
            new = (reached, numbers[after])
            if new not in before:
                before[new] = (pair, token)
                pairs.append(new)
        if len(pairs) > MOST_PAIRS:
            raise NotFinite(f"more than {MOST_PAIRS:,} pairs of states to compare")
    return Proof(pairs, states)


def _way(before: dict[Any, Any], pair: tuple[int, int]) -> tuple[int, ...]:
    """The tokens that lead to a pair."""
    tokens = []
    while (step := before[pair]) is not None:
        pair, token = step
        tokens.append(token)
    return tuple(reversed(tokens))
