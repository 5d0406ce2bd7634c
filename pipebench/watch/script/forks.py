"""No thread of ours lives while this process forks: the child would have its locks, and not the thread."""

from __future__ import annotations

import functools
import os
import weakref
from typing import Protocol


class Pauses(Protocol):
    """Something with a thread that can be ended for some time."""

    def pause(self) -> None: ...


_known: weakref.WeakSet[Pauses] = weakref.WeakSet()


def pauses_at_forks(one: Pauses) -> None:
    """Lets this end its thread before each fork, as long as it lives. It starts the thread again itself.

    Nor does the thread go on right after the fork: Python 3.12 and later count threads then, and warn of a fork beside
    them.
    """
    _known.add(one)
    _before_forks()


@functools.cache
def _before_forks() -> None:
    def before() -> None:
        for one in list(_known):
            one.pause()

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=before)
