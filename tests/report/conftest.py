"""Pages of real runs, and a real browser to look at them."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import csprop
from csprop.report import read, runs
from tests.helpers.browser import Tab, Visit
from tests.helpers.zoo import unpack


@pytest.fixture(scope="session")
def parity(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack("parity", tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="session")
def printed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "printed"
    csprop.train("parity", preset="paper", epochs=3, samples=500, out=path)
    return path


def write_page(path: Path, *folders: Path, times: tuple[int, ...] = ()) -> Path:
    """Write the page of some runs, measured at some multiples of the trained length."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(read, "TIMES", times)
        path.write_text(runs.page(folders, measured=bool(times)))
    return path


def write_html(*folders: Path) -> str:
    """Return the page of some runs, without measurements."""
    return runs.page(folders, measured=False)


def read_data(html: str) -> dict[str, Any]:
    """Return the data of a page's script."""
    return json.loads(html.split('id="data">')[1].split("</script>")[0])


@pytest.fixture(scope="session")
def page(parity: Path, printed: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a locked rotor and a printed model."""
    return write_page(tmp_path_factory.mktemp("pages") / "page.html", parity, printed, times=(1, 4))


@pytest.fixture(scope="session")
def counting_page(brackets: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_page(tmp_path_factory.mktemp("pages") / "page.html", brackets)


@pytest.fixture
def visit(browser: Any, tmp_path: Path) -> Iterator[Visit]:
    """Open a page, or that of a run, with the network off.

    Nothing may be fetched, and the console stays empty.
    """
    tabs: list[Tab] = []

    def open_tab(path: Path, width: int = 1440, **options: Any) -> Tab:
        if path.is_dir():
            path = write_page(tmp_path / f"page-{len(tabs)}.html", path)
        viewport = {"width": width, "height": 900}
        settings = {"offline": True, "reduced_motion": "reduce"} | options
        context = browser.new_context(viewport=viewport, **settings)
        tab = Tab(context.new_page())
        tab.page.on("console", lambda message: tab.complaints.append(message.text))
        tab.page.on("pageerror", lambda error: tab.complaints.append(str(error)))
        tab.page.on("request", lambda request: tab.requests.append(request.url))
        tab.page.goto(path.as_uri())
        tabs.append(tab)
        return tab

    yield open_tab
    for tab in tabs:
        assert tab.complaints == []
        assert len(tab.requests) == 1, "the page is one file"
        tab.page.context.close()
