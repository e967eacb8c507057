"""The run directory, written so that a process that is killed at any moment leaves it usable.

    config.json            the whole resolved configuration and the environment
    metrics.jsonl          one row per epoch
    model.safetensors      the best weights so far
    last/state.safetensors everything that the next epoch needs
    result.json            the result, after the last epoch
    diagnosis.json         what was not finite, if training diverged
    locked.safetensors     the locked network, once certified
    certificate.json       what was proven, or why nothing was
    suspects.jsonl         rows that disagree with a machine which was learned
    rows.jsonl             rows that were given from Python
    manifest.json          the SHA-256 of each file

Files are replaced atomically; only metrics.jsonl is appended to. The renaming of
last/state.safetensors commits an epoch. That file also holds the digests of itself, of the
configuration and of the metrics so far: on resume, whatever was written after it is undone, and a
change to what was written before it is detected. A run that is written at once, without training, is
drafted in a folder within the directory, and moved up when it is whole.
"""

import json
import math
import shutil
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from csprop.errors import InputError, nearest
from csprop.files import LOCK, as_json, digest, fault, from_json, move, replace
from csprop.zoo.archive import in_zoo, open_archive

if TYPE_CHECKING:
    from csprop.progress import Epoch

FORMAT = 1
CONFIG, METRICS, WEIGHTS = "config.json", "metrics.jsonl", "model.safetensors"
LAST, RESULT, DIAGNOSIS = "last/state.safetensors", "result.json", "diagnosis.json"
LOCKED, CERTIFICATE = "locked.safetensors", "certificate.json"
MANIFEST = "manifest.json"
SUSPECTS, ROWS, DRAFT = "suspects.jsonl", "rows.jsonl", ".draft"
MEASURED = ("epoch", "loss", "accuracy", "f1", "grad_norm")
"""Fields that are finite numbers in every row of the metrics."""
FILES = (CONFIG, METRICS, WEIGHTS, LAST, RESULT, DIAGNOSIS, LOCKED, CERTIFICATE, SUSPECTS)


class RunFolder:
    """A run directory, for reading or for writing; or a run of the zoo, for reading."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        """Its name in messages."""
        self.files = open_archive(path) if in_zoo(path) else self.path
        """The directory or archive that has its files."""

    def exists(self) -> bool:
        """Return True if the directory holds a run."""
        return self.has(CONFIG)

    def has(self, name: str) -> bool:
        """Return True if a file exists."""
        return (self.files / name).exists()

    def damaged(self, name: str, why: str = "is malformed") -> InputError:
        """Return the error about a file that csprop did not write like this."""
        return InputError(f"{self.path / name}: {why}; the run is damaged")

    def read_json(self, name: str, verify: bool = True) -> Any:
        """Return the content of a JSON file; with `verify`, checked against the manifest."""
        try:
            return from_json(self.read(name) if verify else self.read_bytes(name))
        except InputError:
            raise
        except ValueError as error:
            raise self.damaged(name, f"is not JSON: {fault(error)}") from None

    def read(self, name: str) -> bytes:
        """Return the content of a file, checked against the manifest."""
        for _ in range(10):  # training replaces the files one after the other
            content = self.read_bytes(name)
            if self.digests().get(name) == digest(content):
                return content
            time.sleep(0.02)
        again = self.certify_again if name in (LOCKED, CERTIFICATE) else self.way_on
        raise InputError(
            f"{self.path / name}: does not match manifest.json: it was changed, or writing it was "
            f"interrupted; in the latter case {again}"
        )

    @property
    def resumable(self) -> bool:
        """True if it was trained here, and neither saved from elsewhere nor made from a machine."""
        return (self.files / "last").is_dir()

    @property
    def way_on(self) -> str:
        """The remedy for a run that lacks a file, for messages."""
        if in_zoo(self.path):
            return "install csprop again"
        if self.resumable:
            return f"run `csprop train --resume --out {self.path}`"
        return "make the run again, with another --out"

    @property
    def certify_again(self) -> str:
        """The remedy for a certificate that is damaged or does not hold, for messages."""
        return self.way_on if in_zoo(self.path) else f"run `csprop certify {self.path}` again"

    def read_bytes(self, name: str) -> bytes:
        """Return the content of a file, whatever the manifest says."""
        path, file = self.path / name, self.files / name
        try:
            if file.exists() and not file.is_file():  # a pipe or a device might never end
                raise InputError(f"{path}: cannot be read: it is not a regular file")
            return file.read_bytes()
        except FileNotFoundError:
            again = self.certify_again if name == LOCKED else self.way_on
            raise InputError(f"{path}: is missing: {again}") from None
        except OSError as error:
            raise InputError(f"{path}: cannot be read: {error.strerror}") from None

    def digests(self) -> dict[str, str]:
        """Return the content of manifest.json."""
        digests = self.read_json(MANIFEST, verify=False)
        if not isinstance(digests, dict):
            raise self.damaged(MANIFEST)
        return digests

    def read_config(self, verify: bool = True) -> dict[str, Any]:
        """Return the content of config.json; a run that is resumed may not have a manifest yet."""
        if not self.exists():
            hint, runs = "", (each.parent.name for each in self.path.parent.glob(f"*/{CONFIG}"))
            if any(self.path.glob(f"*/{CONFIG}")):
                hint = f"; choose one of the runs in it, {self.path}/*"
            elif near := nearest(self.path.name, runs):
                hint = f": did you mean {self.path.with_name(near)}?"
            raise InputError(f"{self.path}: is not a run: there is no {CONFIG} in it{hint}")
        # Read before the manifest, which a newer format may keep differently.
        config = self.read_json(CONFIG, verify=False)
        if not isinstance(config, dict) or not isinstance(config.get("format"), int):
            raise self.damaged(CONFIG)
        if config["format"] > FORMAT:
            raise InputError(
                f"{self.path}: has format {config['format']}, but this csprop reads up to {FORMAT}: "
                "install a newer csprop"
            )
        return self.read_json(CONFIG) if verify else config

    def read_metrics(self) -> "list[Epoch]":
        """Return the rows of metrics.jsonl."""
        content = self.read(METRICS)
        try:
            rows = [from_json(line) for line in content.splitlines()]
            if all(math.isfinite(row[name]) for row in rows for name in MEASURED):
                return rows
        except (ValueError, LookupError, TypeError, OverflowError):
            pass
        raise self.damaged(METRICS)

    # Writing.

    def create(self, config: dict[str, Any]) -> None:
        """Start to train a run in a directory that holds neither a run nor parts of one."""
        self._refuse_parts()
        (self.path / "last").mkdir(exist_ok=True)
        self.begin(config)

    def begin(self, config: dict[str, Any]) -> None:
        """Write the configuration, and metrics of no epoch."""
        replace(self.path / CONFIG, as_json(config))
        replace(self.path / METRICS, b"")
        self.write_manifest()

    @contextmanager
    def draft(self) -> Iterator["RunFolder"]:
        """Yield a folder to write a run in; at the end its files are moved here, config.json last.

        A process that is killed leaves nothing that looks like a run. No other process may write here.
        """
        draft = RunFolder(self.path / DRAFT)
        if self.has(CONFIG):  # written since somebody looked
            raise InputError(f"{self.path}: already holds a run: choose another --out")
        if draft.path.exists():  # a writer was killed, perhaps while it moved the files
            for name in (*FILES[1:], MANIFEST):
                (self.path / name).unlink(missing_ok=True)
            shutil.rmtree(draft.path)
        self._refuse_parts()
        draft.path.mkdir()
        try:
            yield draft
        except BaseException:
            shutil.rmtree(draft.path)
            raise
        names = {each.name for each in draft.path.iterdir()} - {LOCK, CONFIG}
        for name in (*names, CONFIG):
            move(draft.path / name, self.path / name)
        shutil.rmtree(draft.path)

    def _refuse_parts(self) -> None:
        for name in (*FILES[1:], MANIFEST):
            if self.has(name):
                raise InputError(
                    f"{self.path}: has {name} but no {CONFIG}: choose another --out, or remove {name}"
                )

    def write_json(self, name: str, value: Any) -> None:
        """Write a JSON document."""
        self.write(name, as_json(value))

    def write(self, name: str, content: bytes) -> None:
        """Replace a file, and update the manifest."""
        replace(self.path / name, content)
        self.write_manifest()

    def remove(self, *names: str) -> None:
        """Remove the files that exist, and update the manifest."""
        for name in filter(self.has, names):
            (self.path / name).unlink()
            self.write_manifest()

    def write_manifest(self) -> None:
        """Write the SHA-256 of each file."""
        digests = {name: digest(self.read_bytes(name)) for name in FILES if self.has(name)}
        replace(self.path / MANIFEST, as_json(digests))


def metrics_line(row: "Epoch") -> bytes:
    """Return one line of metrics.jsonl."""
    return json.dumps(row).encode() + b"\n"


def refuse_existing(outs: Iterable[str | Path], resumable: bool = True) -> None:
    """Refuse a directory that holds a run, which the user might resume; a file; and the zoo."""
    paths = list(map(Path, outs))
    refuse_zoo(paths)
    for out in paths:
        if out.exists() and not out.is_dir():
            raise InputError(f"{out}: is a file, not a directory: choose another --out")
        if RunFolder(out).exists():
            hint = "add --resume to continue it, or " if resumable else ""
            raise InputError(f"{out}: already holds a run: {hint}choose another --out")


def refuse_zoo(outs: Iterable[str | Path]) -> None:
    """Refuse a path of the zoo, to which nothing is written."""
    for out in filter(in_zoo, outs):
        raise InputError(
            f"{out}: nothing is written to the zoo: name a directory; "
            "`csprop zoo NAME --out DIR` copies a run of the zoo to one"
        )
