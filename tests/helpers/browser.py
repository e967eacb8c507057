"""A page in a real browser; `visit` of tests/report/conftest.py opens it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest


@dataclass
class Tab:
    """A page in the browser, with its complaints and its requests."""

    page: Any
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def text(self, selector: str) -> str:
        return self.page.locator(selector).first.inner_text()

    def write(self, text: str) -> None:
        """Type a sequence."""
        self.page.locator("#sequence").fill(text)

    def wide(self) -> int:
        """Return the width of the content, which is more than the window's if something sticks out."""
        return self.page.evaluate("document.documentElement.scrollWidth")

    def answers(self, panel: int = 0) -> list[int]:
        return self.page.evaluate(f"explorer.panels[{panel}].said.slice(1).map(({{best}}) => best)")

    def stop_the_clock(self) -> None:
        """Let time pass only where a test says so, however busy the machine is."""
        self.page.clock.install(time=0)
        self.page.clock.pause_at(1000)


Visit = Callable[..., Tab]


def violations(page: Any) -> list[str]:
    """Return a line for each element that breaks a rule of accessibility, by axe-core."""
    reason = "axe-playwright-python is not installed"
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason=reason)
    options = {"resultTypes": ["violations"], "preload": False}  # a page on the disk reads no files
    return [
        f"{rule['id']}: {node['target']}: {' '.join(node['failureSummary'].split())}"
        for rule in axe.Axe().run(page, options=options).response["violations"]
        for node in rule["nodes"]
    ]
