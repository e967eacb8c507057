"""The run directory: what is in it, written so that no moment of death can spoil it.

    config.json            the whole resolved configuration and where it ran
    metrics.jsonl          one row an epoch
    model.safetensors      the best weights so far
    last/state.safetensors everything that the next epoch needs
    result.json            how it ended, once it has
    diagnosis.json         what was not finite, if training stopped for that
    locked.safetensors     the locked network, once certified
    certificate.json       what was proven of it, or why nothing was
    manifest.json          the SHA-256 of each of them

A file is replaced whole; metrics.jsonl alone is appended to. An
epoch is committed by the rename of last/state.safetensors, which also carries the digests of itself, of
the configuration and of the metrics so far: whatever was written after it is put back on resume, and
whatever was changed before it is noticed.
"""

import json
import math
import time
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save
from torch import Tensor

from csprop.errors import InputError
from csprop.files import append, as_json, digest, from_json, replace, sweep
from csprop.training.loop import Epoch, Trainer

FORMAT = 1
CONFIG, METRICS, WEIGHTS = "config.json", "metrics.jsonl", "model.safetensors"
LAST, RESULT, DIAGNOSIS = "last/state.safetensors", "result.json", "diagnosis.json"
LOCKED, CERTIFICATE = "locked.safetensors", "certificate.json"
MANIFEST = "manifest.json"
MEASURED = ("epoch", "loss", "accuracy", "f1", "grad_norm")
"""What every row of the metrics has, as a finite number."""
FILES = (CONFIG, METRICS, WEIGHTS, LAST, RESULT, DIAGNOSIS, LOCKED, CERTIFICATE)


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
            return from_json(content)
        except ValueError:
            raise InputError(f"{self.path / name}: is not JSON; the run is damaged") from None

    def read(self, name: str) -> bytes:
        for _ in range(10):  # a run that is being trained changes its files one after the other
            content = _read(self.path / name)
            if self.digests().get(name) == digest(content):
                return content
            time.sleep(0.02)
        again = f"train --resume --out {self.path}"
        if name in (LOCKED, CERTIFICATE):
            again = f"certify {self.path}"
        raise InputError(
            f"{self.path / name}: is not what manifest.json says: it was changed, or cut off while it "
            f"was written; `csprop {again}` mends the latter"
        )

    def digests(self) -> dict[str, str]:
        """What manifest.json says."""
        content = _read(self.path / MANIFEST)
        try:
            digests = from_json(content)
        except ValueError:
            digests = None
        if not isinstance(digests, dict):
            raise InputError(f"{self.path / MANIFEST}: is not a manifest; the run is damaged")
        return digests

    def read_config(self, verify: bool = True) -> dict[str, Any]:
        """The configuration; a run to be resumed may have died before its manifest was written."""
        if not self.exists():
            inside = any(self.path.glob(f"*/{CONFIG}"))
            hint = f"; write one of the runs in it, {self.path}/*" if inside else ""
            raise InputError(f"{self.path}: is not a run: there is no {CONFIG} in it{hint}")
        # Before the manifest is asked: a newer format may keep another one.
        content = _read(self.path / CONFIG)
        try:
            config = from_json(content)
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

    def read_metrics(self) -> list[Epoch]:
        content = self.read(METRICS)
        try:
            rows = [from_json(line) for line in content.splitlines()]
            whole = all(math.isfinite(row[name]) for row in rows for name in MEASURED)
        except (ValueError, LookupError, TypeError, OverflowError):
            whole, rows = False, []
        if not whole:
            raise InputError(f"{self.path / METRICS}: is not what training writes; the run is damaged")
        return rows

    def has(self, name: str) -> bool:
        return (self.path / name).exists()

    # Writing.

    def create(self, config: dict[str, Any]) -> None:
        """Start a run in a folder that holds none, nor the remains of one."""
        for name in (*FILES[1:], MANIFEST):
            if self.has(name):
                raise InputError(
                    f"{self.path}: has {name} but no {CONFIG}: choose another --out, or move it away"
                )
        (self.path / "last").mkdir(exist_ok=True)
        replace(self.path / CONFIG, as_json(config))
        replace(self.path / METRICS, b"")
        self._write_manifest()

    def write_json(self, name: str, value: Any) -> None:
        self.write(name, as_json(value))

    def write(self, name: str, content: bytes) -> None:
        replace(self.path / name, content)
        self._write_manifest()

    def remove(self, *names: str) -> None:
        for name in filter(self.has, names):
            (self.path / name).unlink()
            self._write_manifest()

    def commit(self, row: Epoch, trainer: Trainer, identity: str) -> None:
        """Make a finished epoch last, as one of the run with this identity."""
        append(self.path / METRICS, metrics_line(row))
        if trainer.best is row:
            replace(self.path / WEIGHTS, save(trainer.best_weights))
        tensors, values = trainer.state()
        values["sha256"] = {
            "state": digest(save(tensors) + json.dumps(values).encode()),
            "metrics": digest((self.path / METRICS).read_bytes()),
            "identity": identity,
        }
        replace(self.path / LAST, save(tensors, {"csprop": json.dumps(values)}))
        self._write_manifest()

    def resume(self, trainer: Trainer, identity: str) -> None:
        """Bring the trainer, and every file, to the last committed epoch."""
        for folder in (self.path, self.path / "last"):
            sweep(folder)
        lines: list[bytes] = []
        if self.has(LAST):
            tensors, values = self._read_last()
            content = _read(self.path / METRICS) if self.has(METRICS) else b""
            lines = content.splitlines(keepends=True)[: values["epoch"]]
            for name, current in (("metrics", digest(b"".join(lines))), ("identity", identity)):
                if values["sha256"][name] != current:
                    changed = METRICS if name == "metrics" else CONFIG
                    raise InputError(
                        f"{self.path / changed}: was changed since {LAST} was written: "
                        "train again into another --out"
                    )
            trainer.restore(tensors, values)
            replace(self.path / WEIGHTS, save(trainer.best_weights))
        elif LAST in self.digests() if self.has(MANIFEST) else self.has(WEIGHTS):
            raise InputError(f"{self.path / LAST}: is missing: train again into another --out")
        (self.path / "last").mkdir(exist_ok=True)
        replace(self.path / METRICS, b"".join(lines))
        self._write_manifest()

    def _read_last(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        path = self.path / LAST
        try:
            with safe_open(path, framework="pt") as file:
                values = json.loads(file.metadata()["csprop"])
            tensors, digests = load_file(path), values.pop("sha256")
            if digest(save(tensors) + json.dumps(values).encode()) == digests["state"]:
                return tensors, values | {"sha256": digests}
        except (SafetensorError, OSError, ValueError, RecursionError, LookupError, TypeError):
            pass
        raise InputError(f"{path}: is damaged: train again into another --out")

    def _write_manifest(self) -> None:
        digests = {name: digest(_read(self.path / name)) for name in FILES if self.has(name)}
        replace(self.path / MANIFEST, as_json(digests))


def metrics_line(row: Epoch) -> bytes:
    """A row of metrics.jsonl."""
    return json.dumps(row).encode() + b"\n"


def _read(path: Path) -> bytes:
    try:
        if path.exists() and not path.is_file():  # a pipe or a device might never end
            raise InputError(f"{path}: cannot be read: it is not a regular file")
        return path.read_bytes()
    except FileNotFoundError:
        raise InputError(
            f"{path}: is missing: the run is half-written; "
            f"`csprop train --resume --out {path.parent}` completes it"
        ) from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
