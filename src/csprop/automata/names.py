"""Names and sizes of automata, prepared for display."""

from collections.abc import Sequence


def escape(text: str) -> str:
    """A name with unprintable characters escaped."""
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)


def join_names(names: Sequence[str], most: int = 12) -> str:
    """A list of names for a sentence, shortened to the first `most`."""
    listed = ", ".join(names[:most])
    return f"{listed}, … ({len(names)} in all)" if len(names) > most else listed


def told(kind: str, size: str, vocab: Sequence[str], classes: Sequence[str]) -> str:
    """An automaton in one line."""
    tokens, answers = (join_names([escape(name) for name in names]) for names in (vocab, classes))
    return f"{kind}({size}; tokens {tokens}; classes {answers})"


def describe_size(states: int, counters: int = 0) -> str:
    """How large an automaton is, such as "3 states and 1 counter"."""
    parts = [(states, "state"), *([(counters, "counter")] if counters else [])]
    return " and ".join(f"{count:,} {name}{'' if count == 1 else 's'}" for count, name in parts)
