"""Divides the time in which the thread that fetches waits for threads that work for it.

Hugging Face's datasets (5 and later) read the parts of a stream in threads of their own, also those of a `map` after
which the stream is shuffled. Each such thread has a timer. While the thread that fetches waits for them, in the row of
one link, the time is given to the rows in which they are: by their shares, and never more than it waited.
"""

from __future__ import annotations

from threading import get_ident
from typing import Any

from pipebench.watch.record.exclusive_time import REST, STAGES, StageTimer, local, stages
from pipebench.watch.record.patches import unseen
from pipebench.watch.stages.webdataset import Stage

_MOST = 64  # threads


class Link(Stage):
    """A stage of a chain that another thread may run for the one that fetches, whose timer is `owner`.

    `waits`: the stage itself waits for such threads.
    """

    def __init__(self, iterator: Any, stage: int, owner: StageTimer, waits: bool = False) -> None:
        super().__init__(iterator, stage)
        self._owner, self._waits = owner, waits

    @unseen
    def __next__(self) -> Any:
        timer = local.timer
        if timer is None:
            return self._helping()
        if timer is not self._owner or not self._waits:
            return super().__next__()
        before, spent = {one: one.so_far() for one in list(timer.helpers.values())}, timer.sums[self._stage]
        try:
            return super().__next__()
        finally:
            if timer.helpers:
                _divide(timer, self._stage, timer.sums[self._stage] - spent, before)

    @unseen
    def _helping(self) -> Any:
        helper = _helper(self._owner)
        if helper is None:
            return next(self._iterator)
        local.timer = helper
        helper.begin()
        try:
            return super().__next__()
        finally:
            local.timer = None
            helper.end()
            self._owner.left.update(helper.left)
            helper.file = None


def _helper(owner: StageTimer) -> StageTimer | None:
    """The timer of this thread, which works for the thread of `owner`; None if that has too many."""
    found = owner.helpers.get(get_ident())
    if found is None and len(owner.helpers) < _MOST:
        found = owner.helpers[get_ident()] = StageTimer()
    return found


def _divide(timer: StageTimer, stage: int, waited: int, before: dict[StageTimer, list[int]]) -> None:
    """Gives what the row of `stage` has waited to the rows of the helpers, as far as they were at work meanwhile."""
    worked: dict[int, int] = {}
    nothing = [0] * STAGES
    for one in list(timer.helpers.values()):
        sums, earlier = one.so_far(), before.get(one, nothing)
        for number in range(REST + 1, min(STAGES, len(stages.known) + 1)):
            if sums[number] > earlier[number]:
                worked[number] = worked.get(number, 0) + sums[number] - earlier[number]
    worked.pop(stage, None)
    if not worked or waited <= 0:
        return
    share = min(1.0, waited / sum(worked.values()))
    for number, spent in worked.items():
        timer.sums[number] += (moved := int(spent * share))
        timer.sums[stage] -= moved
