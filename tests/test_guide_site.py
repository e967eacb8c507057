"""The guide as a site: built without a warning, and read from the disk in a real browser."""

import os
import re
import runpy
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.browser import Tab, violations
from tests.test_guide import DOCS, PAGES, ROOT, read_blocks

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
    assert len(found) == 4
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
