"""The guide in docs/: each page is followed from top to bottom in an empty directory.

What stands on a page is of these kinds:
- an indented block that begins with a command is run, line by line. A line's comment may say its
  `exit code` (else 0 is expected), or what it prints after an arrow;
- any other indented block is what the commands before it printed, with … for what is left out;
- Python in fences is executed, all of a page in one namespace;
- C and `text` in fences, and what `NOT_RUN` names, are not run.
"""

import glob
import io
import re
import shlex
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import csprop
from csprop.cli.main import main
from csprop.proof import attempts, examples, limits, lock

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = (
    "index",
    "tour",
    "train",
    "learn",
    "exact",
    "zoo",
    "report",
    "layer",
    "compare",
    "options",
    "extend",
    "how",
    "paper",
)
SLOW = ("tour", "compare")
NOT_RUN = {
    "git": "needs a network",
    "make": "installs",
    "python": "installs",
    "python3": "installs",
    "source": "is of the shell that goes on",
    "torchrun": "is run by tests/training/test_distributed.py",
}
SHELL = ("cat", "cp", "echo", "mv", "rm")
"""Commands that prepare files; the shell runs them."""
FENCES = {"python": "run", "c": "not run: docs/exact.md's main loop", "text": "equations"}


@dataclass(frozen=True)
class Block:
    """A part of a page that is not prose."""

    kind: str  # "commands", "printed", or a fence's language
    lines: list[str]
    number: int  # of its first line


def blocks(page: str) -> Iterator[Block]:
    lines = (DOCS / f"{page}.md").read_text().splitlines()
    number = 0
    while number < len(lines):
        line, first = lines[number], number + 1
        number += 1
        if line.startswith("```"):
            end = lines.index("```", number)
            yield Block(line.removeprefix("```"), lines[number:end], first + 1)
            number = end + 1
        elif line.startswith("    "):
            number -= 1
            taken = []
            while number < len(lines) and (lines[number].startswith("    ") or not lines[number]):
                taken.append(lines[number].removeprefix("    "))
                number += 1
            yield from _parts(taken, first)


def _parts(taken: list[str], first: int) -> Iterator[Block]:
    """One indented block as Markdown has it, cut where commands end and what they print begins."""
    start = 0
    for here in range(1, len(taken) + 1):
        new = here < len(taken) and not taken[here - 1] and _is_command(taken[here])
        changed = here < len(taken) and not taken[here - 1] and _is_command(taken[start])
        if here == len(taken) or new or changed:
            kind = "commands" if _is_command(taken[start]) else "printed"
            yield Block(kind, taken[start:here], first + start)
            start = here


def _is_command(line: str) -> bool:
    word, _, rest = line.partition(" ")
    return word in (*SHELL, *NOT_RUN) or (word == "csprop" and ":" not in rest.split(" ")[0])


class Reader:
    """Someone who follows a page: what the last commands printed, and the names that Python has."""

    def __init__(self, page: str, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self.page, self.capsys, self.monkeypatch = page, capsys, monkeypatch
        self.printed = ""  # by the last command
        self.shown = ""  # by the last block of commands
        self.names: dict[str, Any] = {"__name__": "__main__"}
        self.ran = 0

    def follow(self) -> None:
        for block in blocks(self.page):
            where = f"docs/{self.page}.md:{block.number}"
            if block.kind == "commands":
                self._run_all(iter(block.lines), where)
            elif block.kind == "printed":
                self._compare("\n".join(block.lines), where)
            elif block.kind == "python":
                exec(compile("\n".join(block.lines), where, "exec"), self.names)
                self.ran += 1
            else:
                assert block.kind in FENCES, f"{where}: what is {block.kind!r}?"

    def _run_all(self, lines: Iterator[str], where: str) -> None:
        self.shown = ""
        for line in lines:
            if not line or line.split()[0] in NOT_RUN:
                continue
            if heredoc := re.search(r"<<'(\w+)'$", line):
                line = "\n".join([line, *iter(lambda: next(lines), heredoc[1]), heredoc[1]])
            self._run(line, where)

    def _run(self, line: str, where: str) -> None:
        command, _, comment = line.partition("  #")
        expected = re.search(r"exit code (\d)", comment)
        for each in command.split(" && "):
            code = self._csprop(each) if re.search(r"^csprop|\| csprop", each) else _shell(each)
            assert code == int(expected[1] if expected else 0), f"{where}: {each}: {self.printed}"
            self.ran += 1
        if "→" in comment:
            assert comment.split("→")[1].strip() in self.printed.splitlines(), f"{where}: {line}"

    def _csprop(self, command: str) -> int:
        given, _, own = command.rpartition(" | ")
        text = " ".join(shlex.split(given)[1:]) + "\n"  # of `echo TEXT`
        own, _, target = own.partition(" > ")
        argv = [name for word in shlex.split(own)[1:] for name in _expanded(word)]
        self.monkeypatch.setattr("sys.stdin", io.StringIO(text if given else ""))
        self.capsys.readouterr()
        try:
            code = main(argv)
        except SystemExit as stop:  # --help
            code = int(stop.code or 0)
        said = self.capsys.readouterr()
        self.printed = said.out + said.err
        self.shown += self.printed
        if target:
            Path(target.strip()).write_text(said.out)
        return code

    def _compare(self, shown: str, where: str) -> None:
        """Whatever the lines are broken at."""
        printed = " ".join(self.shown.split())
        for part in shown.split("…"):
            assert " ".join(part.split()) in printed, f"{where}: not printed: {part}\n{self.shown}"


def _expanded(word: str) -> list[str]:
    return sorted(glob.glob(word)) if "*" in word else [word]


def _shell(command: str) -> int:
    return subprocess.run(command, shell=True, check=False).returncode


@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=[pytest.mark.slow] if page in SLOW else []) for page in PAGES]
)
def test_a_page_can_be_followed(
    page: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))  # where `explore` writes
    reader = Reader(page, capsys, monkeypatch)
    reader.follow()
    assert reader.ran >= 2


def test_python_uses_only_names_that_a_fresh_import_has() -> None:
    """In this process other tests have imported more."""
    used = set()
    for page in PAGES:
        for block in blocks(page):
            if block.kind == "python":
                code = [line for line in block.lines if not re.match(r"(from|import) ", line)]
                used |= set(re.findall(r"\bcsprop\.(\w+)", "\n".join(code)))
    assert used
    assert used <= set(csprop.__all__)


def test_blocks_are_told_apart() -> None:
    kinds = [block.kind for block in blocks("train")]
    assert kinds.count("commands") >= 15
    assert kinds.count("printed") >= 7
    assert {block.kind for page in PAGES for block in blocks(page)} == {"commands", "printed", *FENCES}


NUMBERS = {
    "RADII": lock.RADII,
    "RATIO": limits.RATIO,
    "DOUBT": limits.DOUBT,
    "LEAD": examples.LEAD,
    "ROUNDS": attempts.ROUNDS,
}


@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_of_the_guide_is_that_of_the_code(name: str) -> None:
    text = (DOCS / "exact.md").read_text()
    row = re.search(rf"^\| `{name}` \| ([^|]*) \|", text, flags=re.MULTILINE)
    assert row, name
    value = NUMBERS[name]
    values = value if isinstance(value, tuple) else (value,)
    assert tuple(float(each) for each in row[1].split(",")) == values


def test_pictures_and_pages_that_are_named_are_there() -> None:
    for path in DOCS.rglob("*.md"):
        text = re.sub(r"<!--.*?-->", "", path.read_text(), flags=re.DOTALL)
        for name in re.findall(r"\]\(([^)#:]+?)\)", text):
            assert (path.parent / name).exists(), f"{path}: {name}"


def test_every_page_is_in_the_contents() -> None:
    contents = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2]
    named = re.findall(r"[\w/-]+\.md", contents)
    assert sorted(named) == sorted(str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md"))
