"""No thread of ours lives while this process forks: the child would have its locks, and not the thread.

A child that trains is not watched, and says so.
"""

from __future__ import annotations

import functools
import os
import threading
import weakref
from collections.abc import Callable
from typing import Any, Protocol

from pipebench.watch.record.from_handlers import forgiving
from pipebench.watch.record.patches import unseen
from pipebench.watch.record.program_lines import LoadsInFork
from pipebench.watch.record.recording import Recording


class Pauses(Protocol):
    """Something with a thread that can be ended for some time."""

    def pause(self) -> None: ...


_told: set[int] = set()  # processes
_known: weakref.WeakSet[Pauses] = weakref.WeakSet()


def pauses_at_forks(one: Pauses) -> None:
    """Lets this end its thread before each fork, as long as it lives. It starts the thread again itself.

    Nor does the thread go on in a hook after the fork: Python 3.12 and later count threads then, and warn of a fork
    beside them. See `goes_on_after_forks`.
    """
    _known.add(one)
    _before_forks()


def goes_on_after_forks(go_on: Callable[[], None], recording: Recording) -> None:
    """Calls `go_on` once `os.fork` has returned in the main thread, which may wait for the child from there on."""
    if not hasattr(os, "fork"):
        return
    plain, main = os.fork, threading.main_thread().ident

    @unseen
    @functools.wraps(plain)
    def fork() -> int:
        child = plain()
        if child and threading.get_ident() == main:
            recording.guarded("looking on after a fork", go_on)
        return child

    recording.patches.replace(os, "fork", fork)


def tell_of_fork(recording: Recording, loader: Any) -> None:
    """Notes once that this process, which the script forked and which is no worker, iterates a loader."""
    if os.getpid() in _told:
        return
    _told.add(os.getpid())
    with forgiving():  # here is no recording that could have a fault
        Recording(recording.settings, "fork").write(LoadsInFork(type(getattr(loader, "dataset", None)).__name__))


@functools.cache
def _before_forks() -> None:
    def before() -> None:
        for one in list(_known):
            one.pause()

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=before)
