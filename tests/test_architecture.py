"""The arrows of the house go one way: no room imports one above it."""

import ast
from pathlib import Path

import csprop

SOURCE = Path(csprop.__file__).parent
# From the ground up; a room may import those below it, and itself.
STOREYS = [
    ["errors"], ["ops", "stream"], ["nn", "tasks"], ["training"], ["bench", "exact"], ["study"],
    ["report"], ["cli"], ["__main__"],
]  # fmt: skip
LEVEL = {room: level for level, rooms in enumerate(STOREYS) for room in rooms}


def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{path}: imports are absolute here"
            found |= {f"{node.module}.{alias.name}" for alias in node.names} | {node.module}
    return {name for name in found if name.startswith("csprop.")}


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


def test_the_public_names_are_there() -> None:
    for name in csprop.__all__:
        assert getattr(csprop, name) is not None


def test_nothing_pickles() -> None:
    for path in SOURCE.rglob("*.py"):
        text = path.read_text()
        assert "pickle" not in text, path
        assert " torch.load(" not in text, path
        assert "torch.save(" not in text, path
