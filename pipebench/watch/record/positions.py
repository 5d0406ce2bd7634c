"""Where this process stands in the files and connections that it reads."""

from __future__ import annotations

import _socket
import contextlib
import os
import stat
import sys

Positions = dict[tuple[int, int, int], int]
"""Bytes from the begin, by descriptor, device and inode of each regular file that is open for reading.

Of a TCP connection, the bytes that it has received.
"""
_INFO, _RECEIVED = 192, slice(128, 136)  # `tcpi_bytes_received` in `struct tcp_info` of linux/tcp.h


def positions(folder: str = "/proc/self/fdinfo") -> Positions:
    """Empty where the system has no such folder."""
    found: Positions = {}
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            with contextlib.suppress(OSError, ValueError, KeyError):  # closed meanwhile
                kept = os.fstat(int(name))
                if not stat.S_ISREG(kept.st_mode):
                    continue
                with open(os.path.join(folder, name)) as file:
                    told = dict(line.split(":", 1) for line in file)
                if int(told["flags"], 8) & os.O_ACCMODE != os.O_WRONLY:
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
                    told = _told(int(name))[_RECEIVED]
                    if len(told) == _RECEIVED.stop - _RECEIVED.start:
                        found[int(name), kept.st_dev, kept.st_ino] = int.from_bytes(told, sys.byteorder)
    return found


def _told(number: int) -> bytes:
    """What the kernel tells of a TCP connection. The copy of its descriptor is closed again.

    Its kind says that it does not block: else Python would set that, for the script's connection too, where a default
    timeout is set.
    """
    one = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM | _socket.SOCK_NONBLOCK, 0, os.dup(number))
    try:
        return one.getsockopt(_socket.IPPROTO_TCP, _socket.TCP_INFO, _INFO)
    finally:
        one.close()


def moved(before: Positions, after: Positions) -> bool:
    """Whether a file was read that stayed open. One that was opened and closed in between is another's own."""
    return any(after.get(key, at) != at for key, at in before.items())
