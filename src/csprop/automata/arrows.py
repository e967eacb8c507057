"""The arrows of a picture of an automaton, and what is written beside them."""

from typing import NamedTuple

import numpy as np

from csprop.automata.automaton import Automaton
from csprop.automata.conditions import condition
from csprop.automata.counter_automaton import CounterAutomaton
from csprop.automata.names import visible


class Arrow(NamedTuple):
    """All transitions from one state to another."""

    state: int
    there: int
    tokens: list[int]
    labels: list[str]
    """The names of the tokens; with counters, each with its condition."""


def arrows(automaton: Automaton | CounterAutomaton) -> list[Arrow]:
    """The arrows of a picture."""
    counts = isinstance(automaton, CounterAutomaton)
    views = automaton.views if counts else 1
    rows = automaton.control.transitions if counts else automaton.transitions
    found = []
    for state, row in enumerate(rows):
        symbols: dict[int, list[int]] = {}
        for symbol, there in enumerate(row):
            symbols.setdefault(there, []).append(symbol)
        for there, leading in symbols.items():
            tokens = list(dict.fromkeys(symbol // views for symbol in leading))
            labels = [visible(automaton.vocab[token]) for token in tokens]
            if counts:
                labels = _conditional(automaton, leading, dict(zip(tokens, labels, strict=True)))
            found.append(Arrow(state, there, tokens, labels))
    return found


def _conditional(automaton: CounterAutomaton, symbols: list[int], names: dict[int, str]) -> list[str]:
    """Tokens with the condition under which they lead somewhere; those of equal conditions together."""
    seen = np.zeros((automaton.symbols, automaton.views), bool)
    seen.flat[symbols] = True
    shape = (2 * automaton.window + 1,) * automaton.counters
    together: dict[str, list[str]] = {}
    for token, name in names.items():
        what = condition(seen[token].reshape(shape), counter_names(automaton))
        together.setdefault(what, []).append(name)
    return [f"{', '.join(listed)} : {what}" for what, listed in together.items()]


def counter_names(automaton: CounterAutomaton) -> list[str]:
    """c, or with several counters c1, c2, …"""
    count = automaton.counters
    return ["c"] if count == 1 else [f"c{number}" for number in range(1, count + 1)]


def counted(automaton: Automaton | CounterAutomaton) -> list[str]:
    """What each counter adds up, such as "c: ( +1, ) −1"; nothing for a finite automaton."""
    if not isinstance(automaton, CounterAutomaton):
        return []
    made = []
    for counter, name in enumerate(counter_names(automaton)):
        added = zip(automaton.vocab, automaton.increments, strict=True)
        parts = [f"{visible(token)} {row[counter]:+d}" for token, row in added if row[counter]]
        made.append(f"{name}: {', '.join(parts)}".replace("-", "−"))
    return made
