"""Export to Python and to C99, without any library: templates in the directory assets."""

import textwrap
from collections.abc import Iterable
from importlib.resources import files
from string import Template

from csprop.automata.automaton import AnyAutomaton, CounterAutomaton
from csprop.automata.names import describe_size

LONGEST_LITERAL = 1000
"""In bytes. C99 guarantees string literals of up to 4,095 characters only."""
FINITE_STEP = "state = csprop_step(state, (unsigned long)number);"
COUNTING_STEP = """if (csprop_step(&state, (unsigned long)number)) {
                    fflush(stdout);
                    fprintf(stderr, "line %lu: a count exceeds 2^62 at position %lu\\n", line,
                            position);
                    return 2;
                }"""


def to_python(automaton: AnyAutomaton) -> str:
    """Return the automaton as a Python module and a program that reads from stdin."""

    def rows(table: Iterable[object]) -> str:
        return "\n".join(f"    {row},  # {number}" for number, row in enumerate(table))

    parts: dict[str, object] = {
        "start": automaton.start, "answers": _wrap(automaton.outputs),
        "rows": rows(map(tuple, automaton.to_json()["transitions"])),
    }  # fmt: skip
    counts = isinstance(automaton, CounterAutomaton)
    if counts:
        zeros = (0,) * automaton.counters
        parts |= {"zeros": zeros, "window": automaton.window, "added": rows(automaton.increments)}
    return _fill(
        "automaton.py",
        automaton,
        vocab=rows(map(repr, automaton.vocab)),
        classes=rows(map(repr, automaton.classes)),
        machine=_fill("counting.py" if counts else "finite.py", automaton, **parts),
        move="step(state, NUMBER[name])" if counts else "NEXT[state][NUMBER[name]]",
        answer="answer(state)" if counts else "ANSWER[state]",
        read="text.split()" if automaton.words else "(each for each in text if not each.isspace())",
    )


def to_c(automaton: AnyAutomaton) -> str:
    """Return the automaton as a C program that reads from stdin; with CSPROP_NO_MAIN, a library."""

    def rows(table: Iterable[object]) -> str:
        texts = (str(row).translate(str.maketrans("[](),", "{}{},")) for row in table)
        return "\n".join(f"    {text}, /* {number} */" for number, text in enumerate(texts))

    parts: dict[str, object] = {
        "start": automaton.start,
        "state": "unsigned short" if len(automaton) <= 2**16 else "unsigned long",
        "answers": _wrap(output or 0 for output in automaton.outputs),
        "rows": rows(automaton.to_json()["transitions"]),
    }
    counts = isinstance(automaton, CounterAutomaton)
    if counts:
        # C has no arrays without elements: a machine without counters gets one that stays 0.
        parts |= {
            "counters": max(1, automaton.counters),
            "window": automaton.window if automaton.counters else 0,
            "views": automaton.views,
            "added": rows(list(row) or [0] for row in automaton.increments),
        }
    vocab, classes = ([name.encode() for name in each] for each in (automaton.vocab, automaton.classes))
    return _fill(
        "automaton.c",
        automaton,
        states=len(automaton),
        tokens=len(vocab),
        classes=len(classes),
        machine=_fill("counting.c" if counts else "finite.c", automaton, **parts),
        begin=f"{'csprop_state' if counts else 'unsigned long'} state = csprop_start();",
        move=COUNTING_STEP if counts else FINITE_STEP,
        longest=max(4, *map(len, vocab)),
        vocab="\n".join(
            f"    {{{len(name)}, {_quote(name)}}}, /* {i} */" for i, name in enumerate(vocab)
        ),
        names="\n".join(f"    {_quote(name)}, /* {i} */" for i, name in enumerate(classes)),
        name_lengths=_wrap(map(len, classes)),
        words="1" if automaton.words else "0",
    )


def _quote(text: bytes) -> str:
    """Return a string literal. Octal escapes end after three digits; hexadecimal ones would not end."""
    if len(text) > LONGEST_LITERAL:
        return "(const char[]){" + ", ".join(f"'\\{byte:03o}'" for byte in text) + ", 0}"
    safe = {ord(each): each for each in map(chr, range(32, 127)) if each not in '"\\?'}  # ?: trigraphs
    return '"' + "".join(safe.get(byte) or f"\\{byte:03o}" for byte in text) + '"'


def _fill(name: str, automaton: AnyAutomaton, **parts: object) -> str:
    """Fill in a template."""
    template = files("csprop.automata.export") / "assets" / f"{name}.template"
    what = f"{describe_size(len(automaton), automaton.counters)}, which answers after every token"
    written = "words separated by spaces" if automaton.words else "characters"
    content = template.read_text(encoding="utf-8")
    return Template(content).substitute(parts, what=f"An automaton of {what}", written=written)


def _wrap(numbers: Iterable[object]) -> str:
    """Return numbers, or None, in lines of a table."""
    text = "".join(f"{number}, " for number in numbers)
    return textwrap.fill(text, 96, initial_indent="    ", subsequent_indent="    ")
