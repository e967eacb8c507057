"""Draws docs/explorer.png and docs/report.png, each in light and in dark.

    make screenshots

The explorer and the report are the page of two runs: the residue of the number of ones modulo 3,
trained on length 16 with seed 0, a locked rotor beside the printed model. The runs are kept in
runs/screenshots, and made where they are not there.
"""

import io
import os
import shutil
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import sync_playwright

from csprop.cli.main import main

ROOT = Path(__file__).parents[2]
RUNS = Path("runs/screenshots")  # as a page shows it
TASK = "mod3-residue"
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]


def made(name: str, *options: str) -> str:
    path = RUNS / name
    if not (path / "result.json").exists():
        assert main(["train", TASK, "--out", str(path), *options]) == 0
    return str(path)


def kept(name: str, picture: bytes) -> None:
    """Keep a picture with 256 colours, which is a third as large."""
    small = Image.open(io.BytesIO(picture)).convert("RGB").quantize(256)
    small.save(ROOT / "docs" / name, optimize=True)


def shoot(browser: Any, page: Path) -> None:
    for scheme, suffix in (("light", ""), ("dark", "-dark")):
        settings = {"offline": True, "color_scheme": scheme, "reduced_motion": "reduce"}
        context = browser.new_context(viewport={"width": 1280, "height": 900}, **settings)
        tab = context.new_page()
        tab.goto(page.absolute().as_uri())
        kept(f"explorer{suffix}.png", tab.locator("#explorer").screenshot())
        tab.evaluate("document.getElementById('explorer').hidden = true")
        kept(f"report{suffix}.png", tab.locator("body").screenshot())
        context.close()


if __name__ == "__main__":
    os.chdir(ROOT)
    rotor = made("rotor")
    if not Path(rotor, "certificate.json").exists():
        assert main(["certify", rotor]) == 0
    printed = made("printed", "--preset", "paper", "--split", "disjoint", "--hold", "10")
    page = RUNS / "page.html"
    assert main(["report", rotor, printed, "--out", str(page)]) == 0
    with sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        shoot(opened, page)
        opened.close()
