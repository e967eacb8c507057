"""An automaton as a file for others: Graphviz, Python or C, each complete in itself."""

from collections.abc import Iterable

from csprop.exact.automaton import Automaton

LONGEST_LITERAL = 1000
"""Bytes; C99 promises no string longer than 4,095 characters."""


def to_dot(automaton: Automaton) -> str:
    """For Graphviz: a circle a state with its answer, an arrow for all tokens between two states."""
    lines = ["digraph automaton {", "  rankdir=LR;", "  node [shape=circle];"]
    lines += ["  start [shape=point];", f"  start -> s{automaton.start};"]
    for state, answer in enumerate(automaton.answers):
        lines.append(f"  s{state} [label={_dot('' if answer is None else automaton.classes[answer])}];")
    for state, row in enumerate(automaton.transitions):
        for there, tokens in edges(row).items():
            label = ", ".join(automaton.vocab[token] for token in tokens)
            lines.append(f"  s{state} -> s{there} [label={_dot(label)}];")
    return "\n".join([*lines, "}", ""])


def edges(row: Iterable[int]) -> dict[int, list[int]]:
    """Where a state leads to, and the tokens that lead there."""
    found: dict[int, list[int]] = {}
    for token, there in enumerate(row):
        found.setdefault(there, []).append(token)
    return found


def _dot(text: str) -> str:
    """A quoted label. Graphviz reads entities (`&lt;`) even there, and NUL ends its input."""
    escaped = visible(text).replace("&", "&amp;").replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def visible(text: str) -> str:
    """A name for a picture: what cannot be seen as an escape."""
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)


def to_python(automaton: Automaton) -> str:
    """A module with `step` and `predict`, and a program that reads sequences from stdin."""
    read = "text.split()" if automaton.words else "(each for each in text if not each.isspace())"
    return _PYTHON.format(
        what=_what(automaton),
        written="words with spaces between" if automaton.words else "characters",
        vocab=_python_list(automaton.vocab),
        classes=_python_list(automaton.classes),
        start=automaton.start,
        rows="\n".join(
            f"    ({', '.join(map(str, row))},),  # {state}"
            for state, row in enumerate(automaton.transitions)
        ),
        answers=_wrapped(map(str, automaton.answers)),
        read=read,
    )


def to_c(automaton: Automaton) -> str:
    """A C99 file: a program that reads sequences from stdin, or a library with CSPROP_NO_MAIN."""
    vocab = [name.encode() for name in automaton.vocab]
    longest = max(4, *map(len, vocab))
    said = [0 if answer is None else answer for answer in automaton.answers]
    return _C.format(
        what=_what(automaton),
        written="words with spaces between" if automaton.words else "characters",
        states=len(automaton),
        tokens=len(vocab),
        classes=len(automaton.classes),
        start=automaton.start,
        longest=longest,
        state="unsigned short" if len(automaton) <= 2**16 else "unsigned long",
        vocab="\n".join(
            f"    {{{len(name)}, {_c_string(name)}}}, /* {i} */" for i, name in enumerate(vocab)
        ),
        names="\n".join(
            f"    {_c_string(name.encode())}, /* {i} */" for i, name in enumerate(automaton.classes)
        ),
        rows="\n".join(
            f"    {{{', '.join(map(str, row))}}}, /* {state}{_c_answer(automaton, state)} */"
            for state, row in enumerate(automaton.transitions)
        ),
        name_lengths=_wrapped(str(len(name.encode())) for name in automaton.classes),
        answers=_wrapped(map(str, said)),
        words="1" if automaton.words else "0",
    )


def _what(automaton: Automaton) -> str:
    parts = [("state", len(automaton)), ("token", len(automaton.vocab))]
    counts = [f"{count} {name}{'s' if count > 1 else ''}" for name, count in parts]
    many = "es" if len(automaton.classes) > 1 else ""
    return f"A finite automaton of {', '.join(counts)} and {len(automaton.classes)} class{many}"


def _wrapped(parts: Iterable[str], width: int = 90) -> str:
    lines = [""]
    for part in parts:
        if len(lines[-1]) + len(part) > width:
            lines.append("")
        lines[-1] += f"{part}, "
    return "\n".join(f"    {line.rstrip()}" for line in lines)


def _python_list(names: Iterable[str]) -> str:
    return "\n".join(f"    {name!r},  # {i}" for i, name in enumerate(names))


def _c_answer(automaton: Automaton, state: int) -> str:
    """The answer for a comment, which must neither end nor hold the beginning of another."""
    answer = automaton.answers[state]
    if answer is None:
        return ": nothing read yet"
    name = automaton.classes[answer].encode()
    shown = _c_string(name[:60]).replace("/", "\\057")
    return f": {shown}{'...' if len(name) > 60 else ''}"


def _c_string(text: bytes) -> str:
    """A literal. Octal escapes end after three digits, where hexadecimal ones would run on."""
    if len(text) > LONGEST_LITERAL:
        return "(const char[]){" + ", ".join(f"'\\{byte:03o}'" for byte in text) + ", 0}"
    plain = {ord(each): each for each in map(chr, range(32, 127)) if each not in '"\\?'}  # ?: trigraphs
    return '"' + "".join(plain.get(byte) or f"\\{byte:03o}" for byte in text) + '"'


_PYTHON = '''\
"""{what}, which answers after every token.

Written by csprop. It needs nothing but Python: import `step` and `predict` from it, or run it with
one sequence a line on stdin, as {written}; it prints the class of each.
"""

import sys

VOCAB = (
{vocab}
)
CLASSES = (
{classes}
)
START = {start}
# NEXT[state][token] is the next state.
NEXT = (
{rows}
)
# ANSWER[state] is a class; None where nothing has been read.
ANSWER = (
{answers}
)
NUMBER = {{name: number for number, name in enumerate(VOCAB)}}


def step(state, token):
    """The state after one more token, both as numbers."""
    if not 0 <= token < len(VOCAB):
        raise ValueError(f"token {{token}} is not in the vocabulary")
    return NEXT[state][token]


def tokens(text):
    """A written sequence as its tokens."""
    return {read}


def predict(sequence):
    """The class of a sequence: a text, or any iterable of tokens."""
    state, position = START, 0
    for position, name in enumerate(tokens(sequence) if isinstance(sequence, str) else sequence, 1):
        if name not in NUMBER:
            raise ValueError(f"the token at position {{position}} is not in the vocabulary")
        state = NEXT[state][NUMBER[name]]
    if not position:
        raise ValueError("the sequence is empty")
    return CLASSES[ANSWER[state]]


def main():
    out = sys.stdout.buffer
    for number, line in enumerate(sys.stdin.buffer, 1):
        try:
            # Bytes that are no UTF-8 become characters that are in no vocabulary.
            answer = predict(line.decode("utf-8", "surrogateescape"))
        except ValueError as error:
            out.flush()
            print(f"line {{number}}: {{error}}", file=sys.stderr)
            return 2
        out.write(answer.encode("utf-8") + b"\\n")
        out.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
'''

_C = """\
/* {what}, which answers after every token.
 *
 * Written by csprop. C99, and nothing else is needed:
 *
 *     cc -std=c99 -O2 -o automaton this_file.c && ./automaton < sequences.txt
 *
 * It reads one sequence a line, as {written}, and prints the class of each.
 * With -DCSPROP_NO_MAIN it is a library: csprop_start, csprop_step, csprop_answer, csprop_run,
 * csprop_token (text to number) and csprop_class (number to text).
 */
#include <stddef.h>
#include <string.h>

#define STATES {states}
#define TOKENS {tokens}
#define CLASSES {classes}

/* Where a state goes on: NEXT[state][token]. */
static const {state} NEXT[STATES][TOKENS] = {{
{rows}
}};

/* The class that a state answers. */
static const unsigned short ANSWER[STATES] = {{
{answers}
}};

/* Texts are UTF-8. */
static const struct {{
    size_t length;
    const char *text;
}} VOCAB[TOKENS] = {{
{vocab}
}};

static const char *const NAMES[CLASSES] = {{
{names}
}};
static const size_t NAME_LENGTHS[CLASSES] = {{
{name_lengths}
}};

unsigned long csprop_start(void);
unsigned long csprop_step(unsigned long state, unsigned long token);
unsigned long csprop_answer(unsigned long state);
unsigned long csprop_run(const unsigned short *tokens, size_t count, unsigned short *answers);
long csprop_token(const char *text, size_t length);
const char *csprop_class(unsigned long answer, size_t *length);

unsigned long csprop_start(void) {{ return {start}; }}

/* The state after one more token. The state must be one, and the token below TOKENS. */
unsigned long csprop_step(unsigned long state, unsigned long token) {{ return NEXT[state][token]; }}

/* The class that a state answers; of the start it means nothing. */
unsigned long csprop_answer(unsigned long state) {{ return ANSWER[state]; }}

/* The state after a whole sequence; the answer after every token goes to `answers`, if not null. */
unsigned long csprop_run(const unsigned short *tokens, size_t count, unsigned short *answers) {{
    unsigned long state = csprop_start();
    size_t i;
    for (i = 0; i < count; i++) {{
        state = NEXT[state][tokens[i]];
        if (answers) answers[i] = ANSWER[state];
    }}
    return state;
}}

/* The number of a token, or -1. */
long csprop_token(const char *text, size_t length) {{
    long i;
    for (i = 0; i < TOKENS; i++)
        if (VOCAB[i].length == length && memcmp(VOCAB[i].text, text, length) == 0) return i;
    return -1;
}}

/* The name of a class, ended by 0; its length goes to `length`, if not null. */
const char *csprop_class(unsigned long answer, size_t *length) {{
    if (length) *length = NAME_LENGTHS[answer];
    return NAMES[answer];
}}

#ifndef CSPROP_NO_MAIN
#include <stdio.h>

#define WORDS {words}   /* whether tokens are words, rather than characters */
#define LONGEST {longest} /* bytes of a token */

/* One character of UTF-8; 0 bytes at the end. What is no UTF-8 comes out as it is, and is no token. */
static size_t read_character(char bytes[4]) {{
    int byte = getchar();
    size_t length = 0, wanted;
    if (byte == EOF) return 0;
    wanted = byte < 0xC0 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
    bytes[length++] = (char)byte;
    while (length < wanted) {{
        byte = getchar();
        if (byte < 0x80 || byte >= 0xC0) {{
            if (byte != EOF) ungetc(byte, stdin);
            break;
        }}
        bytes[length++] = (char)byte;
    }}
    return length;
}}

/* Everything that Unicode calls white space. */
static int is_space(const char *bytes, size_t length) {{
    static const char *const wide[] = {{
        "\\302\\205", "\\302\\240", "\\341\\232\\200", "\\342\\200\\250", "\\342\\200\\251",
        "\\342\\200\\257", "\\342\\201\\237", "\\343\\200\\200",
    }};
    const unsigned char *b = (const unsigned char *)bytes;
    size_t i;
    if (length == 1) return b[0] == ' ' || (b[0] >= 9 && b[0] <= 13) || (b[0] >= 28 && b[0] <= 31);
    if (length == 3 && b[0] == 0xE2 && b[1] == 0x80 && b[2] <= 0x8A) return 1;
    for (i = 0; i < sizeof wide / sizeof *wide; i++)
        if (strlen(wide[i]) == length && memcmp(wide[i], bytes, length) == 0) return 1;
    return 0;
}}

static int complain(unsigned long line, unsigned long position) {{
    fflush(stdout);
    if (position)
        fprintf(stderr, "line %lu: the token at position %lu is not in the vocabulary\\n", line,
                position);
    else
        fprintf(stderr, "line %lu: the sequence is empty\\n", line);
    return 2;
}}

int main(void) {{
    char token[LONGEST], bytes[4];
    unsigned long line, position;
    size_t length, held;
    for (line = 1;; line++) {{
        unsigned long state = csprop_start();
        int any = 0, ends = 0, too_long = 0;
        position = 0;
        held = 0;
        while (!ends) {{
            int space;
            length = read_character(bytes);
            any |= length > 0;
            ends = length == 0 || (length == 1 && bytes[0] == '\\n');
            space = ends || is_space(bytes, length);
            if (!space) {{
                /* A token longer than all there are need not be kept to be unknown. */
                too_long |= held + length > LONGEST;
                if (!too_long) memcpy(token + held, bytes, length);
                if (!too_long) held += length;
            }}
            if ((space || !WORDS) && (held || too_long)) {{
                long number = too_long ? -1 : csprop_token(token, held);
                position++;
                if (number < 0) return complain(line, position);
                state = csprop_step(state, (unsigned long)number);
                held = 0;
            }}
        }}
        if (!any) return 0;
        if (!position) return complain(line, 0);
        {{
            size_t size;
            const char *name = csprop_class(csprop_answer(state), &size);
            fwrite(name, 1, size, stdout);
            putchar('\\n');
            fflush(stdout);
        }}
    }}
}}
#endif
"""
