"""Names and sizes of automata, prepared for display."""

from collections.abc import Sequence


def escape(text: str) -> str:
    """Return a name with unprintable characters escaped."""
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)


def join_names(names: Sequence[str], most: int = 12) -> str:
    """Join names for a sentence, shortened to the first `most`."""
    listed = ", ".join(names[:most])
    return f"{listed}, … ({len(names)} in all)" if len(names) > most else listed


def describe_size(states: int, counters: int = 0) -> str:
    """Return the size of an automaton, such as "3 states and 1 counter"."""
    parts = [(states, "state"), *([(counters, "counter")] if counters else [])]
    return " and ".join(f"{count:,} {name}{'' if count == 1 else 's'}" for count, name in parts)
