"""The run directory: what is in it, written so that no moment of death can spoil it.

    config.json            the whole resolved configuration and where it ran
    metrics.jsonl          one row an epoch
    model.safetensors      the best weights so far
    last/state.safetensors everything that the next epoch needs
    result.json            how it ended, once it has
    diagnosis.json         what was not finite, if training stopped for that
    manifest.json          the SHA-256 of each of them

A file is written under a temporary name, synced and renamed. An epoch is committed by the rename of
last/state.safetensors: whatever else was written after the previous commit is put back on resume.
"""

import fcntl
import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save
from torch import Tensor

from csprop.errors import InputError
from csprop.training.loop import Row, Trainer

FORMAT = 1
CONFIG, METRICS, WEIGHTS = "config.json", "metrics.jsonl", "model.safetensors"
LAST, RESULT, DIAGNOSIS = "last/state.safetensors", "result.json", "diagnosis.json"
MANIFEST = "manifest.json"


class RunFolder:
    """A run directory, for reading or for writing."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def exists(self) -> bool:
        return (self.path / CONFIG).exists()

    def read_json(self, name: str) -> Any:
        """A file's content, after checking it against the manifest."""
        content = self.read(name)
        try:
            return json.loads(content)
        except ValueError:
            raise InputError(f"{self.path / name}: is not JSON; the run is damaged") from None

    def read(self, name: str) -> bytes:
        content = _read(self.path / name)
        try:
            digests = json.loads(_read(self.path / MANIFEST))
        except ValueError:
            digests = None
        if not isinstance(digests, dict):
            raise InputError(f"{self.path / MANIFEST}: is not JSON; the run is damaged")
        if digests.get(name) != hashlib.sha256(content).hexdigest():
            raise InputError(
                f"{self.path / name}: is not what manifest.json says: it was changed, or training "
                f"was cut off while writing; `csprop train --resume --out {self.path}` mends the latter"
            )
        return content

    def read_config(self, verify: bool = True) -> dict[str, Any]:
        """The configuration; a run to be resumed may have died before its manifest was written."""
        if not self.exists():
            raise InputError(f"{self.path}: is not a run: there is no {CONFIG} in it")
        # Before the manifest is asked: a newer format may keep another one.
        try:
            config = json.loads(_read(self.path / CONFIG))
        except ValueError:
            config = None
        if not isinstance(config, dict) or not isinstance(config.get("format"), int):
            raise InputError(f"{self.path / CONFIG}: is not a run's configuration; it is damaged")
        if config["format"] > FORMAT:
            raise InputError(
                f"{self.path}: has format {config['format']}, and this csprop reads {FORMAT}: "
                "install a newer csprop"
            )
        return self.read_json(CONFIG) if verify else config

    def read_metrics(self) -> list[Row]:
        return [json.loads(line) for line in self.read(METRICS).splitlines()]

    def has(self, name: str) -> bool:
        return (self.path / name).exists()

    # Writing.

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep every other process from training into this folder."""
        self.path.mkdir(parents=True, exist_ok=True)
        lock = os.open(self.path, os.O_RDONLY)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield
        except BlockingIOError:
            raise InputError(
                f"{self.path}: another process is training here: wait for it, or choose another --out"
            ) from None
        finally:
            os.close(lock)

    def create(self, config: dict[str, Any]) -> None:
        (self.path / "last").mkdir(parents=True, exist_ok=True)
        (self.path / METRICS).write_bytes(b"")
        self.write_json(CONFIG, config)

    def write_json(self, name: str, value: Any) -> None:
        write(self.path / name, json.dumps(value, indent=2, ensure_ascii=False).encode() + b"\n")
        self._write_manifest()

    def commit(self, row: Row, trainer: Trainer) -> None:
        """Make a finished epoch last."""
        with (self.path / METRICS).open("ab") as file:
            file.write(json.dumps(row).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        if trainer.best is row:
            write(self.path / WEIGHTS, save(trainer.best_weights))
        tensors, values = trainer.state()
        values["sha256"] = hashlib.sha256(save(tensors)).hexdigest()
        write(self.path / LAST, save(tensors, {"csprop": json.dumps(values)}))
        self._write_manifest()

    def resume(self, trainer: Trainer) -> None:
        """Bring the trainer, and every file, to the last committed epoch."""
        if self.has(LAST):
            trainer.restore(*self._read_last())
            write(self.path / WEIGHTS, save(trainer.best_weights))
        rows = (self.path / METRICS).read_bytes().split(b"\n")[: trainer.epoch]
        write(self.path / METRICS, b"".join(row + b"\n" for row in rows))
        self._write_manifest()

    def _read_last(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        path = self.path / LAST
        try:
            with safe_open(path, framework="pt") as file:
                values = json.loads(file.metadata()["csprop"])
            tensors = load_file(path)
            if hashlib.sha256(save(tensors)).hexdigest() == values["sha256"]:
                return tensors, values
        except (SafetensorError, ValueError, KeyError, TypeError):
            pass
        raise InputError(f"{path}: is damaged: train again into another --out")

    def _write_manifest(self) -> None:
        digests = {
            name: hashlib.sha256((self.path / name).read_bytes()).hexdigest()
            for name in (CONFIG, METRICS, WEIGHTS, LAST, RESULT, DIAGNOSIS)
            if self.has(name)
        }
        write(self.path / MANIFEST, json.dumps(digests, indent=2).encode() + b"\n")


def write(path: Path, content: bytes) -> None:
    """All of it or nothing, also after a power cut."""
    temporary = path.with_name(f".{path.name}.tmp")
    with temporary.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise InputError(
            f"{path}: is missing: the run is half-written; "
            f"`csprop train --resume --out {path.parent}` completes it"
        ) from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
