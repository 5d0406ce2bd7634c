"""Where this process stands in the files and connections that it reads. Workers that are forked from it share them.

A dataset that keeps a file open and reads it by `seek` and `read` would get other bytes as soon as two processes do so.
Of a connection to a server, each would get answers that are the other's.
"""

from __future__ import annotations

import contextlib
import os
import socket
import stat
import sys
from collections.abc import Callable
from typing import Any

from pipebench.watch.trial.arms import CannotTry

Positions = dict[tuple[int, int, int], int]
"""Bytes from the begin, by descriptor, device and inode of each regular file that is open for reading.

Of a TCP connection, the bytes that it has received.
"""
_WATCHED = 3  # batches of a window: to look at all connections takes some microseconds for each
_INFO, _RECEIVED = 192, slice(128, 136)  # `tcpi_bytes_received` in `struct tcp_info` of linux/tcp.h


def positions(folder: str = "/proc/self/fdinfo") -> Positions:
    """Empty where the system has no such folder."""
    found: Positions = {}
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            with contextlib.suppress(OSError, ValueError, KeyError):  # closed meanwhile
                kept = os.fstat(int(name))
                with open(os.path.join(folder, name)) as file:
                    told = dict(line.split(":", 1) for line in file)
                if stat.S_ISREG(kept.st_mode) and int(told["flags"], 8) & os.O_ACCMODE != os.O_WRONLY:
                    found[int(name), kept.st_dev, kept.st_ino] = int(told["pos"])
    return found


def received(folder: str = "/proc/self/fd") -> Positions:
    """Empty where the system has no such folder. Connections within this machine (Unix sockets) do not count bytes."""
    found: Positions = {}
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            with contextlib.suppress(OSError, ValueError):  # closed meanwhile, or no TCP
                kept = os.fstat(int(name))
                if stat.S_ISSOCK(kept.st_mode):
                    with socket.fromfd(int(name), socket.AF_INET, socket.SOCK_STREAM) as one:  # a copy, of any kind
                        told = one.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO)[_RECEIVED]
                    if len(told) == _RECEIVED.stop - _RECEIVED.start:
                        found[int(name), kept.st_dev, kept.st_ino] = int.from_bytes(told, sys.byteorder)
    return found


def moved(before: Positions, after: Positions) -> bool:
    """Whether a file was read that stayed open. One that was opened and closed in between is another's own."""
    return any(after.get(key, at) != at for key, at in before.items())


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
