"""Says from outside whether a process waits in the kernel for the lock of a file: by its main thread's system call."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from typing import NamedTuple


class _Calls(NamedTuple):
    """The numbers of flock and fcntl."""

    flock: int
    fcntl: int


_NUMBERS: Mapping[str, _Calls] = {"x86_64": _Calls(73, 72), "aarch64": _Calls(32, 25)}
_WAITING = (7, 38)  # F_SETLKW and F_OFD_SETLKW: other commands of fcntl wait for nothing


def waits_for_lock(pid: int, proc: str = "/proc", machine: str = "") -> bool | None:
    """Whether its main thread is in a call that takes such a lock. None: the system does not tell.

    A call that finds the lock free returns at once, so looks hardly find it.
    """
    numbers = _NUMBERS.get(machine or platform.machine())
    if numbers is None:
        return None
    try:
        with open(f"{proc}/{pid}/syscall", encoding="ascii") as file:
            number, *given = file.read().split()
        if number == str(numbers.fcntl):
            return int(given[1], 16) & 0xFFFFFFFF in _WAITING
    except (OSError, ValueError, IndexError):  # it is gone, or this kernel tells less
        return None
    return number == str(numbers.flock)  # "running" is no number
