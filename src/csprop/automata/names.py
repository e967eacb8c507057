"""Names and sizes of automata, prepared for display."""


def visible(text: str) -> str:
    """A name with unprintable characters escaped."""
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)


def size(states: int, counters: int = 0) -> str:
    """How large an automaton is, such as "3 states and 1 counter"."""
    parts = [(states, "state"), *([(counters, "counter")] if counters else [])]
    return " and ".join(f"{count:,} {name}{'' if count == 1 else 's'}" for count, name in parts)
