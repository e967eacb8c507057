"""Commands that other packages add by entry points of the group csprop.commands."""

import importlib.metadata
import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from csprop.cli.main import LABORATORY
from tests.cli.conftest import Shell

VERB = '''"""`csprop size`: count the letters of a word.

More about it.
"""
from dataclasses import dataclass
from typing import Annotated

from csprop.cli import common
from csprop.cli.options import Arg
from csprop.errors import InputError


@dataclass(frozen=True, kw_only=True)
class Args(common.Arguments):
    """Count letters."""

    word: Annotated[str, Arg("WORD", positional=True)]
    """The word."""

    most: int = 9
    """The largest number."""


def run(args):
    if len(args.word) > args.most:
        raise InputError("the word is longer", "most", args.most)
    print(len(args.word))
    return 1
'''


@pytest.fixture
def added(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[EntryPoint]:
    """The entry points that are installed, of which there are none at first."""
    points: list[Any] = []
    monkeypatch.delitem(sys.modules, "sizes", raising=False)
    (tmp_path / "sizes.py").write_text(VERB)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: points)
    return points


def entry(name: str, value: str) -> EntryPoint:
    point = EntryPoint(name, value, "csprop.commands")
    vars(point)["dist"] = SimpleNamespace(name="csprop-sizes")
    return point


def test_an_installed_package_adds_a_verb(added: list[EntryPoint], shell: Shell) -> None:
    added.append(entry("size", "sizes"))
    text = shell("--help").out
    assert "\nFrom csprop-sizes:\n  size       count the letters of a word\n" in text
    assert shell("size", "word", code=1).out == "4\n"
    assert shell.refuse("size", "word", "--most", 3) == "csprop size: --most 3: the word is longer\n"
    assert "usage: csprop size WORD [options]" in shell("size", "--help").out
    assert "did you mean size?" in shell.refuse("siz")


def test_a_verb_whose_package_is_broken_is_one_sentence(added: list[EntryPoint], shell: Shell) -> None:
    added.append(entry("size", "no_such_package.sizes"))
    assert "\n  size\n" in shell("--help").out
    said = shell.refuse("size", "word")
    assert said.startswith("csprop size: no_such_package.sizes cannot be imported: ")


def test_help_imports_no_package(added: list[EntryPoint], shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "__init__.py").write_text("raise RuntimeError")
    (tmp_path / "broken" / "size.py").write_text(VERB)
    added.append(entry("size", "broken.size"))
    assert "count the letters of a word" in shell("--help").out


def test_a_package_replaces_no_verb_of_csprop(added: list[EntryPoint], shell: Shell) -> None:
    added.append(entry("info", "sizes"))
    assert shell.json("info")["backend"]


@pytest.mark.parametrize("verb", LABORATORY)
def test_without_the_laboratory_its_verbs_say_what_to_install(
    verb: str, added: list[EntryPoint], shell: Shell
) -> None:
    assert added == []
    missing = "it is a part of the laboratory: python -m pip install 'csprop[lab]'"
    assert shell.refuse(verb, "--quick") == f"csprop {verb}: {missing}\n"
    assert f"\n  {verb} " not in shell("--help").out


def test_help_lists_the_laboratory(shell: Shell) -> None:
    text = shell("--help").out
    assert "\nFrom csprop-lab:\n" in text
    assert all(f"\n  {verb} " in text for verb in LABORATORY)
    assert max(map(len, text.splitlines())) <= 80
