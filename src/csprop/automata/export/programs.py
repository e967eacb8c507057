"""Export to Python and to C99, without any library: templates in the directory assets."""

from collections.abc import Iterable
from importlib.resources import files
from string import Template

from csprop.automata.automaton import AnyAutomaton, Automaton, CounterAutomaton

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
    counts = isinstance(automaton, CounterAutomaton)
    return _fill_head(
        "automaton.py.template",
        automaton,
        vocab="\n".join(f"    {name!r},  # {i}" for i, name in enumerate(automaton.vocab)),
        classes="\n".join(f"    {name!r},  # {i}" for i, name in enumerate(automaton.classes)),
        machine=_python_machine(automaton),
        move="step(state, NUMBER[name])" if counts else "NEXT[state][NUMBER[name]]",
        answer="answer(state)" if counts else "ANSWER[state]",
        read="text.split()" if automaton.words else "(each for each in text if not each.isspace())",
    )


def _python_machine(automaton: AnyAutomaton) -> str:
    def rows(table: Iterable[Iterable[object]]) -> str:
        return "\n".join(f"    {_tuple(row)},  # {number}" for number, row in enumerate(table))

    parts = {"start": automaton.start, "answers": _wrap(map(str, automaton.outputs))}
    if isinstance(automaton, Automaton):
        return _fill("finite.py.template", rows=rows(automaton.transitions), **parts)
    table = [[_tuple(views) for views in row] for row in automaton.to_json()["transitions"]]
    return _fill(
        "counting.py.template",
        zeros=_tuple([0] * automaton.counters),
        window=automaton.window,
        added=rows(automaton.increments),
        rows=rows(table),
        **parts,
    )


def _tuple(values: Iterable[object]) -> str:
    """Write a tuple as Python does, also of one value or none."""
    return f"({''.join(f'{value}, ' for value in values).rstrip()})"


def to_c(automaton: AnyAutomaton) -> str:
    """Return the automaton as a C program that reads from stdin; with CSPROP_NO_MAIN, a library."""
    counts = isinstance(automaton, CounterAutomaton)
    vocab, classes = ([name.encode() for name in each] for each in (automaton.vocab, automaton.classes))
    return _fill_head(
        "automaton.c.template",
        automaton,
        states=len(automaton),
        tokens=len(vocab),
        classes=len(classes),
        machine=_c_machine(automaton),
        begin=f"{'csprop_state' if counts else 'unsigned long'} state = csprop_start();",
        move=COUNTING_STEP if counts else FINITE_STEP,
        longest=max(4, *map(len, vocab)),
        vocab="\n".join(
            f"    {{{len(name)}, {_string(name)}}}, /* {i} */" for i, name in enumerate(vocab)
        ),
        names="\n".join(f"    {_string(name)}, /* {i} */" for i, name in enumerate(classes)),
        name_lengths=_wrap(str(len(name)) for name in classes),
        words="1" if automaton.words else "0",
    )


def _c_machine(automaton: AnyAutomaton) -> str:
    parts: dict[str, object] = {
        "start": automaton.start,
        "state": "unsigned short" if len(automaton) <= 2**16 else "unsigned long",
        "answers": _wrap("0" if output is None else str(output) for output in automaton.outputs),
    }
    if isinstance(automaton, Automaton):
        rows = [", ".join(map(str, row)) for row in automaton.transitions]
    else:
        rows = [
            ", ".join(f"{{{', '.join(map(str, views))}}}" for views in row)
            for row in automaton.to_json()["transitions"]
        ]
        # C has no arrays without elements: a machine without counters gets one that stays 0.
        added = [", ".join(map(str, row)) or "0" for row in automaton.increments]
        parts |= {
            "counters": max(1, automaton.counters),
            "window": automaton.window if automaton.counters else 0,
            "views": automaton.views,
            "added": "\n".join(f"    {{{row}}}, /* {i} */" for i, row in enumerate(added)),
        }
    lines = (
        f"    {{{row}}}, /* {state}{_comment(automaton, state)} */" for state, row in enumerate(rows)
    )
    template = "finite.c.template" if isinstance(automaton, Automaton) else "counting.c.template"
    return _fill(template, rows="\n".join(lines), **parts)


def _comment(automaton: AnyAutomaton, state: int) -> str:
    """Return the answer of a state, escaped for a comment."""
    output = automaton.outputs[state]
    if output is None:
        return ": nothing read yet"
    name = automaton.classes[output].encode()
    text = _string(name[:60]).replace("/", "\\057")
    return f": {text}{'...' if len(name) > 60 else ''}"


def _string(text: bytes) -> str:
    """Return a string literal. Octal escapes end after three digits; hexadecimal ones would not end."""
    if len(text) > LONGEST_LITERAL:
        return "(const char[]){" + ", ".join(f"'\\{byte:03o}'" for byte in text) + ", 0}"
    safe = {ord(each): each for each in map(chr, range(32, 127)) if each not in '"\\?'}  # ?: trigraphs
    return '"' + "".join(safe.get(byte) or f"\\{byte:03o}" for byte in text) + '"'


def _fill(name: str, **parts: object) -> str:
    """Fill in a template."""
    template = (files("csprop.automata.export") / "assets" / name).read_text(encoding="utf-8")
    return Template(template).substitute(parts)


def _fill_head(name: str, automaton: AnyAutomaton, **parts: object) -> str:
    """Fill in a template that describes the automaton."""
    counts, kind = [("state", len(automaton)), ("token", len(automaton.vocab))], "A finite automaton"
    if isinstance(automaton, CounterAutomaton):
        counts.insert(1, ("counter", automaton.counters))
        kind = "An automaton"
    sizes = ", ".join(f"{count} {noun}{'' if count == 1 else 's'}" for noun, count in counts)
    many = "es" if len(automaton.classes) > 1 else ""
    what = f"{kind} of {sizes} and {len(automaton.classes)} class{many}"
    written = "words separated by spaces" if automaton.words else "characters"
    return _fill(name, what=what, written=written, **parts)


def _wrap(parts: Iterable[str], width: int = 90) -> str:
    """Wrap a comma-separated list at about `width` columns."""
    lines = [""]
    for part in parts:
        if len(lines[-1]) + len(part) > width:
            lines.append("")
        lines[-1] += f"{part}, "
    return "\n".join(f"    {line.rstrip()}" for line in lines)
