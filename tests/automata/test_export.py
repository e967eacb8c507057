"""Every export is run, and says what the automaton says."""

import itertools
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from csprop.automata.automaton import AnyAutomaton, Automaton, CounterAutomaton
from csprop.automata.drawing import draw
from csprop.automata.export import to_c, to_dot, to_python
from csprop.errors import InputError
from tests.automata.test_counting import counter_automata
from tests.helpers import machines

GCC = shutil.which("gcc")
FLAGS = ["-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
NASTY_CHARACTERS = [
    '"', "'", "\\", "?", "/", "*", "%", "{", "}", "<", "&", "$", "_", "0", "é", "漢", "🙂",
]  # fmt: skip
NASTY_WORDS = [
    *NASTY_CHARACTERS, '"""', "'''", "\\n", "*/", "/*", "//", "??/", "??=", "\\x41f", "%s", "{0}",
    "<b>&lt;</b>", "#if", "\\N{BULLET}", "é1", "漢字", "a" * 5000, "\x01", "\x00", "\x7f",
    "\u202e", "\ufeff", "0x", "\\u0041", "$x_1$", "_hidden",
]  # fmt: skip
NASTY_CLASSES = [
    *NASTY_WORDS, "two words", " ", "tab\there", "line\nbreak", "\r", "*/ int x; /*", "??/\n",
]  # fmt: skip
EDGE_SPACES = [
    " ", "\t", "\x1c", "\x85", "\xa0", "\u1680", "\u2003", "\u2028", "\u202f", "\u205f", "\u3000",
]  # fmt: skip

RELAXED = settings(max_examples=16, suppress_health_check=[HealthCheck.function_scoped_fixture])


NAMED = machines.automata(NASTY_CHARACTERS, NASTY_CLASSES, 7) | machines.automata(
    NASTY_WORDS, NASTY_CLASSES, 7, words=True
)


def written(automaton: AnyAutomaton, sequence: list[int], space: str) -> str:
    return (space if automaton.words else "").join(automaton.vocab[token] for token in sequence)


def programs(automaton: AnyAutomaton, folder: Path) -> list[list[str]]:
    """Return the command of each program."""
    source = folder / "automaton.py"
    source.write_text(to_python(automaton), encoding="utf-8")
    started = [[sys.executable, "-I", "-W", "error", str(source)]]
    if GCC:
        code, program = folder / "automaton.c", folder / "automaton"
        code.write_text(to_c(automaton), encoding="utf-8")
        subprocess.run([GCC, *FLAGS, "-o", str(program), str(code)], check=True)
        started.append([str(program)])
    return started


def says(command: list[str], text: bytes) -> tuple[int, bytes, str]:
    done = subprocess.run(command, input=text, capture_output=True, timeout=30)
    return done.returncode, done.stdout, done.stderr.decode().replace("\r\n", "\n")


def two_states(vocab: tuple[str, ...], words: bool) -> Automaton:
    """Return True if the last token was the first of the vocabulary."""
    row = (1, *[0] * (len(vocab) - 1))
    return machines.automaton(vocab, ("no", "yes"), words, 0, (row, row), (0, 1))


@RELAXED
@given(st.data())
def test_programs_answer_alike(tmp_path: Path, data: st.DataObject) -> None:
    automaton = data.draw(NAMED | counter_automata())
    token = st.integers(0, len(automaton.vocab) - 1)
    sequences = data.draw(st.lists(st.lists(token, min_size=1, max_size=12), min_size=1, max_size=6))
    space = data.draw(st.sampled_from(EDGE_SPACES))
    lines = [written(automaton, sequence, space) for sequence in sequences]
    ending = data.draw(st.sampled_from(["", "\n", "\r\n"]))
    text = (("\r\n" if ending == "\r\n" else "\n").join(lines) + ending).encode()
    expected = b"".join(
        automaton.classes[automaton.final(sequence)].encode() + b"\n" for sequence in sequences
    )
    for command in programs(automaton, tmp_path):
        assert says(command, text) == (0, expected, "")


LIBRARY = """
#include <stdio.h>
unsigned long csprop_start(void);
unsigned long csprop_step(unsigned long, unsigned long);
unsigned long csprop_answer(unsigned long);
unsigned long csprop_run(const unsigned short *, size_t, unsigned short *);
int main(void) {
    unsigned short answers[COUNT];
    unsigned long state = csprop_start(), i, end = csprop_run(tokens, COUNT, answers);
    for (i = 0; i < COUNT; i++) {
        state = csprop_step(state, tokens[i]);
        if (csprop_answer(state) != answers[i]) return 1;
        printf("%d ", (int)answers[i]);
    }
    return end == state && csprop_run(tokens, COUNT, NULL) == end ? 0 : 1;
}
"""


def build_library(folder: Path, automaton: AnyAutomaton, tokens: list[int], user: str) -> list[str]:
    """Compile a program that uses the automaton as a library, and return its command."""
    (folder / "automaton.c").write_text(to_c(automaton), encoding="utf-8")
    listed = ", ".join(map(str, tokens))
    head = f"#define COUNT {len(tokens)}\nstatic const unsigned short tokens[] = {{{listed}}};\n"
    (folder / "user.c").write_text(head + user)
    parts = ["user.c"] if '#include "automaton.c"' in user else ["user.c", "automaton.c"]
    sanitised = ["-DCSPROP_NO_MAIN", "-fsanitize=undefined", "-fno-sanitize-recover"]
    subprocess.run([GCC or "", *FLAGS, *sanitised, "-o", "user", *parts], check=True, cwd=folder)
    return [str(folder / "user")]


@pytest.mark.skipif(not GCC, reason="there is no gcc here")
@RELAXED
@given(st.data())
def test_c_as_a_library(tmp_path: Path, data: st.DataObject) -> None:
    automaton = data.draw(NAMED)
    tokens = data.draw(st.lists(st.integers(0, len(automaton.vocab) - 1), min_size=1, max_size=40))
    code, out, _ = says(build_library(tmp_path, automaton, tokens, LIBRARY), b"")
    assert code == 0
    assert [int(each) for each in out.split()] == automaton.run(tokens).tolist()


@RELAXED
@given(st.data())
def test_python_as_a_module(data: st.DataObject) -> None:
    automaton = data.draw(NAMED | counter_automata())
    module: dict[str, Any] = {"__name__": "exported"}
    exec(compile(to_python(automaton), "exported.py", "exec"), module)
    tokens = data.draw(st.lists(st.integers(0, len(automaton.vocab) - 1), min_size=1, max_size=20))
    names = [automaton.vocab[token] for token in tokens]
    expected = automaton.classes[automaton.final(tokens)]
    assert module["predict"](names) == expected
    assert module["predict"](written(automaton, tokens, " ")) == expected
    state, said = module["START"], []
    for token in tokens:
        state = module["step"](state, token)
        counts = isinstance(automaton, CounterAutomaton)
        said.append(module["answer"](state) if counts else module["ANSWER"][state])
    assert said == automaton.run(tokens).tolist()
    for wrong in (-1, len(automaton.vocab)):
        with pytest.raises(ValueError, match="not in the vocabulary"):
            module["step"](state, wrong)
    for empty in ("", [], "  "):
        with pytest.raises(ValueError, match="empty"):
            module["predict"](empty)


UNKNOWN = "the token at position {} is not in the vocabulary"


@pytest.mark.parametrize("words", [False, True])
def test_mistakes_in_the_input(tmp_path: Path, words: bool) -> None:
    space = b" " if words else b""
    cases = [
        (b"", 0, b"", ""),
        (b"a\n", 0, b"yes\n", ""),
        (space.join([b"a", b"b", b"x", b"a"]), 2, b"", f"line 1: {UNKNOWN.format(3)}\n"),
        (b"a\n" + b"b\nx\na\n", 2, b"yes\nno\n", f"line 3: {UNKNOWN.format(1)}\n"),
        (b"a\n\na\n", 2, b"yes\n", "line 2: the sequence is empty\n"),
        (b" \xe3\x80\x80\n", 2, b"", "line 1: the sequence is empty\n"),
        (b"a \xff\n", 2, b"", f"line 1: {UNKNOWN.format(2)}\n"),
        (b"\xc3", 2, b"", f"line 1: {UNKNOWN.format(1)}\n"),
        (b"a \xf0\xe3\x80\x80a", 2, b"", f"line 1: {UNKNOWN.format(2)}\n"),
        (b"a \xc0\xa0 a", 2, b"", f"line 1: {UNKNOWN.format(2)}\n"),
        (b"\xed\xa0\x80", 2, b"", f"line 1: {UNKNOWN.format(1)}\n"),
        (b"\x00", 2, b"", f"line 1: {UNKNOWN.format(1)}\n"),
        (b"\xc3\xa9\r\n", 0, b"no\n", ""),
        (b"a" * 100_000, *((2, b"", f"line 1: {UNKNOWN.format(1)}\n") if words else (0, b"yes\n", ""))),
        (b"a " * 300_000 + b"\nb", 0, b"yes\nno\n", ""),
    ]
    commands = programs(two_states(("a", "b", "é"), words), tmp_path)
    for (text, code, out, error), command in itertools.product(cases, commands):
        assert says(command, text) == (code, out, error), (text[:40], command)


def test_a_token_for_every_byte_and_long_ones(tmp_path: Path) -> None:
    vocab = tuple(chr(i) for i in range(0x300) if not chr(i).isspace())
    for words in (False, True):
        automaton = two_states(vocab, words)
        text = "\n".join(vocab).encode()
        for command in programs(automaton, tmp_path):
            assert says(command, text) == (0, b"yes\n" + b"no\n" * (len(vocab) - 1), "")


def test_c_and_python_hold_only_what_they_should() -> None:
    automaton = two_states(tuple(NASTY_WORDS), True)
    code = to_c(automaton)
    assert code.isascii()
    without_strings = re.sub(r'"(\\.|[^"\\])*"', "", code)
    assert without_strings.count("/*") == without_strings.count("*/")
    assert not re.search(r"\?\?", code)


@RELAXED
@given(NAMED)
def test_dot(automaton: Automaton) -> None:
    text = to_dot(automaton)
    label = r'"(?:[^"\\]|\\[\\"])*"'
    node, edge = rf"  s(\d+) \[label=({label})\];", rf"  s(\d+) -> s(\d+) \[label=({label})\];"
    lines = text.splitlines()
    assert lines[0] == "digraph automaton {"
    assert lines[-1] == "}"
    assert f"  start -> s{automaton.start};" in lines
    nodes = [match for line in lines if (match := re.fullmatch(node, line))]
    arrows = [match for line in lines if (match := re.fullmatch(edge, line))]
    assert len(nodes) == len(automaton)
    ways = {(state, there) for state, row in enumerate(automaton.transitions) for there in row}
    assert sorted((int(each[1]), int(each[2])) for each in arrows) == sorted(ways)
    assert len(lines) == 6 + len(nodes) + len(arrows)
    assert all(line.isprintable() for line in lines)
    assert "&lt;" not in text.replace("&amp;lt;", "")


def test_dot_merges_parallel_arrows() -> None:
    text = to_dot(machines.automaton(("0", "1", '"'), ("even",), False, 0, ((0, 0, 0),), (0,)))
    assert '  s0 -> s0 [label="0, 1, \\""];' in text


def opened(path: Path) -> Any:
    from matplotlib.image import imread

    return imread(path)


@pytest.mark.parametrize("states", [1, 2, 12, 60])
def test_drawings(tmp_path: Path, states: int) -> None:
    generator = np.random.default_rng(states)
    rows = tuple(map(tuple, generator.integers(0, states, (states, 3)).tolist()))
    said = tuple(generator.integers(0, 11, states).tolist())
    classes = ("_a", "$x", "\\frac", "漢", *(f"a long class name {i}" for i in range(7)))
    automaton = machines.automaton(("$_", "_", "🙂"), classes, False, 0, rows, said)
    draw(automaton, tmp_path / "one.png")
    picture = opened(tmp_path / "one.png")
    assert min(picture.shape[:2]) > 100
    assert len({tuple(pixel) for pixel in picture[::4, ::4].reshape(-1, picture.shape[-1])}) > 20


def test_drawings_refused_and_other_formats(tmp_path: Path) -> None:
    small = two_states(("a",), False)
    with pytest.raises(InputError, match=r"\.png"):
        draw(small, tmp_path / "one.xyz")
    with pytest.raises(InputError, match="cannot be written"):
        draw(small, tmp_path / "nowhere" / "one.png")
    large = machines.automaton(("a",), ("x",), False, 0, ((0,),) * 401, (0,) * 401)
    with pytest.raises(InputError, match="too many"):
        draw(large, tmp_path / "one.png")
    nobody = machines.automaton(("a",), ("x",), False, 0, ((1,), (1,)), (None, 0))
    draw(nobody, str(tmp_path / "one.svg"))
    assert "<svg" in (tmp_path / "one.svg").read_text()
    draw(nobody, tmp_path / "one.pdf")
    assert (tmp_path / "one.pdf").read_bytes().startswith(b"%PDF")


def test_imports_wait_and_pyplot_is_left_alone(tmp_path: Path) -> None:
    code = (
        "import sys; from csprop.automata import automaton, export, drawing; "
        "assert not {'matplotlib', 'automata', 'torch'} & set(sys.modules); "
        "a = automaton.Automaton(transitions=((0,),), outputs=(0,), vocab=('a',), classes=('x',)); "
        "drawing.draw(a, sys.argv[1]); assert 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "one.png")], check=True)
