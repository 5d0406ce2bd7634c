"""A class that stands for `queue.SimpleQueue`, which is written in C and cannot be changed.

It has nothing of its own until a loader is iterated in a thread beside the main one: then its `put` and `get` are
replaced, also those of the queues that were made before.
"""

from __future__ import annotations

import queue
from typing import Any

from pipebench.watch.record.patches import Patches


class _Kind(type):
    """Says of a queue that was made before that it is one of these, too."""

    def __instancecheck__(cls, one: Any) -> bool:
        stands_in = cls.__dict__.get("_stands_in")
        return isinstance(one, cls.__base__ or object) if stands_in else super().__instancecheck__(one)

    def __subclasscheck__(cls, kind: type) -> bool:
        stands_in = cls.__dict__.get("_stands_in")
        return issubclass(kind, cls.__base__ or object) if stands_in else super().__subclasscheck__(kind)


def stand_in(patches: Patches) -> Any:
    """Puts the class in the place of Python's, and gives it. Where Python's is written in Python, that is given."""
    plain: Any = queue.SimpleQueue
    if not plain.__module__.startswith("_"):
        return plain
    space = {"__slots__": (), "__module__": "queue", "__doc__": plain.__doc__, "_stands_in": True}
    found = _Kind("SimpleQueue", (plain,), space)
    vars(queue)["SimpleQueue"] = found
    # Not by `replace`, which would look through all objects at the end: a name that still holds ours does no harm.
    patches.on_undo(lambda: _put_back(plain, found))
    return found


def _put_back(plain: Any, ours: Any) -> None:
    if queue.SimpleQueue is ours:
        vars(queue)["SimpleQueue"] = plain
