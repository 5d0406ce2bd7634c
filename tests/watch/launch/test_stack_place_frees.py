"""Looking for the place of the stack keeps nothing of the script alive."""

from __future__ import annotations

import weakref

from pipebench.watch.record.exclusive_time import StageTimer
from pipebench.watch.worker import stack_place


class Batch:
    pass


def _caller() -> weakref.ref[Batch]:
    stack_place._layout.cache_clear()
    batch = Batch()
    stack_place.place_of(StageTimer(), 1, 0)
    return weakref.ref(batch)


def test_the_frames_of_the_callers_are_let_go_at_once() -> None:
    assert _caller()() is None
