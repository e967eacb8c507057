"""A shell for the tests of commands: it runs a command in this process and returns what it printed."""

import io
import itertools
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from csprop.cli.main import main


@dataclass(frozen=True)
class Shell:
    """Runs commands in a folder of their own."""

    folder: Path
    capsys: pytest.CaptureFixture[str]
    monkeypatch: pytest.MonkeyPatch

    def __call__(self, *argv: object, code: int = 0, typed: str = "") -> Any:
        """Run a command that ends with this code; return what it printed, as `out` and `err`."""
        self.monkeypatch.setattr("sys.stdin", io.StringIO(typed))
        self.capsys.readouterr()
        try:
            ended = main(list(map(str, argv)))
        except SystemExit as stop:
            ended = stop.code or 0
        printed = self.capsys.readouterr()
        assert ended == code, printed.err
        return printed

    def json(self, *argv: object, code: int = 0, typed: str = "") -> Any:
        """Return the only document that a command prints."""
        return json.loads(self(*argv, "--json", code=code, typed=typed).out)

    def words(self, *argv: object, code: int = 0) -> str:
        """Return the output as one line; outside of paths, no line had more than 80 columns."""
        out = self(*argv, code=code).out
        assert all(len(line) <= 80 or str(self.folder.parent) in line for line in out.splitlines())
        return " ".join(out.split())

    def refuse(self, *argv: object, code: int = 2, typed: str = "") -> str:
        """Return the one sentence on stderr of a command that is refused; it writes nothing."""
        before = set(self.folder.rglob("*"))
        printed = self(*argv, code=code, typed=typed)
        assert printed.out == ""
        assert printed.err.count("\n") == 1, printed.err
        assert printed.err.startswith("csprop")
        assert set(self.folder.rglob("*")) == before
        return printed.err

    def predict(self, run: object, lines: list[str], *options: str) -> list[str]:
        """Return the predictions for some lines."""
        return self("predict", run, *options, typed="\n".join(lines) + "\n").out.split()


@pytest.fixture
def shell(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shell:
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return Shell(folder, capsys, monkeypatch)


def strings(symbols: str, longest: int) -> list[str]:
    """Return all strings of these symbols, up to a length."""
    lengths = range(1, longest + 1)
    return ["".join(s) for n in lengths for s in itertools.product(symbols, repeat=n)]
