"""A page of real runs, and a real browser to look at it."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import csprop
from csprop.report import runs
from tests.helpers.browser import Tab


def certified(path: Path, **options: Any) -> Path:
    """A run that was trained and proven."""
    assert csprop.train(out=path, **options).certify().proven
    return path


@pytest.fixture(scope="session")
def parity(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return certified(tmp_path_factory.mktemp("runs") / "parity", task="parity", samples=1000, hold=2)


@pytest.fixture(scope="session")
def printed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "printed"
    csprop.train("parity", preset="paper", epochs=3, samples=500, out=path)
    return path


@pytest.fixture(scope="session")
def page(parity: Path, printed: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a locked rotor and a printed model."""
    path = tmp_path_factory.mktemp("pages") / "page.html"
    path.write_text(runs.page([parity, printed]))
    return path


@pytest.fixture
def visit(browser: Any) -> Iterator[Callable[..., Tab]]:
    """Open a file with the network off; nothing may be fetched, and the console stays empty."""
    tabs: list[Tab] = []
    contexts: list[Any] = []

    def opened(path: Path, width: int = 1440, **options: Any) -> Tab:
        viewport = {"width": width, "height": 900}
        settings = {"offline": True, "reduced_motion": "reduce"} | options
        context = browser.new_context(viewport=viewport, **settings)
        contexts.append(context)
        tab = Tab(context.new_page())
        tab.page.on("console", lambda message: tab.complaints.append(message.text))
        tab.page.on("pageerror", lambda error: tab.complaints.append(str(error)))
        tab.page.on("request", lambda request: tab.requests.append(request.url))
        tab.page.goto(path.as_uri())
        tabs.append(tab)
        return tab

    yield opened
    for tab in tabs:
        assert tab.complaints == []
        assert len(tab.requests) == 1, "the page is one file"
    for context in contexts:
        context.close()
