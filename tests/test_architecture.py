"""Imports go one way: no package imports one above it. docs/architecture.md has the same order."""

import ast
from pathlib import Path

import csprop

SOURCE = Path(csprop.__file__).parent
# From the ground up; a room may import those below it, and itself.
STOREYS = [
    ["errors"], ["fields", "files", "notebook", "progress", "zoo"], ["ops", "stream"], ["automata"],
    ["cells", "data"], ["nn", "tasks"], ["training"], ["proof"], ["runs"], ["learning"], ["report"],
    ["cli"], ["__main__"],
]  # fmt: skip
LEVEL = {room: level for level, rooms in enumerate(STOREYS) for room in rooms}


def every_import(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{path}: imports are absolute here"
            found |= {f"{node.module}.{alias.name}" for alias in node.names} | {node.module}
    return found


def imports(path: Path) -> set[str]:
    return {name for name in every_import(path) if name.startswith("csprop.")}


def test_every_import_points_down() -> None:
    checked = 0
    for path in SOURCE.rglob("*.py"):
        here = path.relative_to(SOURCE).with_suffix("").parts[0]
        if here == "__init__":
            continue
        for name in imports(path) - {"csprop.__version__"}:
            there = csprop._HOMES.get(name.removeprefix("csprop."), name).split(".")[1]
            checked += 1
            same = there == here
            assert same or LEVEL[there] < LEVEL[here], f"{path.relative_to(SOURCE)} imports {name}"
    assert checked > 50


def test_the_library_does_not_import_the_laboratory() -> None:
    for path in SOURCE.rglob("*.py"):
        assert "csprop_lab" not in {name.split(".")[0] for name in every_import(path)}, path


def test_the_documented_order_is_this_one() -> None:
    text = (Path(__file__).parents[1] / "docs" / "architecture.md").read_text()
    rooms = [[room for room in storey if room != "__main__"] for storey in STOREYS]
    assert " < ".join(", ".join(storey) for storey in rooms if storey) in " ".join(text.split())


def test_machines_and_files_do_without_torch() -> None:
    """The machine that a model has become runs where torch is not installed."""
    below = {"errors", "files", "automata"}
    for path in SOURCE.rglob("*.py"):
        if path.relative_to(SOURCE).with_suffix("").parts[0] in below:
            names = {
                name.split(".")[0]
                for node in ast.walk(ast.parse(path.read_text()))
                for name in (
                    [alias.name for alias in node.names] if isinstance(node, ast.Import)
                    else [node.module or ""] if isinstance(node, ast.ImportFrom) else []
                )
            }  # fmt: skip
            assert "torch" not in names, path


def imported_at_once(path: Path) -> set[str]:
    """What a module imports when it is imported: not inside of functions, and not for types alone."""
    found, bodies = set(), [ast.parse(path.read_text()).body]
    while bodies:
        for node in bodies.pop():
            if isinstance(node, ast.Import):
                found |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                found.add((node.module or "").split(".")[0])
            elif isinstance(node, ast.If) and ast.unparse(node.test) != "TYPE_CHECKING":
                bodies += [node.body, node.orelse]
            elif isinstance(node, ast.Try | ast.With | ast.ClassDef):
                bodies.append(node.body)
    return found


def test_tasks_and_commands_import_torch_only_where_it_is_used() -> None:
    """`csprop --help`, mistakes and the answers of certified runs do not wait for torch."""
    rooms = {"errors", "files", "automata", "tasks", "cli"}
    paths = [each for each in SOURCE.rglob("*.py") if each.relative_to(SOURCE).parts[0] in rooms]
    readers = {
        "proof": ["answers", "certificate", "facts", "statements", "verify", "verify_counting",
                  "verify_finite", "verify_network"],
        "training": ["checkpoint", "config", "presets", "result", "scores", "stored", "workers"],
        "cells": ["options"], "nn": ["config", "hub"],
    }  # fmt: skip
    paths += [SOURCE / room / f"{name}.py" for room, names in readers.items() for name in names]
    assert len(paths) > 60
    for path in paths:
        assert not imported_at_once(path) & {"torch", "huggingface_hub", "networkx"}, path


def test_files_are_written_in_one_place() -> None:
    """Whoever writes a file goes through files.py, which replaces it whole."""
    for path in SOURCE.rglob("*.py"):
        if path.name == "files.py":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute):
                writers = ("write_text", "write_bytes", "save_file", "flock")
                assert node.attr not in writers, f"{path}:{node.lineno}"
            if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] == "open":
                modes = {each.value for each in node.args if isinstance(each, ast.Constant)}
                harmless = "devnull" in ast.unparse(node) or not modes & {
                    "w",
                    "wb",
                    "a",
                    "ab",
                    "x",
                    "xb",
                }
                assert harmless, f"{path}:{node.lineno}"


def test_no_task_is_known_by_its_name_outside_of_tasks() -> None:
    """`task == "parenthesis"` would be a property of the task that the task should say itself."""
    from csprop.tasks import catalogue

    names = {task.name for task in catalogue()}
    for path in SOURCE.rglob("*.py"):
        if path.relative_to(SOURCE).parts[0] == "tasks":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Compare):
                sides: list[ast.expr | None] = [node.left, *node.comparators]
            elif isinstance(node, ast.Dict):
                sides = list(node.keys)
            elif isinstance(node, ast.MatchValue):
                sides = [node.value]
            else:
                continue
            named = {
                each.value
                for side in sides
                if side is not None
                for each in ast.walk(side)
                if isinstance(each, ast.Constant) and isinstance(each.value, str)
            }
            assert not named & names, f"{path}:{node.lineno}"


def test_the_public_names_are_there() -> None:
    for name in csprop.__all__:
        assert getattr(csprop, name) is not None


def test_a_file_over_300_lines_says_why_in_its_docstring() -> None:
    for path in (Path(__file__).parents[1] / "src").rglob("*.py"):
        text = path.read_text()
        if len(text.splitlines()) > 300:
            assert "lines" in (ast.get_docstring(ast.parse(text)) or ""), path


def test_nothing_pickles() -> None:
    for path in SOURCE.rglob("*.py"):
        text = path.read_text()
        assert "pickle" not in text, path
        assert " torch.load(" not in text, path
        assert "torch.save(" not in text, path
