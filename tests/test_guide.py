"""The README and the guide in docs/: each page is followed from top to bottom in an empty directory.

A page consists of prose and of blocks:
- an indented block that begins with a command is run, line by line. The comment of a line may state its
  `exit code` (otherwise 0 is expected), or a line of its output after an arrow;
- any other indented block is the output of the commands before it, with … for omissions;
- Python in fences is executed, in one namespace for the page;
- C and `text` in fences, and the commands in `NOT_RUN`, are not run.

The site is built without a warning, and read from the disk in a real browser.
"""

import glob
import io
import os
import re
import runpy
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import csprop
from csprop.cli.main import main
from csprop.proof import attempts, limits, lock
from csprop.training import labelled
from tests.helpers.browser import Tab, violations

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = ("index", "tour", "train", "learn", "exact", "zoo", "report", "layer", "compare", "options",
         "extend", "how", "paper")  # fmt: skip
SLOW = ("tour", "compare")
NOT_RUN = ("git", "make", "python", "python3", "source")
"""Commands that install, need a network, or change the shell."""
SHELL = ("cat", "cp", "echo", "mv", "rm")
"""Commands that prepare files; the shell runs them."""
FENCES = ("python", "c", "text")
"""Python is run, the C of docs/exact.md and equations are not."""


class Block(NamedTuple):
    """A part of a page that is not prose: its first line, and commands, printed or a language."""

    kind: str
    lines: list[str]
    number: int


def read_blocks(page: str) -> Iterator[Block]:
    path = ROOT / "README.md" if page == "README" else DOCS / f"{page}.md"
    lines = path.read_text().splitlines()
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
            block = []
            while number < len(lines) and (lines[number].startswith("    ") or not lines[number]):
                block.append(lines[number].removeprefix("    "))
                number += 1
            yield from _split(block, first)


def _split(lines: list[str], first: int) -> Iterator[Block]:
    """Cut one indented block of Markdown where commands end and their output begins."""
    start = 0
    for here in range(1, len(lines) + 1):
        end = here == len(lines)
        gap = not end and not lines[here - 1]
        if end or (gap and (_is_command(lines[here]) or _is_command(lines[start]))):
            kind = "commands" if _is_command(lines[start]) else "printed"
            yield Block(kind, lines[start:here], first + start)
            start = here


def _is_command(line: str) -> bool:
    word, _, rest = line.partition(" ")
    return word in (*SHELL, *NOT_RUN) or (word == "csprop" and ":" not in rest.split(" ")[0])


class Reader:
    """A reader who follows a page, with the output of the last commands and the names of Python."""

    def __init__(self, page: str, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self.page, self.capsys, self.monkeypatch = page, capsys, monkeypatch
        self.printed = ""  # by the last command
        self.shown = ""  # by the last block of commands
        self.names: dict[str, Any] = {"__name__": "__main__"}
        self.count = 0  # of commands and blocks of Python that ran

    def follow(self) -> None:
        for block in read_blocks(self.page):
            where = f"{self.page}.md:{block.number}"
            if block.kind == "commands":
                self._run_all(iter(block.lines), where)
            elif block.kind == "printed":
                self._compare("\n".join(block.lines), where)
            elif block.kind == "python":
                exec(compile("\n".join(block.lines), where, "exec"), self.names)
                self.count += 1
            else:
                assert block.kind in FENCES, f"{where}: unknown fence {block.kind!r}"

    def _run_all(self, lines: Iterator[str], where: str) -> None:
        self.shown = ""
        for line in lines:
            if not line or line.split()[0] in NOT_RUN:
                continue
            if heredoc := re.search(r"<<'(\w+)'$", line):
                line = "\n".join([line, *iter(lambda: next(lines), heredoc[1]), heredoc[1]])
            self.run(line, where)

    def run(self, line: str, where: str) -> None:
        command, _, comment = line.partition("  #")
        expected = re.search(r"exit code (\d)", comment)
        for each in command.split(" && "):
            code = self._csprop(each) if re.search(r"^csprop|\| csprop", each) else _shell(each)
            assert code == int(expected[1] if expected else 0), f"{where}: {each}: {self.printed}"
            self.count += 1
        if "→" in comment:
            assert comment.split("→")[1].strip() in self.printed.splitlines(), f"{where}: {line}"

    def _csprop(self, command: str) -> int:
        echo, _, own = command.rpartition(" | ")
        text = " ".join(shlex.split(echo)[1:]) + "\n"
        own, _, target = own.partition(" > ")
        words = shlex.split(own)[1:]
        argv = [name for word in words for name in (sorted(glob.glob(word)) if "*" in word else [word])]
        self.monkeypatch.setattr("sys.stdin", io.StringIO(text if echo else ""))
        self.capsys.readouterr()
        try:
            code = main(argv)
        except SystemExit as stop:  # --help
            code = int(stop.code or 0)
        output = self.capsys.readouterr()
        self.printed = output.out + output.err
        self.shown += self.printed
        if target:
            Path(target.strip()).write_text(output.out)
        return code

    def _compare(self, shown: str, where: str) -> None:
        """Compare words: lines may be broken elsewhere."""
        printed = " ".join(self.shown.split())
        for part in shown.split("…"):
            assert " ".join(part.split()) in printed, f"{where}: not printed: {part}\n{self.shown}"


def _shell(command: str) -> int:
    return subprocess.run(command, shell=True, check=False).returncode


@pytest.fixture
def follow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[[str], Reader]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))  # where `explore` writes

    def follow(page: str) -> Reader:
        reader = Reader(page, capsys, monkeypatch)
        reader.follow()
        return reader

    return follow


@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=[pytest.mark.slow] if page in SLOW else []) for page in PAGES]
)
def test_a_page_can_be_followed(page: str, follow: Callable[[str], Reader]) -> None:
    assert follow(page).count >= 2


def test_the_readme_can_be_followed(follow: Callable[[str], Reader]) -> None:
    reader = follow("README")
    assert reader.count == 3
    assert len(reader.names["learned"].suspects) == 8
    assert reader.names["y"].shape == (8, 100, 32)
    text = (ROOT / "README.md").read_text()
    (row,) = re.findall(r"`(\{.*\})`", text)
    assert row in Path("events.jsonl").read_text().splitlines()
    predict, automaton = re.findall(r"`(csprop (?:predict|automaton) .*?)`", text)
    reader.run(f"echo fail fail fail ok | {predict}", "README.md")
    assert reader.printed.startswith("locked\n")
    reader.run(automaton, "README.md")
    assert "static const" in reader.printed


def test_python_uses_only_names_that_a_fresh_import_has() -> None:
    """Other tests of this process import more."""
    blocks = [block for page in PAGES for block in read_blocks(page) if block.kind == "python"]
    lines = [line for block in blocks for line in block.lines if not re.match("(from|import) ", line)]
    names = set(re.findall(r"\bcsprop\.(\w+)", "\n".join(lines)))
    assert names
    assert names <= set(csprop.__all__)


NUMBERS = {
    "RADII": lock.RADII, "RATIO": limits.RATIO, "DOUBT": limits.DOUBT, "LEAD": labelled.LEAD,
    "ROUNDS": attempts.ROUNDS,
}  # fmt: skip


@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_of_the_guide_agrees_with_the_code(name: str) -> None:
    text = (DOCS / "exact.md").read_text()
    row = re.search(rf"^\| `{name}` \| ([^|]*) \|", text, flags=re.MULTILINE)
    assert row, name
    value = NUMBERS[name]
    values = value if isinstance(value, tuple) else (value,)
    assert tuple(float(each) for each in row[1].split(",")) == values


def test_linked_pictures_and_pages_exist() -> None:
    for path in DOCS.rglob("*.md"):
        text = re.sub(r"<!--.*?-->", "", path.read_text(), flags=re.DOTALL)
        for name in re.findall(r"\]\(([^)#:]+?)\)", text):
            assert (path.parent / name).exists(), f"{path}: {name}"


def test_every_page_is_in_the_contents() -> None:
    contents = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2]
    named = re.findall(r"[\w/-]+\.md", contents)
    assert sorted(named) == sorted(str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md"))


NAMES = sorted(path.relative_to(DOCS).with_suffix("").as_posix() for path in DOCS.rglob("*.md"))
WIDE, NARROW = 1440, 390


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if find_spec("mkdocstrings") is None or find_spec("material") is None:
        pytest.skip("mkdocs is not whole: make setup")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    quiet = os.environ | {"NO_MKDOCS_2_WARNING": "1"}  # as in the Makefile
    built = subprocess.run(command, cwd=ROOT, env=quiet, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    assert "WARNING" not in built.stderr
    return folder


@pytest.fixture
def read(browser: Any, site: Path) -> Iterator[Callable[..., Tab]]:
    """Open a page with the network off; only files may be asked for, and the console stays empty."""
    tabs: list[Tab] = []

    def visit(name: str, width: int = WIDE, **options: Any) -> Tab:
        size = {"width": width, "height": 900}
        context = browser.new_context(viewport=size, offline=True, reduced_motion="reduce", **options)
        tab = Tab(context.new_page())
        tab.page.on("console", lambda message: tab.complaints.append(message.text))
        tab.page.on("pageerror", lambda error: tab.complaints.append(str(error)))
        tab.page.on("request", lambda request: tab.requests.append(request.url))
        tab.page.goto((site / f"{name}.html").as_uri())
        tabs.append(tab)
        return tab

    yield visit
    for tab in tabs:
        assert tab.complaints == []
        assert [url for url in tab.requests if not url.startswith(("file:", "data:"))] == []
        tab.page.context.close()


@pytest.mark.slow
def test_no_file_names_another_host(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > len(NAMES)  # and 404.html
    for page in pages:
        loaded = re.findall(r"<(?:script|link|img)\b[^>]*?(?:src|href)=\"([^\"]*)", page.read_text())
        assert loaded
        assert not [each for each in loaded if re.match(r"(https?:)?//", each)], page
    for style in site.rglob("*.css"):
        assert not re.search(r"(url\(|@import)\s*[\"']?(https?:)?//", style.read_text()), style


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_page_is_accessible_and_as_wide_as_the_screen(name: str, read: Callable[..., Tab]) -> None:
    for scheme, width in (("light", WIDE), ("dark", NARROW)):
        page = read(name, width, color_scheme=scheme).page
        assert page.evaluate("document.documentElement.scrollWidth") <= width, scheme
        assert violations(page) == [], scheme


@pytest.mark.slow
@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_what_is_searched_for_is_found_without_a_server(width: int, read: Callable[..., Tab]) -> None:
    tab = read("index", width)
    if width == NARROW:
        tab.page.locator("label.md-header__button[for=__search]").click()
    tab.page.get_by_role("textbox", name="Search").click()
    tab.page.keyboard.type("counterexample")
    first = tab.page.locator(".md-search-result__link").first
    first.wait_for()
    assert violations(tab.page) == []
    assert "/notes/" not in first.get_attribute("href"), "the guide comes first"
    first.click()
    tab.page.wait_for_url("**/*.html?h=*")
    assert "counterexample" in tab.page.locator("article").inner_text()


@pytest.mark.slow
def test_colours_are_those_of_the_system_until_a_reader_chooses(read: Callable[..., Tab]) -> None:
    grounds = []
    for scheme in ("light", "dark"):
        page = read("index", color_scheme=scheme).page
        for _ in range(4):  # the system's, light, dark, and the system's again
            grounds.append(page.evaluate("getComputedStyle(document.body).backgroundColor"))
            page.locator("label[for^=__palette]:not([hidden])").click()
    light, dark = "rgb(255, 255, 255)", "rgb(20, 24, 28)"
    assert grounds == [light, light, dark, light, dark, light, dark, dark]


@pytest.mark.slow
def test_the_menu_of_a_narrow_screen_is_accessible(read: Callable[..., Tab]) -> None:
    page = read("learn", NARROW).page
    page.locator("label.md-header__button[for=__drawer]").click()
    page.get_by_role("link", name="Train your own").first.wait_for()
    assert violations(page) == []


@pytest.mark.slow
def test_a_wide_table_is_reached_from_the_keyboard(read: Callable[..., Tab]) -> None:
    page = read("why", NARROW).page
    boxes = page.locator(".md-typeset__scrollwrap")
    boxes.first.wait_for()
    page.wait_for_function("document.querySelector('.md-typeset__scrollwrap[tabindex]') !== null")
    wide = "boxes => boxes.map(box => [box.scrollWidth > box.clientWidth, box.tabIndex === 0])"
    found = boxes.evaluate_all(wide)
    assert len(found) == 3
    assert all(scrolls == reached for scrolls, reached in found)


HOOKS = runpy.run_path(str(DOCS / "figures" / "hooks.py"))


def test_formulas_are_set_outside_of_code() -> None:
    code = "from_pretrained <code>a_t^2 + b_{a longer name}</code>"
    text = f"<p title='h_t'>h_{{t−1}}, W_θ, e^{{iΘ_t}}, c^(n+m), 2^20, {code}"
    assert HOOKS["on_page_content"](text) == (
        "<p title='h_t'>h<sub>t−1</sub>, W<sub>θ</sub>, e<sup>iΘ<sub>t</sub></sup>, c<sup>n+m</sup>, "
        f"2<sup>20</sup>, {code}"
    )


def test_the_site_tells_commands_from_what_they_print_as_these_tests_do() -> None:
    """A reader copies a command without its output."""
    kinds = {"commands": "bash", "printed": "text"}
    for page in PAGES:
        text = HOOKS["on_page_markdown"]((DOCS / f"{page}.md").read_text())
        fences = re.findall(r"^``` \{ \.(bash|text)", text, re.MULTILINE)
        assert fences == [kinds[block.kind] for block in read_blocks(page) if block.kind in kinds], page
