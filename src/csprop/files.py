"""The ground floor: files that are written whole or not at all, one writer at a time, and digests."""

import hashlib
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from csprop.errors import InputError

MOST_NESTED = 64
"""Lists and objects within each other, in a document that is read."""
LOCK = ".csprop.lock"
"""In a folder that somebody writes into; it says nothing once nobody does."""


def digest(content: bytes) -> str:
    """SHA-256, in hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()


def from_json(content: bytes) -> Any:
    """What a JSON document says, if it is one that could be written again and shown.

    Raises:
        ValueError: it is none, is nested too deeply, or has text that cannot be written as UTF-8.
    """
    try:
        value = json.loads(content)
        json.dumps(value, ensure_ascii=False).encode()
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(MOST_NESTED):
        if not level:
            return value
        lists = (each.values() if isinstance(each, dict) else each for each in level)
        level = [below for each in lists for below in each if isinstance(below, dict | list)]
    raise ValueError("it is nested too deeply")


def as_json(value: Any) -> bytes:
    """A JSON document, as every file of csprop's has it."""
    return json.dumps(value, indent=2, ensure_ascii=False).encode() + b"\n"


def replace(path: Path, content: bytes) -> None:
    """Write a file so that it is there whole or as it was, also after a power cut.

    The content goes to a new file beside it, whose name nobody can guess, and then takes its place.

    Raises:
        OSError: with the path, which a full disk does not name by itself.
    """
    try:
        # mkstemp opens with O_EXCL: what somebody put there before is never written to.
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None
    try:
        with os.fdopen(handle, "wb") as file:
            os.chmod(temporary, _mode(path))
            _write_through(file, content)
        os.replace(temporary, path)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None
    finally:
        with suppress(OSError):  # it is there only where something went wrong
            os.unlink(temporary)
    _sync_folder(path.parent)


def sweep(folder: Path) -> None:
    """Remove what a writer that was killed left behind; nobody else may be writing into the folder."""
    for temporary in folder.glob(".*.tmp"):
        temporary.unlink(missing_ok=True)


def append(path: Path, content: bytes) -> None:
    """Add to the end of a file, and wait until it is on the disk."""
    with path.open("ab") as file:
        _write_through(file, content)


@contextmanager
def one_writer(folder: Path) -> Iterator[None]:
    """Make a folder, and keep every other process from writing into it.

    Raises:
        InputError: it is a file, or another process is at it.
    """
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder}: is a file: choose another --out")
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / LOCK, blocking=False)
    try:
        lock.acquire()
    except Timeout:
        raise InputError(
            f"{folder}: another process is writing here: wait for it, or choose another --out"
        ) from None
    try:
        yield
    finally:
        lock.release()


def _write_through(file: Any, content: bytes) -> None:
    file.write(content)
    file.flush()
    os.fsync(file.fileno())


def _mode(path: Path) -> int:
    """Of the file that is replaced, or of a new one: mkstemp's own would hide it from others."""
    with suppress(OSError):
        return path.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def _sync_folder(folder: Path) -> None:
    """So that the new name lasts; Windows opens no folders, and needs it not."""
    with suppress(PermissionError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
