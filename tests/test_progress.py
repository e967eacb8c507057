"""The bar of csprop.train, learn and certify: where somebody sees it, and nowhere else."""

import io
import re
from typing import Any

import pytest

import csprop
from csprop import progress
from csprop.automata.walk import Walk

SMALL: dict[str, Any] = {"samples": 2000, "length": 8, "epochs": 3}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True

    @property
    def text(self) -> str:
        return re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", self.getvalue())


def on_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Not a fixture: pytest sets stderr anew before a test begins."""
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    return terminal


def do_all(progress: bool = True) -> tuple[list[Any], list[str]]:
    """Train, certify and learn; return the epochs and the events."""
    rows: list[Any] = []
    lines: list[str] = []
    run = csprop.train("parity", on_epoch=rows.append, progress=progress, **SMALL)
    run.certify(progress=progress)
    csprop.certify(run.model, "parity", progress=progress)
    csprop.learn("parity", samples=300, length=8, on_event=lines.append, progress=progress)
    csprop.train_seeds("mod3", [3, 4], progress=progress, **SMALL)
    assert [row["epoch"] for row in rows] == [1, 2, 3]
    assert lines
    return rows, lines


def test_work_ends_when_its_time_is_over() -> None:
    endless = Walk(0)
    with pytest.raises(progress.OutOfTime), progress.time_limit(0.01):
        endless.run(lambda states: [[(0, states[0] + 1)]], most=None)
    assert len(endless.order) > 1  # it had begun
    progress.check_time()  # there is no limit any more


def test_a_script_is_quiet_where_nobody_watches(capfd: pytest.CaptureFixture[str]) -> None:
    do_all()
    said = capfd.readouterr()
    assert (said.out, said.err) == ("", "")


def test_a_terminal_shows_each_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_terminal(monkeypatch)
    rows, lines = do_all()
    assert f"3/3 loss {rows[-1]['loss']:.4f}  acc {rows[-1]['accuracy']:.2%}" in terminal.text
    for label in ("parity seed 0", "certify parity", "learn parity", "mod3 worst of 3-4"):
        assert label in terminal.text
    assert lines[-1][:40] in terminal.text


def test_a_bar_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_terminal(monkeypatch)
    do_all(progress=False)
    assert terminal.text == ""


def test_parts_are_shown_while_they_are_done_and_leave_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_terminal(monkeypatch)
    with progress.bar("demo", 3, stays=False) as tell:
        tell("first", 1)
        tell("the second", 2)
    assert "demo" in terminal.text
    assert "the second" in terminal.text
    erased = terminal.getvalue().rindex("\x1b[2K")
    assert erased > terminal.getvalue().rindex("demo")


def test_a_notebook_gets_one_output_that_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("IPython")
    shown: list[str] = []

    class Handle:
        def update(self, bar: Any) -> None:
            shown.append(bar._repr_mimebundle_([], [])["text/html"])

    def display(bar: Any, display_id: bool) -> Handle:
        assert display_id
        Handle().update(bar)
        return Handle()

    monkeypatch.setattr("IPython.display.display", display)
    monkeypatch.setattr(progress, "_in_notebook", lambda: True)
    with progress.lines("<b>", lambda line: None) as tell:
        tell("<script>alert()</script>")
    assert "&lt;b&gt;" in shown[0]
    assert "&lt;script&gt;alert()" in shown[-1]
    assert not re.search("<(b|script)>", "".join(shown))


def test_what_stops_training_leaves_the_terminal_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_terminal(monkeypatch)

    def stop(row: Any) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        csprop.train("parity", on_epoch=stop, **SMALL)
    hidden, visible = "\x1b[?25l", "\x1b[?25h"
    assert terminal.getvalue().rindex(visible) > terminal.getvalue().rindex(hidden)
