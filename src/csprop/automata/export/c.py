"""Export to C99, without any library."""

from csprop.automata.automaton import Automaton
from csprop.automata.export.templates import filled, wrapped

LONGEST_LITERAL = 1000
"""In bytes. C99 guarantees string literals of up to 4,095 characters only."""


def to_c(automaton: Automaton) -> str:
    """The automaton as a C program that reads sequences from stdin; with CSPROP_NO_MAIN, a library."""
    vocab = [name.encode() for name in automaton.vocab]
    outputs = [0 if output is None else output for output in automaton.outputs]
    return filled(
        "automaton.c.template",
        automaton,
        states=len(automaton),
        tokens=len(vocab),
        classes=len(automaton.classes),
        start=automaton.start,
        longest=max(4, *map(len, vocab)),
        state="unsigned short" if len(automaton) <= 2**16 else "unsigned long",
        vocab="\n".join(
            f"    {{{len(name)}, {_string(name)}}}, /* {i} */" for i, name in enumerate(vocab)
        ),
        names="\n".join(
            f"    {_string(name.encode())}, /* {i} */" for i, name in enumerate(automaton.classes)
        ),
        rows="\n".join(
            f"    {{{', '.join(map(str, row))}}}, /* {state}{_comment(automaton, state)} */"
            for state, row in enumerate(automaton.transitions)
        ),
        name_lengths=wrapped(str(len(name.encode())) for name in automaton.classes),
        answers=wrapped(map(str, outputs)),
        words="1" if automaton.words else "0",
    )


def _comment(automaton: Automaton, state: int) -> str:
    """The answer of a state, escaped so that it neither ends the comment nor begins another."""
    output = automaton.outputs[state]
    if output is None:
        return ": nothing read yet"
    name = automaton.classes[output].encode()
    shown = _string(name[:60]).replace("/", "\\057")
    return f": {shown}{'...' if len(name) > 60 else ''}"


def _string(text: bytes) -> str:
    """A string literal. Octal escapes end after three digits; hexadecimal ones would not end."""
    if len(text) > LONGEST_LITERAL:
        return "(const char[]){" + ", ".join(f"'\\{byte:03o}'" for byte in text) + ", 0}"
    plain = {ord(each): each for each in map(chr, range(32, 127)) if each not in '"\\?'}  # ?: trigraphs
    return '"' + "".join(plain.get(byte) or f"\\{byte:03o}" for byte in text) + '"'
