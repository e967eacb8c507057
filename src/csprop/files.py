"""Files that are replaced atomically, directories with one writer at a time, and digests."""

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
"""Name of the lock file in a directory. It may stay behind; only a process that holds it counts."""


def digest(content: bytes) -> str:
    """The SHA-256 of some content, in hexadecimal digits."""
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
    """A value as an indented JSON document in UTF-8."""
    return json.dumps(value, indent=2, ensure_ascii=False).encode() + b"\n"


def replace(path: Path, content: bytes) -> None:
    """Replace a file atomically: even after a power cut it has the old content or the new one.

    The content is written to a temporary file in the same directory, which is then renamed.

    Raises:
        OSError: the file cannot be written; the error names `path`.
    """
    try:
        # mkstemp opens with O_EXCL: an existing file or link of that name is never written to.
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
        with suppress(OSError):  # it exists only if an error came first
            os.unlink(temporary)
    _sync_folder(path.parent)


def sweep(folder: Path) -> None:
    """Remove the temporary files of a killed writer. No other process may be writing to the folder."""
    for temporary in folder.glob(".*.tmp"):
        temporary.unlink(missing_ok=True)


def append(path: Path, content: bytes) -> None:
    """Append to a file, and wait until the content is on the disk."""
    with path.open("ab") as file:
        _write_through(file, content)


@contextmanager
def one_writer(folder: Path) -> Iterator[None]:
    """Create a directory if necessary, and lock it against other writers.

    Raises:
        InputError: `folder` is a file, or another process holds the lock.
    """
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder}: is a file, not a directory: choose another --out")
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / LOCK, blocking=False)
    try:
        lock.acquire()
    except Timeout:
        raise InputError(
            f"{folder}: another process is writing here: wait until it ends, or choose another --out"
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
    """The permissions of the existing file, or of a new one: mkstemp would make it private."""
    with suppress(OSError):
        return path.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def _sync_folder(folder: Path) -> None:
    """Flush the renaming to the disk. Windows cannot open directories and does not need it."""
    with suppress(PermissionError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
