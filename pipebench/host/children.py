"""How processes of `multiprocessing` ended, and the end of what they left. Nothing waits. Standard library only."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any


def ended(process: Any) -> int | None:
    """The exit status of a process (-n: signal n ended it); None while it runs.

    It stays a zombie if it is one, so whoever waits for it finds what it would have found.
    """
    known = getattr(getattr(process, "_popen", None), "returncode", None)
    if known is not None:
        return int(known)
    with contextlib.suppress(ChildProcessError):
        found = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if found is None:
            return None
        return found.si_status if found.si_code == os.CLD_EXITED else -found.si_status
    code = process.exitcode  # a child of the fork server
    return None if code is None else int(code)


def kill_all_with(variable: str, value: str) -> None:
    """Kills each process whose environment began with this variable: what a child started, in any session.

    The value must be of one child alone. Processes of other users, and those that changed users, cannot be looked at.
    """
    wanted = os.fsencode(f"{variable}={value}")
    for one in filter(str.isdecimal, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if int(one) != os.getpid() and wanted in Path("/proc", one, "environ").read_bytes().split(b"\0"):
                os.kill(int(one), signal.SIGKILL)


def named(number: int) -> str:
    """The name of a signal: `SIGKILL`."""
    with contextlib.suppress(ValueError):
        return signal.Signals(number).name
    return f"signal {number}"


def how(status: int) -> str:
    """An exit status in words.

    >>> how(0), how(-9)
    ('left with exit status 0', 'was killed by SIGKILL')
    """
    return f"was killed by {named(-status)}" if status < 0 else f"left with exit status {status}"


def lost_in(trace: TracebackType | None) -> Iterator[tuple[int, int]]:
    """The numbers of the workers that had ended, and their status, of the loaders in which an exception was raised."""
    seen: set[int] = set()
    while trace is not None:
        holder = trace.tb_frame.f_locals.get("self")
        workers = getattr(holder, "__dict__", {}).get("_workers")
        if isinstance(workers, list) and id(holder) not in seen:
            seen.add(id(holder))
            for number, one in enumerate(workers):
                if (status := ended(one)) is not None:
                    yield number, status
        trace = trace.tb_next
