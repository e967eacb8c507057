"""A page in a real browser; `visit` of tests/report/conftest.py opens it."""

from dataclasses import dataclass, field
from typing import Any


@dataclass
class Tab:
    """A page in the browser, and everything that it complained of or asked for."""

    page: Any
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def text(self, selector: str) -> str:
        return self.page.locator(selector).inner_text()
