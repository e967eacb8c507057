"""Files that are replaced atomically, directories with one writer at a time, and digests."""

import errno
import hashlib
import json
import os
import re
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from filelock import FileLock, Timeout

from csprop.errors import InputError, nearest

MOST_NESTED = 64
"""Lists and objects within each other, in a document that is read."""
LOCK = ".csprop.lock"
"""Name of the lock file in a directory. It may stay behind; only a process that holds it counts."""

_TEMPORARY = re.compile(r"\..+\.[0-9a-f]{16}\.tmp")
_BINARY = getattr(os, "O_BINARY", 0)  # Windows would change the ends of lines


def digest(content: bytes) -> str:
    """Return the SHA-256 of some content, in hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()


def from_json(content: bytes) -> Any:
    """Read a JSON document; raise a ValueError if it is nested deeply, or cannot be written again."""
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


def fault(error: Exception) -> str:
    """Return why and where some text is not JSON, from an error of `from_json` or `json`."""
    if isinstance(error, json.JSONDecodeError):
        line = f"line {error.lineno}, " if "\n" in error.doc.strip() else ""
        reason = error.msg.removesuffix(" at")
        return f"{reason[:1].lower()}{reason[1:]} at {line}column {error.colno}"
    if isinstance(error, UnicodeDecodeError):
        return f"byte {error.start} is not UTF-8 text"
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    return "a number has thousands of digits" if "digits" in str(error) else str(error)


def as_json(value: Any) -> bytes:
    """Return a value as an indented JSON document in UTF-8."""
    return json.dumps(value, indent=2, ensure_ascii=False).encode() + b"\n"


def replace(path: Path, content: bytes) -> None:
    """Replace a file atomically: even after a power cut it has the old content or the new one.

    The content is written to a temporary file in the same directory, which is then renamed. A link is
    followed. An OSError names `path`.
    """
    path = Path(os.path.realpath(path))  # `resolve` raises RuntimeError at a link to itself
    if path.exists() and not path.is_file():  # such as /dev/null, which a rename would remove
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    # O_EXCL: an existing file or link of that name is never written to.
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    try:
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY, 0o666)
        with os.fdopen(handle, "wb") as file:
            if path.exists():
                os.chmod(temporary, path.stat().st_mode & 0o777)
            _write_through(file, content)
        _rename(temporary, path)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None
    finally:
        with suppress(OSError):  # it exists only if an error came first
            temporary.unlink()
    _sync_folder(path.parent)


def append(path: Path, content: bytes) -> None:
    """Append to a file, and wait until the content is on the disk."""
    with path.open("ab") as file:
        _write_through(file, content)


def move(source: Path, target: Path) -> None:
    """Rename a file atomically within a file system; a file of the new name is replaced."""
    _rename(source, target)
    _sync_folder(target.parent)


def sweep(folder: Path) -> None:
    """Remove the temporary files of a killed writer. No other process may be writing to the folder."""
    for temporary in folder.glob(".*.tmp"):
        if _TEMPORARY.fullmatch(temporary.name):
            temporary.unlink(missing_ok=True)


@contextmanager
def open_file(path: Path) -> Iterator[BinaryIO]:
    """Open a file of the user; if that is impossible, an InputError says why."""
    try:
        if path.exists() and not path.is_file():  # a pipe or a device might never end
            raise InputError(f"{path}: cannot be read: it is not a regular file")
        with path.open("rb") as file:
            yield file
    except InputError:
        raise
    except FileNotFoundError:
        raise InputError(f"{path}: there is no such file{_suggest(path)}") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    except ValueError:
        raise InputError(f"{str(path)!r}: cannot be read: no file can have this name") from None


def _suggest(path: Path) -> str:
    """Suggest a file with a similar name."""
    with suppress(OSError, ValueError):
        if near := nearest(path.name, (each.name for each in path.parent.iterdir() if each.is_file())):
            return f": did you mean {path.with_name(near)}?"
    return ""


@contextmanager
def one_writer(folder: Path) -> Iterator[None]:
    """Create a directory if necessary, and lock it; refuse one that another process has locked."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder}: is a file, not a directory")
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / LOCK, blocking=False)
    try:
        lock.acquire()
    except Timeout:
        raise InputError(
            f"{folder}: another process is writing here: wait until it ends, or use another directory"
        ) from None
    try:
        yield
    finally:
        lock.release()


def _write_through(file: Any, content: bytes) -> None:
    file.write(content)
    file.flush()
    os.fsync(file.fileno())


def _rename(temporary: Path, path: Path) -> None:
    """Rename a file; on Windows wait a little while somebody reads the other one."""
    for _ in range(100 if os.name == "nt" else 0):
        with suppress(PermissionError):
            return os.replace(temporary, path)
        time.sleep(0.02)
    return os.replace(temporary, path)


def _sync_folder(folder: Path) -> None:
    """Flush the renaming to the disk. Windows cannot open directories and does not need it."""
    with suppress(PermissionError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
