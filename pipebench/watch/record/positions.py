"""Where this process stands in the files and connections that it reads."""

from __future__ import annotations

import contextlib
import os
import socket
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
