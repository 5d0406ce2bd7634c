"""Writes files whole or not at all. Checks their places before any work is done, and refuses unusable ones."""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from pipebench.errors import PipebenchError, UsageError, remedy_of
from pipebench.units import printable


def destination(path: Path, force: bool) -> Path:
    """The real path to which `path` leads: a new file or, with `force`, an existing regular file. Links are followed.

    Raises UsageError if `path` exists and `force` is false, or if it leads to something else than a regular file.
    """
    place = Path(os.path.realpath(path))
    if os.path.lexists(place) and not place.is_file():
        raise UsageError(f"{printable(path)} is not a regular file", "name a file to be written")
    if os.path.lexists(path) and not force:
        raise UsageError(f"{printable(path)} exists; --force overwrites it", "name another file, or add --force")
    return place


def check_writable(path: Path) -> None:
    """Raises PipebenchError if no file can be written beside `path`. It tries to, as permissions alone do not tell."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = _draft(path)
        os.close(descriptor)
        os.unlink(temporary)
    except OSError as error:
        raise _unwritable(path, error, "nothing has been started") from error


def write_whole(path: Path, content: bytes, mode: int = 0o666) -> None:
    """Writes a file so that it has either all of the new content or is as it was: temporary file, fsync, rename.

    `mode` is what the file's rights would be without a umask. Raises PipebenchError if the file cannot be written.
    """
    temporary = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = _draft(path)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, mode & ~_umask())
        os.replace(temporary, path)
    except OSError as error:
        if temporary is not None:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
        raise _unwritable(path, error, "the file is as it was") from error


@contextlib.contextmanager
def alone(folder: Path) -> Iterator[None]:
    """A lock on a folder, for one process at a time. The system frees it when the process dies.

    Raises OSError if the folder cannot hold its file of the lock, or if this file is a link.
    """
    descriptor = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _draft(path: Path) -> tuple[int, str]:
    return tempfile.mkstemp(prefix=f".{path.name[:50]}.", dir=path.parent)


def _unwritable(path: Path, error: OSError, kept: str) -> PipebenchError:
    remedy = remedy_of(error, "choose another place")
    return PipebenchError(f"cannot write {printable(path)}: {error.strerror}", f"{remedy}; {kept}")


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
