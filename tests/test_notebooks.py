"""The notebooks run from top to bottom in a kernel of this Python, and show what they promise."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

NOTEBOOKS = Path(__file__).parents[1] / "notebooks"
PROMISED = {
    "layer": ["the same: True", "after 4096 steps: 100% right", "proven for all lengths"],
    "state_tracking": [
        "Certificate(parity: proven for all lengths)",
        "6 tokens: 100% right",
        "65536 tokens: 100% right",
        "not proven (wrong on some inputs of length 7)",
        "Automaton(2 states; tokens 0, 1; classes even, odd)",
        "static const unsigned short NEXT[STATES][TOKENS]",
    ],
    "your_own_data": [
        "a machine of 3 states, which agrees with 394 of 400 rows",
        "Certificate(conveyor: agrees with 394 of 400 rows)",
        "['jammed', 'running']",
        "reset → idle",
    ],
}


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty directory, in which python3 is a kernel of the interpreter that runs the tests."""
    for name in ("ipykernel", "nbclient"):
        pytest.importorskip(name, reason=f"{name} is not installed: pip install -e '.[notebooks]'")
    command = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    spec = {"argv": command, "display_name": "Python 3", "language": "python"}
    folder = tmp_path / "jupyter" / "kernels" / "python3"
    folder.mkdir(parents=True)
    (folder / "kernel.json").write_text(json.dumps(spec))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "jupyter"))
    for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR"):
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    return tmp_path


def executed(name: str, folder: Path) -> list[dict[str, Any]]:
    """The outputs of a notebook; a cell that raises is an error."""
    import nbformat  # pyright: ignore[reportMissingImports]
    from nbclient import NotebookClient  # pyright: ignore[reportMissingImports]

    notebook = nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4)
    where = {"metadata": {"path": str(folder)}}
    NotebookClient(notebook, timeout=300, kernel_name="python3", resources=where).execute()
    return [each for cell in notebook.cells for each in cell.get("outputs", [])]


def test_every_notebook_is_run() -> None:
    assert {path.stem for path in NOTEBOOKS.glob("*.ipynb")} == set(PROMISED)


@pytest.mark.parametrize("name", PROMISED)
def test_a_notebook_is_committed_without_outputs(name: str) -> None:
    notebook = json.loads((NOTEBOOKS / f"{name}.ipynb").read_text())
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert cells
    assert not any(cell["outputs"] or cell["execution_count"] for cell in cells)
    assert notebook["metadata"]["kernelspec"]["name"] == "python3"


@pytest.mark.slow
@pytest.mark.parametrize("name", PROMISED)
def test_a_notebook_shows_what_it_promises(name: str, kernel: Path) -> None:
    outputs = executed(name, kernel)
    said = [each.get("text") or each.get("data", {}).get("text/plain", "") for each in outputs]
    for promise in PROMISED[name]:
        assert any(promise in text for text in said), promise
    assert not any(each.get("name") == "stderr" for each in outputs)
    shown = [each["data"]["text/html"] for each in outputs if "text/html" in each.get("data", {})]
    if name == "layer":
        last = next(text for text in reversed(said) if "held-out signals right" in text)
        assert int(last.split()[-6].removesuffix("%")) > 75  # chance is a tenth, or a third
        return
    assert any("<img" in html for html in shown)
    if name == "state_tracking":
        bars = [html for html in shown if "parity seed 0" in html]
        assert len(bars) == 1
        assert "acc 100.00%" in bars[0]
    else:
        suspects, changed = next(text for text in said if "suspects:" in text).splitlines()
        assert suspects.partition("[")[2] == changed.partition("[")[2]
