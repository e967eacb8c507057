"""Export to C99, without any library."""

from csprop.automata.automaton import Automaton
from csprop.automata.counter_automaton import CounterAutomaton
from csprop.automata.export.templates import filled, headed, wrapped

LONGEST_LITERAL = 1000
"""In bytes. C99 guarantees string literals of up to 4,095 characters only."""
FINITE_STEP = "state = csprop_step(state, (unsigned long)number);"
COUNTING_STEP = """if (csprop_step(&state, (unsigned long)number)) {
                    fflush(stdout);
                    fprintf(stderr, "line %lu: a count exceeds 2^62 at position %lu\\n", line,
                            position);
                    return 2;
                }"""


def to_c(automaton: Automaton | CounterAutomaton) -> str:
    """The automaton as a C program that reads sequences from stdin; with CSPROP_NO_MAIN, a library."""
    counts = isinstance(automaton, CounterAutomaton)
    vocab = [name.encode() for name in automaton.vocab]
    return headed(
        "automaton.c.template",
        automaton,
        states=len(automaton),
        tokens=len(vocab),
        classes=len(automaton.classes),
        machine=_counting(automaton) if counts else _finite(automaton),
        begin=f"{'csprop_state' if counts else 'unsigned long'} state = csprop_start();",
        move=COUNTING_STEP if counts else FINITE_STEP,
        longest=max(4, *map(len, vocab)),
        vocab="\n".join(
            f"    {{{len(name)}, {_string(name)}}}, /* {i} */" for i, name in enumerate(vocab)
        ),
        names="\n".join(
            f"    {_string(name.encode())}, /* {i} */" for i, name in enumerate(automaton.classes)
        ),
        name_lengths=wrapped(str(len(name.encode())) for name in automaton.classes),
        words="1" if automaton.words else "0",
    )


def _finite(automaton: Automaton) -> str:
    rows = [", ".join(map(str, row)) for row in automaton.transitions]
    return filled("finite.c.template", **_machine(automaton, rows))


def _counting(automaton: CounterAutomaton) -> str:
    rows = [
        ", ".join(f"{{{', '.join(map(str, views))}}}" for views in row)
        for row in automaton.to_json()["transitions"]
    ]
    # C has no arrays without elements: a machine without counters gets one that stays 0.
    added = [", ".join(map(str, row)) or "0" for row in automaton.increments]
    return filled(
        "counting.c.template",
        counters=max(1, automaton.counters),
        window=automaton.window if automaton.counters else 0,
        views=automaton.views,
        added="\n".join(f"    {{{row}}}, /* {i} */" for i, row in enumerate(added)),
        **_machine(automaton, rows),
    )


def _machine(automaton: Automaton | CounterAutomaton, rows: list[str]) -> dict[str, object]:
    """The parts of a machine's template, from the rows of its states."""
    outputs = [0 if output is None else output for output in automaton.outputs]
    return {
        "start": automaton.start,
        "state": "unsigned short" if len(automaton) <= 2**16 else "unsigned long",
        "rows": "\n".join(
            f"    {{{row}}}, /* {state}{_comment(automaton, state)} */"
            for state, row in enumerate(rows)
        ),
        "answers": wrapped(map(str, outputs)),
    }


def _comment(automaton: Automaton | CounterAutomaton, state: int) -> str:
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
