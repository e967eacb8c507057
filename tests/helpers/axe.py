"""Rules of accessibility that a page in a browser breaks, by axe-core."""

from typing import Any

import pytest


def violations(page: Any) -> list[str]:
    """Return a line for each element that breaks a rule."""
    reason = "axe-playwright-python is not installed"
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason=reason)
    options = {"resultTypes": ["violations"], "preload": False}  # a page on the disk reads no files
    return [
        f"{rule['id']}: {node['target']}: {' '.join(node['failureSummary'].split())}"
        for rule in axe.Axe().run(page, options=options).response["violations"]
        for node in rule["nodes"]
    ]
