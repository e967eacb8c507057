"""The arrows of a picture of an automaton, and what is written beside them."""

from typing import NamedTuple

import numpy as np

from csprop.automata.automaton import Automaton
from csprop.automata.conditions import condition
from csprop.automata.counter_automaton import CounterAutomaton
from csprop.automata.names import escape
from csprop.automata.reduction import Parts, views_met


class Arrow(NamedTuple):
    """All transitions from one state to another."""

    state: int
    there: int
    tokens: list[int]
    labels: list[str]
    """The names of the tokens; with counters, each with its condition."""


def arrows(automaton: Automaton | CounterAutomaton) -> list[Arrow]:
    """The arrows of a picture."""
    found = []
    for state, row in enumerate(rules(automaton)):
        tokens: dict[int, list[int]] = {}
        together: dict[int, dict[str, list[str]]] = {}  # the names of tokens, by condition
        for token, leads in enumerate(row):
            for there, when in leads.items():
                tokens.setdefault(there, []).append(token)
                together.setdefault(there, {}).setdefault(when, []).append(
                    escape(automaton.vocab[token])
                )
        for there, conditions in together.items():
            labels = [
                f"{', '.join(names)} if {when}" if when else ", ".join(names)
                for when, names in conditions.items()
            ]
            if isinstance(automaton, Automaton):
                labels = conditions[""]
            found.append(Arrow(state, there, tokens[there], labels))
    return found


def rules(automaton: Automaton | CounterAutomaton) -> list[list[dict[int, str]]]:
    """To which states each token leads from each state, and under which condition.

    A condition is about the counts after the token, and is empty if the token always leads there.
    Counts that no input leads to are left out.
    """
    if isinstance(automaton, Automaton):
        return [[{there: ""} for there in row] for row in automaton.transitions]
    parts = Parts(automaton.increments, automaton.window, automaton.control)
    table, names = (
        np.array(automaton.control.transitions).reshape(parts.shape),
        counter_names(automaton),
    )
    known = views_met(parts)
    made = []
    for row, seen in zip(table, known, strict=True):
        # What is said of a state that no input leads to must still be something.
        seen = seen | ~seen.any()
        made.append(
            [
                {
                    int(there): condition(leads == there, views, names)
                    for there in dict.fromkeys(leads[views].tolist())
                }
                for leads, views in zip(row, seen, strict=True)
            ]
        )
    return made


def counter_names(automaton: CounterAutomaton) -> list[str]:
    """c, or with several counters c1, c2, …; another letter where a token is called c."""
    count = automaton.counters
    for letter in "cnkdmxyzuvw":
        names = [letter] if count == 1 else [f"{letter}{number}" for number in range(1, count + 1)]
        if not {letter, *names} & set(automaton.vocab):
            return names
    return [f"count {number}" for number in range(1, count + 1)]


def describe_counters(automaton: CounterAutomaton) -> dict[str, str]:
    """What each counter adds up, by its name: such as "( +1, ) −1"."""
    made = {}
    for counter, name in enumerate(counter_names(automaton)):
        added = zip(automaton.vocab, automaton.increments, strict=True)
        parts = [f"{escape(token)} {_signed(row[counter])}" for token, row in added if row[counter]]
        made[name] = ", ".join(parts)
    return made


def caption(automaton: Automaton | CounterAutomaton) -> list[str]:
    """The lines that a picture needs below it: what is counted, and when; none without counters."""
    if isinstance(automaton, Automaton):
        return []
    lines = [f"{name}: {added}" for name, added in describe_counters(automaton).items()]
    return [*lines, "if: the counts after the token"] if lines else []


def _signed(number: int) -> str:
    return f"{number:+d}".replace("-", "−")
