"""Where this process stands in the files and connections that it reads. Workers that are forked from it share them.

A dataset that keeps a file open and reads it by `seek` and `read` would get other bytes as soon as two processes do so.
Of a connection to a server, each would get answers that are the other's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pipebench.watch.record.positions import Positions, moved, positions, received
from pipebench.watch.trial.arms import CannotTry

_WATCHED = 3  # batches of a window: to look at all connections takes some microseconds for each


class SharedFiles:
    """Notices files that are open in this process and that several workers of a changed loader would read."""

    def __init__(self) -> None:
        self._before: Positions = {}
        self._moved = False
        self._watched = 0  # so many more batches

    def look(self, workers: int) -> None:
        """Called before the present loader, with so many workers, makes batches."""
        self._before, self._moved = positions() if workers < 2 else {}, False
        self._watched = 0 if workers else _WATCHED

    def during(self, draw: Callable[[], Any]) -> Any:
        """What `draw` gives: a batch that this process may make itself, maybe with an open connection."""
        if not self._watched:
            return draw()
        self._watched -= 1
        before = received()
        try:
            return draw()
        finally:
            self._moved |= moved(before, received())

    def over(self) -> None:
        """Called when the present loader has made its batches: what others read from now on does not count."""
        self._before, self._moved, self._watched = {}, self._have_moved(), 0

    def check(self, wanted: int) -> None:
        """Raises CannotTry if the present loader has read such a file, and the changed one has several workers."""
        if wanted >= 2 and self._have_moved():
            raise CannotTry("shares-files")

    def _have_moved(self) -> bool:
        return self._moved or (bool(self._before) and moved(self._before, positions()))
