"""Folders that live as long as a run. What a killed run left behind is removed by the next one.

Standard library only, because a block of the user's own script may be watched.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import platform
import shutil
import stat
import tempfile
from pathlib import Path

from pipebench.host import identity

_PREFIX = "pipebench-"


class Scratch:
    """A private folder under an unpredictable name in the folder for temporary files, to be removed after use.

    Its process holds a lock on a file in it. The system frees the lock when the process ends, however it ends, and then
    the next `Scratch` of the same user removes the folder (flock(2)). Without locks, a folder that was left stays.
    Raises OSError if there is no folder for temporary files, or if nothing can be made in it.
    """

    def __init__(self, what: str) -> None:
        _sweep(Path(tempfile.gettempdir()))
        self._pid = os.getpid()
        self.path = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{what}-"))
        try:
            self._lock = self._locked()
        except BaseException:
            shutil.rmtree(self.path, ignore_errors=True)
            raise

    def _locked(self) -> int:
        draft = self.path / ".pipebench-new"
        lock = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with contextlib.suppress(OSError):  # some file systems have no locks
            fcntl.flock(lock, fcntl.LOCK_EX)
            draft.rename(self.path / _lock_name())  # now it is locked whenever somebody sees it
        return lock

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, *_: object) -> None:
        self.remove()

    def remove(self) -> None:
        """Removes the folder. In a process that was forked from its own, it stays."""
        if os.getpid() != self._pid:
            return
        shutil.rmtree(self.path, ignore_errors=True)
        with contextlib.suppress(OSError):
            os.close(self._lock)
        self._lock = -1


def _lock_name() -> str:
    """It has the kernel in it: nodes may share a file system, and not see each other's locks there."""
    return f".pipebench-lock-{identity.digests().get('boot') or platform.node()}"


def _sweep(parent: Path) -> None:
    """Removes the folders whose process has ended, if it was one of this kernel. Nothing here is worth an error."""
    with contextlib.suppress(OSError):
        for found in sorted(parent.glob(f"{_PREFIX}*")):
            with contextlib.suppress(OSError):
                _remove_if_left(found)


def _remove_if_left(folder: Path) -> None:
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        return
    lock = os.open(folder / _lock_name(), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # raises while its process lives
        shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(lock)
