"""A C99 file that needs nothing else."""

from csprop.automata.automaton import Automaton
from csprop.automata.export.templates import filled, wrapped

LONGEST_LITERAL = 1000
"""Bytes; C99 promises no string longer than 4,095 characters."""


def to_c(automaton: Automaton) -> str:
    """A program that reads sequences from stdin, or a library with CSPROP_NO_MAIN."""
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
    """The answer for a comment, which must neither end nor hold the beginning of another."""
    output = automaton.outputs[state]
    if output is None:
        return ": nothing read yet"
    name = automaton.classes[output].encode()
    shown = _string(name[:60]).replace("/", "\\057")
    return f": {shown}{'...' if len(name) > 60 else ''}"


def _string(text: bytes) -> str:
    """A literal. Octal escapes end after three digits, where hexadecimal ones would run on."""
    if len(text) > LONGEST_LITERAL:
        return "(const char[]){" + ", ".join(f"'\\{byte:03o}'" for byte in text) + ", 0}"
    plain = {ord(each): each for each in map(chr, range(32, 127)) if each not in '"\\?'}  # ?: trigraphs
    return '"' + "".join(plain.get(byte) or f"\\{byte:03o}" for byte in text) + '"'
