"""What an installed csprop says of itself."""

import re
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import csprop

ROOT = Path(__file__).parents[1]


def test_python_m_csprop_is_the_command() -> None:
    command = [sys.executable, "-m", "csprop", "--version"]
    said = subprocess.run(command, capture_output=True, text=True, check=True)
    assert said.stdout == f"csprop {csprop.__version__}\n"


def test_type_checkers_read_the_types() -> None:
    assert files("csprop").joinpath("py.typed").is_file()


def test_every_public_name_is_in_the_reference() -> None:
    text = (ROOT / "docs" / "api.md").read_text()
    named = re.findall(r"^::: csprop\.(\w+)", text, flags=re.MULTILINE)
    assert set(csprop.__all__) <= set(named)


def test_the_citation_is_of_this_version() -> None:
    text = (ROOT / "CITATION.cff").read_text()
    assert re.findall(r"^version: (.*)$", text, flags=re.MULTILINE) == [csprop.__version__]
