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

from collections.abc import Callable

import numpy as np

P = 0.3
"""Of the geometric distribution, and of a pair of brackets."""
Labelled = tuple[list[str], list[str]]
"""The tokens of a string, and what may follow each of its prefixes."""
POWERS: dict[str, tuple[int, ...]] = {
    "an_bn": (1, 1),
    "an_b2n": (1, 2),
    "an_bn_cn": (1, 1, 1),
    "an_bn_cn_dn": (1, 1, 1, 1),
}
"""How often each letter occurs, as multiples of n. BLISS has no a^n b^2n, but an earlier study has."""


def strings(language: str, count: int, seed: int) -> list[Labelled]:
    """Draw strings of a language, which may be equal.

    Args:
        language: `an_bn`, `an_b2n`, `an_bn_cn`, `an_bn_cn_dn`, `an_bm_c_n_plus_m` or `dyck_1`, as
            the benchmark names them.
        count: how many.
        seed: decides all draws.
    """
    lots, draws = np.random.default_rng([seed, count]), _drawn(language)
    return [draws(lots) for _ in range(count)]


def _drawn(language: str) -> Callable[[np.random.Generator], Labelled]:
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
