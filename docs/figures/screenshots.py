"""Draws docs/explorer.png and docs/report.png: the page of two runs, as a browser shows it.

    make screenshots

The residue of the number of ones modulo 3, trained on length 16 with seed 0: a locked rotor beside the
printed model. The runs are kept in runs/screenshots, and trained where they are not there.
"""

import os
import shutil
from pathlib import Path

from playwright.sync_api import sync_playwright

from csprop.cli.main import main

ROOT = Path(__file__).parents[2]
RUNS = Path("runs/screenshots")  # as a page shows it
TASK = "mod3-residue"
TOKENS = "1011001110101101101001011"
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]


def made(name: str, *options: str) -> str:
    path = RUNS / name
    if not (path / "result.json").exists():
        assert main(["train", TASK, "--out", str(path), *options]) == 0
    return str(path)


def shoot(page: Path) -> None:
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        for name, height in (("explorer", 1200), ("report", 2400)):
            context = browser.new_context(
                viewport={"width": 1120, "height": height}, offline=True, color_scheme="light"
            )
            tab = context.new_page()
            tab.goto(page.absolute().as_uri())
            tab.locator("#sequence").fill(TOKENS)
            tab.locator("#time").fill("17")
            tab.locator("h1").click()
            if name == "explorer":
                tab.locator("#explorer").screenshot(path=ROOT / "docs" / "explorer.png")
            else:
                tab.evaluate("document.getElementById('explorer').hidden = true")
                tab.locator("body").screenshot(path=ROOT / "docs" / "report.png")
            context.close()
        browser.close()


if __name__ == "__main__":
    os.chdir(ROOT)
    rotor = made("rotor")
    if not Path(rotor, "certificate.json").exists():
        assert main(["certify", rotor]) == 0
    printed = made("printed", "--preset", "paper", "--split", "disjoint", "--hold", "10")
    page = RUNS / "page.html"
    assert main(["report", rotor, printed, "--out", str(page)]) == 0
    shoot(page)
