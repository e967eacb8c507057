"""Strings of the languages of BLISS, a benchmark for learning a grammar from few strings.

N. Lan, E. Chemla and R. Katzir, "Benchmarking Neural Network Generalization for Grammar Induction",
2023, draw 100 to 1,000 strings of a language, n and m from a geometric distribution with p = 0.3, and
ask which tokens may follow each prefix. Here the label of a prefix is the set of tokens that may
follow; `#` is the end. So a learner gets strings of the language alone, as theirs do, but is told the
sets.

>>> rows = strings("an_bn", 2, seed=0)
>>> [("".join(tokens), labels) for tokens, labels in rows[:1]]
[('ab', ['ab', '#'])]
"""

from collections.abc import Callable, Iterator
from functools import cache
from itertools import islice

import numpy as np

from csprop import Automaton, CounterAutomaton
from csprop.automata.comparison import Invariant, compare_counting
from csprop.automata.counting import CounterMachine

P = 0.3
"""The parameter of the geometric distribution, and the probability of a pair of brackets."""
Labelled = tuple[list[str], list[str]]
"""The tokens of a string, and what may follow each of its prefixes."""
POWERS: dict[str, tuple[int, ...]] = {
    "an_bn": (1, 1),
    "an_b2n": (1, 2),
    "an_bn_cn": (1, 1, 1),
    "an_bn_cn_dn": (1, 1, 1, 1),
}
"""The count of each letter, as a multiple of n. BLISS has no a^n b^2n, but an earlier study has."""
LANGUAGES = (*POWERS, "an_bm_c_n_plus_m", "dyck_1")
TESTED, LARGEST = 15_000, 1000
"""The first strings of a language, which the benchmark tests; and of those with powers the largest n
that is tested here, as longer ones are covered by the comparison of machines."""
OUT = "out"
"""The answer of a language's machine after tokens that are not a prefix of its strings."""


def strings(language: str, count: int, seed: int) -> list[Labelled]:
    """Draw strings of a language, which may be equal."""
    lots, draws = np.random.default_rng([seed, count]), _draw_one(language)
    return [draws(lots) for _ in range(count)]


def _draw_one(language: str) -> Callable[[np.random.Generator], Labelled]:
    if language == "dyck_1":
        return _brackets
    if language == "an_bm_c_n_plus_m":
        return lambda lots: summed(int(lots.geometric(P)), int(lots.geometric(P)))
    return lambda lots: power(language, int(lots.geometric(P)))


def power(language: str, n: int) -> Labelled:
    """The string of a language of `POWERS` for an n: after its first b everything is decided."""
    sizes = [n * each for each in POWERS[language]]
    tokens = [letter for letter, size in zip("abcd", sizes, strict=False) for _ in range(size)]
    return tokens, ["ab"] * n + [*tokens[n + 1 :], "#"]


def summed(n: int, m: int) -> Labelled:
    """The string a^n b^m c^(n+m)."""
    tokens = ["a"] * n + ["b"] * m + ["c"] * (n + m)
    return tokens, ["ab"] * n + ["bc"] * m + ["c"] * (n + m - 1) + ["#"]


def _brackets(lots: np.random.Generator) -> Labelled:
    """A balanced string that is not empty: a place holds `( … ) …` with probability P, else nothing."""
    tokens: list[str] = []
    while not tokens:
        waiting = ["S"]
        while waiting:
            symbol = waiting.pop()
            if symbol != "S":
                tokens.append(symbol)
            elif lots.random() < P:
                waiting += ["S", ")", "S", "("]
    return balanced(tokens)


def balanced(tokens: list[str]) -> Labelled:
    """A balanced string with its labels."""
    depths = np.cumsum([1 if token == "(" else -1 for token in tokens])
    return tokens, ["()" if depth else "(#" for depth in depths]


@cache
def first_strings(language: str) -> list[Labelled]:
    """The strings to test with, the shortest first."""
    return list(islice(_in_order(language), TESTED))


def _in_order(language: str) -> Iterator[Labelled]:
    if language in POWERS:
        yield from (power(language, n) for n in range(1, LARGEST + 1))
        return
    if language == "dyck_1":
        for pairs in range(1, TESTED):
            yield from map(balanced, _with_pairs(pairs))
    for letters in range(2, TESTED):
        yield from (summed(n, letters - n) for n in range(1, letters))


def _with_pairs(pairs: int) -> Iterator[list[str]]:
    """All balanced strings of so many pairs of brackets."""
    if not pairs:
        yield []
    for inside in range(pairs):
        for first in _with_pairs(inside):
            for rest in _with_pairs(pairs - 1 - inside):
                yield ["(", *first, ")", *rest]


@cache
def machine(language: str) -> CounterAutomaton:
    """Return the machine of a language: it says what may follow a prefix, or that this is not a prefix.

    Of n letters a, …: a state for each letter, and a counter for each two letters that follow each
    other, which is 0 when the second one is complete.
    """
    if language == "dyck_1":
        letters, increments, labels = "()", ((1,), (-1,)), ("()", "(#")
    elif language == "an_bm_c_n_plus_m":
        letters, increments, labels = "abc", ((1,), (1,), (-1,)), ("ab", "bc", "c", "#")
    else:
        sizes = POWERS[language]
        letters, labels = "abcd"[: len(sizes)], ("ab", *"bcd"[: len(sizes) - 1], "#")
        increments = tuple(
            tuple(
                sizes[place + 1] * (token == place) - sizes[place] * (token == place + 1)
                for place in range(len(sizes) - 1)
            )
            for token in range(len(sizes))
        )

    def step(state: int, token: int, counts: tuple[int, ...]) -> int:
        """The number of the letter that is read, from 0 on; −1 before it, and −2 outside."""
        if language == "dyck_1":
            return -2 if state == -2 or counts[0] < 0 else 0
        if state == -2 or token not in (state, state + 1):
            return -2
        if language == "an_bm_c_n_plus_m":
            return -2 if counts[0] < 0 else token
        complete = all(count == 0 for count in counts[: max(0, token - 1)])
        return token if complete and (not token or counts[token - 1] >= 0) else -2

    def answer(state: int, counts: tuple[int, ...]) -> int:
        if state == -2:
            return len(labels)
        if language == "dyck_1":
            return int(counts[0] == 0)
        if language == "an_bm_c_n_plus_m":
            return state + (state == 2 and counts[0] == 0)
        return state + (state > 0 and counts[state - 1] == 0)

    made = CounterMachine.explore(increments, -1, step, answer)
    return CounterAutomaton.from_machine(made, letters, (*labels, OUT))


def agrees(found: Automaton | CounterAutomaton, language: str) -> bool:
    """Return True if a machine is proven right after every prefix of every string of a language."""
    truth = machine(language)
    tokens = [found.vocab.index(name) for name in truth.vocab]
    if isinstance(found, Automaton):
        found = CounterAutomaton(
            increments=((),) * found.symbols, window=0, control=found,
            vocab=found.vocab, classes=found.classes,
        )  # fmt: skip
    mine, window = found.counters, max(found.window, truth.window)
    known = [truth.classes.index(name) if name in truth.classes else -1 for name in found.classes]

    def moved(each: CounterAutomaton, state: int, token: int, counts: tuple[int, ...]) -> int:
        return each.control.transitions[state][token * each.views + int(each.view(np.array(counts)))]

    def step(states: tuple[int, int], token: int, counts: tuple[int, ...]) -> tuple[int, int]:
        return (
            moved(found, states[0], tokens[token], counts[:mine]),
            moved(truth, states[1], token, counts[mine:]),
        )

    def answer(states: tuple[int, int], counts: tuple[int, ...]) -> int:
        right = truth.outputs[states[1]]
        if right is None or truth.classes[right] == OUT:
            return len(truth.classes) - 1
        said = found.outputs[states[0]]
        return len(truth.classes) if said is None or known[said] < 0 else known[said]

    increments = tuple(
        (*found.increments[here], *truth.increments[there]) for there, here in enumerate(tokens)
    )
    both = CounterMachine.explore(increments, (found.start, truth.start), step, answer, window)
    return isinstance(compare_counting(both, truth), Invariant)
