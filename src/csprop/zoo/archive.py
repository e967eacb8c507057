"""The zoo: certified runs that come with csprop, one archive each, named zoo:parity and so on.

A run is read from its archive into memory. Nothing is unpacked to a disk, so any number of processes
may read it. It is trusted no more than a run directory: its files must match its manifest, and its
certificate is verified (`csprop.proof.verify`). docs/figures/zoo.py makes the archives.
"""

import io
import json
import lzma
import zipfile
import zlib
from importlib.resources import files
from pathlib import Path
from typing import TypedDict

from csprop.errors import InputError, did_you_mean

PREFIX = "zoo:"
"""The prefix of the name of such a run, wherever a run directory could be named."""
INDEX = "index.json"
DAMAGED = (
    zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, LookupError, RuntimeError, TypeError,
    ValueError,
)  # fmt: skip
"""The exceptions of reading a damaged archive; RuntimeError if it is encrypted."""
ASSETS = files("csprop.zoo") / "assets"


class Entry(TypedDict):
    """The entry of a run in the index: its automaton, its origin and options beside the preset's."""

    name: str
    states: int
    counters: int
    verdict: str
    made: str
    preset: str
    seed: int
    options: dict[str, float | str]


def index() -> list[Entry]:
    """Return the runs of the zoo, in the order of `csprop tasks`."""
    return json.loads((ASSETS / INDEX).read_bytes())


def in_zoo(path: str | Path) -> bool:
    """Return True if a path has the prefix of the zoo, even if there is no such run."""
    return str(path).startswith(PREFIX)


def name_of(path: str | Path) -> str:
    """Return the name of a run without `zoo:`; refuse one that the zoo does not have."""
    name = str(path).removeprefix(PREFIX)
    names = [entry["name"] for entry in index()]
    if name in names:
        return name
    hint = did_you_mean(name, names) or "`csprop zoo` lists the runs"
    raise InputError(f"the zoo has no run {name!r}: {hint}")


def open_archive(path: str | Path) -> zipfile.Path:
    """Return the files of a run of the zoo; refuse a damaged archive."""
    name = name_of(path)
    try:
        archive = zipfile.ZipFile(io.BytesIO((ASSETS / f"{name}.zip").read_bytes()))
        # Every file in it can be read, and it is a certified run of the task that it is named after.
        whole = archive.testzip() is None and "certificate.json" in archive.namelist()
        if whole and json.loads(archive.read("config.json"))["task"]["name"] == name:
            return zipfile.Path(archive)
    except (OSError, *DAMAGED):
        pass
    raise InputError(f"{PREFIX}{name}: its archive is damaged: install csprop again")
