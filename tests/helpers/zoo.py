"""Certified runs on the disk, without training one: `unpack("parity", tmp_path)`."""

import zipfile
from importlib.resources import as_file
from pathlib import Path

from csprop.zoo.archive import ASSETS


def unpack(name: str, folder: Path) -> Path:
    """Unpack a run of the zoo into a new directory of its name, and return the directory."""
    with as_file(ASSETS / f"{name}.zip") as path, zipfile.ZipFile(path) as archive:
        archive.extractall(folder / name)
    return folder / name
