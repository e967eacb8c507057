"""The command and the metadata of an installed csprop, and the files of a release."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from dataclasses import dataclass
from email import message_from_string
from email.message import Message
from pathlib import Path

import pytest

import csprop
from tests.test_architecture import imports, nodes, packages

ROOT = Path(__file__).parents[1]


def test_python_m_csprop_is_the_command() -> None:
    command = [sys.executable, "-m", "csprop", "--version"]
    said = subprocess.run(command, capture_output=True, text=True, check=True)
    assert said.stdout == f"csprop {csprop.__version__}\n"


def test_the_reference_and_the_citation_are_of_this_version() -> None:
    names = re.findall(r"^::: csprop\.(\w+)", (ROOT / "docs" / "api.md").read_text(), re.MULTILINE)
    assert set(csprop.__all__) <= set(names)
    assert f"\nversion: {csprop.__version__}\n" in (ROOT / "CITATION.cff").read_text()


@dataclass(frozen=True)
class Built:
    """A copy of the repository with leftovers of work, for setuptools to build."""

    root: Path

    def make(self, hook: str, **variables: str) -> Path:
        """Call a hook of the build backend in the copy, and return the file that it makes."""
        code = f"from setuptools import build_meta; print('made', build_meta.{hook}('dist'))"
        environment = os.environ | {"CSPROP_KERNEL": "0"} | variables
        said = subprocess.run(
            [sys.executable, "-c", code], cwd=self.root, env=environment, capture_output=True, text=True
        )
        assert said.returncode == 0, said.stderr
        return self.root / "dist" / said.stdout.splitlines()[-1].removeprefix("made ")

    def metadata(self) -> Message:
        folder = self.make("prepare_metadata_for_build_wheel")
        return message_from_string((folder / "METADATA").read_text("utf-8"))


LEFT_BY_WORK = (
    "src/csprop/ops/native/kernel.abi3.so",
    "src/csprop/ops/native/kernel.pyd",
    "src/csprop/__pycache__/files.cpython-311.pyc",
    "tests/.csprop.lock",
    "results/unfinished/main.jsonl",
    "runs/parity/config.json",
    "site/index.html",
)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    root = tmp_path_factory.mktemp("built") / "csprop"
    folders = ("src", "tests", "docs", "examples", "notebooks", "results")
    for folder in folders:
        shutil.copytree(ROOT / folder, root / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for path in ROOT.iterdir():
        if path.is_file():
            shutil.copy(path, root)
    for name in LEFT_BY_WORK:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("of no use to others")
    (root / "dist").mkdir(exist_ok=True)
    return Built(root)


def test_a_source_archive_has_all_that_a_build_and_the_tests_need(built: Built) -> None:
    with tarfile.open(built.make("build_sdist")) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    native = ROOT / "src/csprop/ops/native"
    for path in native.glob("*.?pp"):
        for header in re.findall(r'#include "(.*)"', path.read_text("utf-8")):
            assert f"src/csprop/ops/native/{header}" in names
    assert {"CHANGELOG.md", "CITATION.cff", "LICENSE", "Makefile", "README.md", "constraints.txt",
            "mkdocs.yml"} <= names  # fmt: skip
    folders = "tests/**/*.py docs/**/* examples/**/* notebooks/**/*.ipynb results/**/*.json"
    for pattern in folders.split():
        here = {path.relative_to(ROOT).as_posix() for path in ROOT.glob(pattern) if path.is_file()}
        assert {name for name in here if "__pycache__" not in name} <= names
    assert not names & set(LEFT_BY_WORK)
    assert not [name for name in names if name.endswith((".so", ".pyd", ".pyc", ".lock"))]


def test_a_wheel_without_the_kernel_is_for_every_machine(built: Built) -> None:
    wheel = built.make("build_wheel")
    assert wheel.name == f"csprop-{csprop.__version__}-py3-none-any.whl"
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    source = ROOT / "src"
    here = [path for path in (source / "csprop").rglob("*") if path.is_file()]
    not_packed = (".cpp", ".hpp", ".so", ".pyd", ".pyc")
    packed = [path for path in here if path.suffix not in not_packed]
    assert names == {path.relative_to(source).as_posix() for path in packed}
    assert "csprop/py.typed" in names, "type checkers read the types"


def test_the_wheel_of_the_laboratory_has_its_packages_its_assets_and_its_commands(built: Built) -> None:
    folder = built.root / "src" / "csprop_lab"
    (folder / "dist").mkdir()
    archive = zipfile.ZipFile(Built(folder).make("build_wheel"))
    source = ROOT / "src"
    here = [*(source / "csprop_lab").rglob("*.py"), *(source / "csprop_lab").rglob("assets/*")]
    names = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert names == {path.relative_to(source).as_posix() for path in here}
    (entries,) = (name for name in archive.namelist() if name.endswith("entry_points.txt"))
    verbs = re.findall(r"^(\w+) = csprop_lab\.cli\.\1$", archive.read(entries).decode(), re.MULTILINE)
    assert sorted(verbs) == ["bench", "compare", "reproduce"]


def test_a_wrong_value_of_the_switch_is_named(built: Built) -> None:
    with pytest.raises(AssertionError, match=r"CSPROP_KERNEL=yes: write 0 \(no kernel\), 1 "):
        built.make("prepare_metadata_for_build_wheel", CSPROP_KERNEL="yes")


def test_a_plain_install_has_no_tools_of_developers(built: Built) -> None:
    required = built.metadata().get_all("Requires-Dist") or []
    plain = {re.split(r"[<>=!~ ;\[]", each)[0] for each in required if "extra ==" not in each}
    paths = (ROOT / "src").rglob("*.py")
    imported = {name for path in paths for name in packages(imports(nodes(path)))}
    assert plain <= imported
    assert not plain & {"pytest", "hypothesis", "ruff", "mkdocs", "setuptools", "automata-lib"}
    extras = {each.replace("'", '"') for each in required}
    for name, extra in (("matplotlib", "figures"), ("huggingface_hub", "hub")):
        assert name not in plain
        assert {f'{name}; extra == "{which}"' for which in (extra, "dev")} <= extras


def test_every_link_of_the_readme_of_a_release_leads_somewhere(built: Built) -> None:
    """An index shows it away from the repository, where relative addresses are dead."""
    links, pictures = re.compile(r"\]\(([^)]*)\)"), re.compile(r'<img src="([^"]*)"')
    there = (ROOT / "README.md").read_text("utf-8")
    assert len(pictures.findall(there)) >= 2
    unknown = built.metadata().get_payload()
    assert isinstance(unknown, str)
    assert [link for link in links.findall(unknown) if not link.startswith("https://")] == []
    assert not pictures.findall(unknown)
    assert "*Picture: Five states: out, in, out after one failure, out after" in unknown

    project = built.root / "pyproject.toml"
    text = project.read_text("utf-8")
    try:
        address = "https://host.example/csprop"
        project.write_text(text.replace("\nPaper = ", f'\nSource = "{address}"\nPaper = '), "utf-8")
        known = built.metadata().get_payload()
    finally:
        project.write_text(text, "utf-8")
    assert isinstance(known, str)
    tag = f"v{csprop.__version__}"
    raw = [f"{address}/raw/{tag}/{path}" for path in pictures.findall(there)]
    assert pictures.findall(known) == raw
    own = [link for link in links.findall(there) if not link.startswith("https://")]
    blobs = [link for link in links.findall(known) if link.startswith(address)]
    assert blobs == [f"{address}/blob/{tag}/{link}" for link in own]
    for path in [*pictures.findall(there), *own]:
        assert (ROOT / path.partition("#")[0]).exists()
