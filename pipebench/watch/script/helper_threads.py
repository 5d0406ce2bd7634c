"""What other threads do while the loop's thread makes a batch itself, and waits for them, as for those of a stream."""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import FrameType

from pipebench.watch.record.own_code import owner
from pipebench.watch.script.loop_place import outwards
from pipebench.watch.script.own_line import OwnLine, innermost_line

_WAITS = ("threading", "queue", "concurrent", "asyncio", "selectors", "multiprocessing")
_FETCHES = os.path.join("data", "_utils", "fetch.py")  # of torch: no worker makes the batch
_MOST = 64  # threads


def at_work_for(thread: int, frames: Mapping[int, FrameType]) -> list[OwnLine] | None:
    """What other threads do while this one waits in Python's library: the innermost lines of the user's own.

    One for each function. None: this thread does not wait there. A thread that waits itself, as for room in a queue, is
    at no work. What sleeps may be.
    """
    frame = frames.get(thread)
    if frame is None or owner(frame.f_code.co_filename) not in _WAITS:
        return None
    others = [one for ident, one in list(frames.items())[:_MOST] if ident != thread]
    lines = [innermost_line(one, 0) for one in others if owner(one.f_code.co_filename) not in _WAITS]
    return list({(one.file, one.function): one for one in lines if one is not None and one.function}.values())


def makes_batch(frame: FrameType | None) -> bool:
    """Whether a thread of the script's own process is making a batch."""
    return any(one.f_code.co_filename.endswith(_FETCHES) for one in outwards(frame))
