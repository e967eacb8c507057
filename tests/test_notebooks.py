"""The notebooks, and the pictures and tables of runs, machines and certificates in them."""

import json
import sys
from base64 import b64decode
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import csprop
from csprop.automata.automaton import Automaton, CounterAutomaton
from tests.helpers.zoo import unpack

NASTY = ("<script>alert(1)</script>", '"><b onload="x">', "&amp;'")
TAGS = {"div", "span", "table", "tr", "th", "td", "img"}
SVG = "{http://www.w3.org/2000/svg}"


def parsed(html: str) -> ElementTree.Element:
    """Checks that it is well-formed, and has nothing that runs or fetches."""
    root = ElementTree.fromstring(html)
    assert {each.tag for each in root.iter()} <= TAGS
    for each in root.iter():
        assert each.attrib.keys() <= {"style", "src", "alt"}
        assert "url(" not in each.get("style", "")
        assert each.get("src", "data:image/svg+xml;base64,").startswith("data:image/svg+xml;base64,")
    for drawn in pictures(root):
        assert "script" not in {each.tag.removeprefix(SVG) for each in drawn.iter()}
    return root


def pictures(root: ElementTree.Element) -> list[ElementTree.Element]:
    found = [each.get("src", "").partition(",")[2] for each in root.iter("img")]
    return [ElementTree.fromstring(b64decode(each)) for each in found]


def text(root: ElementTree.Element) -> str:
    return " ".join(" ".join(root.itertext()).split())


def facts(root: ElementTree.Element) -> dict[str, str]:
    return {row[0].text or "": row[1].text or "" for row in root.iter("tr")}


def test_a_run_shows_its_options_its_accuracy_and_its_proof(tmp_path: Path) -> None:
    run = csprop.load(unpack("parity", tmp_path))
    html = parsed(run._repr_html_())
    shown = facts(html)
    assert shown["proof"] == "proven for all lengths, 2 states"
    assert shown["model"].startswith(f"1 layer of {run.config.model.width} channels")
    assert shown["accuracy"] == "100% of the held-out answers"
    assert shown["wrong"] == "none of all 65,536 inputs of length 16"
    assert shown["directory"] == str(tmp_path / "parity")
    path = tmp_path / "parity" / "certificate.json"
    path.write_text(path.read_text().replace("of any length", "of many a length"))
    shown = facts(parsed(csprop.load(tmp_path / "parity")._repr_html_()))
    assert "certificate.json" in shown["proof"]  # the error is shown, and not raised
    path.unlink()
    shown = facts(parsed(csprop.load(tmp_path / "parity")._repr_html_()))
    assert shown["proof"].startswith("none yet")


def test_a_certificate_shows_what_it_says() -> None:
    run = csprop.load("zoo:parity")
    proof = run.certificate
    assert proof is not None
    shown = parsed(proof._repr_html_())
    assert text(shown).startswith("✓ parity: proven for all lengths")
    assert proof.statement in text(shown)
    assert facts(shown)["states"].endswith("2 in the smallest automaton")
    assert repr(proof) == "Certificate(parity: proven for all lengths)"
    wrong = csprop.certify(run.model, csprop.tasks.get("even-pairs"), rounds=0)
    assert text(parsed(wrong._repr_html_())).startswith("✗ even-pairs: not proven")
    assert repr(wrong).startswith("Certificate(even-pairs: not proven")


def test_a_machine_shows_its_size_and_its_picture() -> None:
    task = csprop.tasks.get("parenthesis")
    assert task.counting is not None
    counts = CounterAutomaton.from_machine(task.counting, task.vocab, task.classes)
    shown = parsed(counts._repr_html_())
    assert text(shown) == "CounterAutomaton of 3 states and 1 counter"
    assert len(pictures(shown)) == 1
    assert repr(counts) == "CounterAutomaton(3 states and 1 counter; tokens (, ); classes no, yes)"


def test_a_machine_is_drawn_in_text_without_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("csprop.automata.drawing.find_spec", lambda name: None)
    machine = Automaton(transitions=((1,), (0,)), outputs=(0, 1), vocab=("<b>",), classes=("x", "y"))
    shown = machine._repr_html_()
    assert "<img" not in shown
    assert "─ &lt;b&gt; ─" in shown
    assert "→ 0 x      1 y\n" in shown


def test_a_large_machine_is_not_drawn() -> None:
    ring = tuple(((state + 1) % 200,) for state in range(200))
    large = Automaton(transitions=ring, outputs=(0,) * 200, start=0, vocab=("a",), classes=("x",))
    shown = parsed(large._repr_html_())
    assert "200 states" in text(shown)
    assert not pictures(shown)
    assert repr(large) == "Automaton(200 states; tokens a; classes x)"


def test_names_of_users_stay_text() -> None:
    label = (NASTY[0], NASTY[1])
    rows = [[NASTY[place] for place in map(int, f"{number:04b}")] for number in range(16)] * 20
    labels = [label[sum(each == NASTY[1] for each in row) % 2] for row in rows]
    labels[3] = label[labels[3] == label[0]]
    learned = csprop.learn(rows, labels)
    assert learned.run is not None
    assert learned.run.certificate is not None
    shown = parsed(learned._repr_html_())
    assert any(NASTY[0] in (cell.text or "") for cell in shown.iter("td"))  # a suspect
    for each in (learned.machine, learned.run, learned.run.certificate):
        assert text(parsed(each._repr_html_()))
        assert "\n" not in repr(each)


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
        training, proof = (html for html in shown if "parity seed 0" in html)
        assert "acc 100.00%" in training
        assert "proven for all lengths" in proof
    else:
        suspects, changed = next(text for text in said if "suspects:" in text).splitlines()
        assert suspects.partition("[")[2] == changed.partition("[")[2]
