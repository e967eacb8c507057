"""Names of automata, prepared for display."""


def visible(text: str) -> str:
    """A name with unprintable characters escaped."""
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)
