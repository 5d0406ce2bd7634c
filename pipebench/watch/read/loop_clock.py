"""How long the loops over a loader lasted: the time in which its workers had something to do. Pure."""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Collection, Sequence

from pipebench.watch.read.gather import Place, Process, Run, loaders_found
from pipebench.watch.read.pauses import pauses
from pipebench.watch.record.lines import FetchSums, PassBegun
from pipebench.watch.record.spent import END_OF_PASS, TimeSpent


class LoopClock:
    """A clock that stands still while no loop over the loader runs: between passes, and in a validation inside them.

    So it does in an iteration that is far longer than others, as one that compiles, once the workers have no more room.
    A loop of `in_loop` inside a pass over this loader is a part of that pass, as is one over a loader in step with it.
    What no line of the script's process covers counts as it is. So does everything if no line names the loader, as of
    older records, or of a loop in another thread.
    """

    def __init__(self, run: Run, loader: int, in_loop: Collection[int] = ()) -> None:
        lines = next((process.of(TimeSpent) for process in run.of_script()), [])
        if not any(one.loader == loader for line in lines for one in line.passes):
            lines = []
        begun = run.of_loader(PassBegun, loader)
        self._begins = sorted(one.begin for one in begun)
        described = loaders_found(run.processes).get(loader)
        self._persistent = described is not None and described.persistent
        self._shown_end = run.shown.end
        self._moments = [lines[0].begin, *(one.end for one in lines)] if lines else []
        inside = _inside(lines, loader)
        spent = [
            sum(
                sum(one.spent_ns) - one.spent_ns[END_OF_PASS]
                for one in line.passes
                if one.loader == loader or (within and one.loader in in_loop)
            )
            for line, within in zip(lines, inside, strict=True)
        ]
        self._told = [0, *itertools.accumulate(spent)]
        self._pauses = pauses(run, loader) if lines else []

    def ns(self, begin: float, end: float) -> float:
        """The time of the loops from `begin` to `end`, all in nanoseconds, of the monotonic clock."""
        paused = sum(one.ns for one in self._pauses if begin < one.end <= end)
        return max(0.0, self._at(end) - self._at(begin) - paused)

    def s(self, begin: float, end: float) -> float:
        """The same in seconds."""
        return self.ns(begin * 1e9, end * 1e9) / 1e9

    def _at(self, moment: float) -> float:
        moments, told = self._moments, self._told
        if not moments or moment <= moments[0]:
            return moment - (moments[0] if moments else 0)
        if moment >= moments[-1]:
            return told[-1] + moment - moments[-1]
        place = bisect.bisect_right(moments, moment)
        before, after = moments[place - 1], moments[place]
        return told[place - 1] + (told[place] - told[place - 1]) * (moment - before) / (after - before)

    def end_of_life(self, process: Process, sums: Sequence[FetchSums]) -> int:
        """Until when a worker with these lines could make batches: to the end of its pass, or of its process."""
        last = max(one.end for one in sums)
        if not self._moments:
            return last
        if self._persistent:
            until: float = process.moment("end") or last
        else:
            place = bisect.bisect_right(self._begins, min(one.begin for one in sums))
            until = self._begins[place] if place < len(self._begins) else math.inf
        return max(last, int(min(until, self._shown_end, self._moments[-1])))


def _inside(lines: Sequence[TimeSpent], loader: int) -> list[bool]:
    """Of each line, whether it lies in a pass over the loader."""
    spans: dict[Place, tuple[int, int]] = {}
    for number, line in enumerate(lines):
        for one in line.passes:
            if one.loader == loader:
                place = one.loader, one.number_of_pass
                spans[place] = spans.get(place, (number, number))[0], number
    found = [False] * len(lines)
    for first, last in spans.values():
        found[first : last + 1] = [True] * (last + 1 - first)
    return found
