"""Imports go one way: no package imports one above it. docs/architecture.md has the same order."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import csprop

SOURCE = Path(csprop.__file__).parent
MODULES = sorted(SOURCE.rglob("*.py"))
# From the ground up; a room may import those below it, and itself.
STOREYS = [
    ["errors"], ["fields", "files", "notebook", "progress", "zoo"], ["ops", "stream"], ["automata"],
    ["cells", "data"], ["nn", "tasks"], ["training"], ["proof"], ["runs"], ["learning"], ["report"],
    ["cli"], ["__main__"],
]  # fmt: skip
LEVEL = {room: level for level, rooms in enumerate(STOREYS) for room in rooms}


@cache
def nodes(path: Path) -> list[ast.AST]:
    return list(ast.walk(ast.parse(path.read_text())))


def room(path: Path) -> str:
    return path.relative_to(SOURCE).with_suffix("").parts[0]


def imports(statements: Iterator[ast.AST] | list[ast.AST]) -> set[str]:
    """Return the names of modules, and of what is imported from them."""
    names = set()
    for node in statements:
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, "imports are absolute here"
            names |= {f"{node.module}.{alias.name}" for alias in node.names} | {node.module}
    return names


def packages(names: set[str]) -> set[str]:
    return {name.split(".")[0] for name in names}


def test_every_import_points_down() -> None:
    checked = 0
    for path in MODULES:
        here = room(path)
        if here == "__init__":
            continue
        assert "csprop_lab" not in packages(imports(nodes(path))), path
        for name in imports(nodes(path)) - {"csprop.__version__"}:
            if name.startswith("csprop."):
                there = csprop._HOMES.get(name.removeprefix("csprop."), name).split(".")[1]
                assert there == here or LEVEL[there] < LEVEL[here], f"{path} imports {name}"
                checked += 1
    assert checked > 50


def test_the_documented_order_is_this_one() -> None:
    text = (Path(__file__).parents[1] / "docs" / "architecture.md").read_text()
    assert " < ".join(", ".join(storey) for storey in STOREYS[:-1]) in " ".join(text.split())


def test_machines_and_files_do_without_torch() -> None:
    """The machine that a model has become runs where torch is not installed."""
    for path in MODULES:
        if room(path) in ("errors", "files", "automata"):
            assert "torch" not in packages(imports(nodes(path))), path


def at_once(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements that run when a module is imported: not in functions, and not for types alone."""
    for node in body:
        yield node
        if isinstance(node, ast.If) and ast.unparse(node.test) != "TYPE_CHECKING":
            yield from at_once(node.body + node.orelse)
        elif isinstance(node, ast.Try | ast.With | ast.ClassDef):
            yield from at_once(node.body)


def test_tasks_and_commands_import_torch_only_where_it_is_used() -> None:
    """`csprop --help`, mistakes and the answers of certified runs do not wait for torch."""
    paths = [path for path in MODULES if room(path) in ("errors", "files", "automata", "tasks", "cli")]
    readers = {
        "proof": ["answers", "certificate", "facts", "statements", "verify", "verify_counting",
                  "verify_finite", "verify_network"],
        "training": ["checkpoint", "config", "presets", "scores", "stored", "workers"],
        "cells": ["options"], "nn": ["config", "hub"],
    }  # fmt: skip
    paths += [SOURCE / room / f"{name}.py" for room, names in readers.items() for name in names]
    assert len(paths) > 60
    for path in paths:
        names = imports(at_once(ast.parse(path.read_text()).body))
        assert not packages(names) & {"torch", "huggingface_hub", "networkx"}, path


def test_files_are_written_in_one_place() -> None:
    """Whoever writes a file goes through files.py, which replaces it whole."""
    for path in MODULES:
        for node in nodes(path) if path.name != "files.py" else []:
            if isinstance(node, ast.Attribute):
                writers = ("write_text", "write_bytes", "save_file", "flock")
                assert node.attr not in writers, f"{path}:{node.lineno}"
            if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] == "open":
                modes = {each.value for each in node.args if isinstance(each, ast.Constant)}
                harmless = not modes & {"w", "wb", "a", "ab", "x", "xb"}
                assert harmless or "devnull" in ast.unparse(node), f"{path}:{node.lineno}"


def test_no_task_is_known_by_its_name_outside_of_tasks() -> None:
    """`task == "parenthesis"` would be a property of the task that the task should say itself."""
    from csprop.tasks import catalogue

    names = {task.name for task in catalogue()}
    for path in MODULES:
        for node in nodes(path) if room(path) != "tasks" else []:
            sides: list[ast.expr | None] = []
            if isinstance(node, ast.Compare):
                sides = [node.left, *node.comparators]
            elif isinstance(node, ast.Dict):
                sides = list(node.keys)
            elif isinstance(node, ast.MatchValue):
                sides = [node.value]
            parts = [part for side in sides if side is not None for part in ast.walk(side)]
            words = {part.value for part in parts if isinstance(part, ast.Constant)}
            assert not words & names, f"{path}: {words & names}"


def test_the_public_names_are_there() -> None:
    for name in csprop.__all__:
        assert getattr(csprop, name) is not None


def test_a_file_over_300_lines_says_why_in_its_docstring() -> None:
    for path in SOURCE.parent.rglob("*.py"):
        text = path.read_text()
        if len(text.splitlines()) > 300:
            assert "lines" in (ast.get_docstring(ast.parse(text)) or ""), path


@pytest.mark.parametrize(
    ("folder", "suffixes", "most"),
    [
        ("src/csprop", (".py",), 24_450),
        ("src/csprop_lab", (".py",), 8_110),
        ("src/csprop", (".cpp", ".hpp"), 5_000),
        ("tests", (".py",), 24_000),
    ],
)
def test_the_house_stays_small(folder: str, suffixes: tuple[str, ...], most: int) -> None:
    paths = [path for path in (SOURCE.parents[1] / folder).rglob("*") if path.suffix in suffixes]
    assert 0 < sum(len(path.read_text().splitlines()) for path in paths) <= most


def test_nothing_pickles() -> None:
    for path in MODULES:
        text = path.read_text()
        assert not [word for word in ("pickle", " torch.load(", "torch.save(") if word in text], path
