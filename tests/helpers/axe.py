"""What axe-core finds wrong with a page that a browser shows."""

from typing import Any

import pytest


def violations(page: Any) -> list[str]:
    """A line for each element that breaks a rule of accessibility."""
    reason = "axe-playwright-python is not installed"
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason=reason)
    asked = {"resultTypes": ["violations"], "preload": False}  # a page on the disk reads no files
    return [
        f"{rule['id']}: {node['target']}: {' '.join(node['failureSummary'].split())}"
        for rule in axe.Axe().run(page, options=asked).response["violations"]
        for node in rule["nodes"]
    ]
