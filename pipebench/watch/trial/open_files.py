"""Where this process stands in the files that it reads. Workers that are forked from it share these positions.

A dataset that keeps a file open and reads it by `seek` and `read` would get other bytes as soon as two processes do so.
"""

from __future__ import annotations

import contextlib
import os
import stat

from pipebench.watch.trial.arms import CannotTry

Positions = dict[tuple[int, int, int], int]
"""Bytes from the begin, by descriptor, device and inode of each regular file that is open for reading alone."""


def positions(folder: str = "/proc/self/fdinfo") -> Positions:
    """Empty where the system has no such folder."""
    found: Positions = {}
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            with contextlib.suppress(OSError, ValueError, KeyError):  # closed meanwhile
                kept = os.fstat(int(name))
                with open(os.path.join(folder, name)) as file:
                    told = dict(line.split(":", 1) for line in file)
                if stat.S_ISREG(kept.st_mode) and int(told["flags"], 8) & os.O_ACCMODE == os.O_RDONLY:
                    found[int(name), kept.st_dev, kept.st_ino] = int(told["pos"])
    return found


def moved(before: Positions, after: Positions) -> bool:
    """Whether a file was read that stayed open. One that was opened and closed in between is another's own."""
    return any(after.get(key, at) != at for key, at in before.items())


class SharedFiles:
    """Notices files that are open in this process and that several workers of a changed loader would read."""

    def __init__(self) -> None:
        self._before: Positions = {}
        self._moved = False

    def look(self, workers: int) -> None:
        """Called before the present loader, with so many workers, makes batches."""
        self._before, self._moved = positions() if workers < 2 else {}, False

    def over(self) -> None:
        """Called when the present loader has made its batches: what others read from now on does not count."""
        self._before, self._moved = {}, self._have_moved()

    def check(self, wanted: int) -> None:
        """Raises CannotTry if the present loader has read such a file, and the changed one has several workers."""
        if wanted >= 2 and self._have_moved():
            raise CannotTry("shares-files")

    def _have_moved(self) -> bool:
        return self._moved or (bool(self._before) and moved(self._before, positions()))
