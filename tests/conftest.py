"""Fixtures of several rooms, and a check of shapes while the tests of the mathematics run."""

from jaxtyping import config, install_import_hook

CELLS = ["block", "counter", "paper", "parts", "resonator", "rotations", "rotor", "router", "switch"]
NN = ["coupling", "decoder", "feature_block", "layer", "model"]
ROOMS = ["ops", *(f"cells.{name}" for name in CELLS), *(f"nn.{name}" for name in NN)]
install_import_hook([f"csprop.{room}" for room in ROOMS], "beartype.beartype")

import shutil  # noqa: E402
from collections.abc import Iterator  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

import pytest  # noqa: E402
import torch  # noqa: E402
from hypothesis import settings  # noqa: E402

from tests.helpers.zoo import unpack  # noqa: E402

FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync"]  # fmt: skip
torch.set_num_threads(1)
settings.register_profile("untimed", deadline=None, max_examples=40)  # a busy machine is not a failure
settings.load_profile("untimed")

TESTS = Path(__file__).parent
CHECKED = [TESTS / "ops", TESTS / "cells", TESTS / "nn", TESTS / "lab" / "layers"]
"""Shapes are checked in tests of these rooms. Elsewhere the check only slows training down."""


def pytest_runtest_setup(item: pytest.Item) -> None:
    torch.manual_seed(0)  # the same for code without a generator, whatever ran before
    config.update("jaxtyping_disable", not any(item.path.is_relative_to(room) for room in CHECKED))


@pytest.fixture
def unchecked_shapes() -> None:
    """Turn the check off in a test that trains, or whose tensors have symbolic sizes."""
    config.update("jaxtyping_disable", True)


@pytest.fixture(scope="session")
def brackets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of the task parenthesis, proven at every length and depth."""
    return unpack("parenthesis", tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    executable = shutil.which("chromium")
    if executable is None:
        pytest.skip("chromium is not installed")
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=executable, args=FLAGS)
        yield opened
        opened.close()
