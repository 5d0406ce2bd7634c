"""What a rank does by itself in each step of a training on several ranks: all but backward and collectives.

In backward the ranks wait for each other, so its time is nearly the same on all of them and says nothing of one rank.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Sequence
from time import perf_counter_ns

from pipebench.watch.record.program_lines import CoresAllowed, LastStep, OwnStep, OwnSteps
from pipebench.watch.record.record_file import BACKWARD, WAIT
from pipebench.watch.record.recording import Recording
from pipebench.watch.record.sampling import STEP_BITS, thinned


class OwnTime:
    """Adds up the own time of a step, from the end of one step of the optimiser to the end of the next."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._kept: list[OwnStep] = []
        self._cores: set[int] = set()
        self._spent: defaultdict[int | None, list[int]] = defaultdict(lambda: [0, 0])  # wait and work in each loop
        self._loops: Sequence[int] = ()
        self._made: Counter[int | None] = Counter()
        self._latest = self._spent[None], 0  # the last wait: what it was added to, and its time
        self._number = self._outside = self._deep = self._began = self._together = 0
        self._stepped_at = self._longest = 0

    def spent(self, loader: int | None, *phases: int) -> None:
        """Pairs of a phase and the time that the main thread spent in it, in the loop over `loader`.

        Outside all loops (None), the phase is other. The collectives since the last call were in this time, and are
        taken out of it.
        """
        together, its = self._taken(), self._spent[loader]
        for phase, ns in zip(phases[::2], phases[1::2], strict=True):
            own = max(0, ns - together)
            together -= ns - own
            if phase == WAIT:
                its[0] += own
                self._latest = its, own
            elif phase != BACKWARD:
                its[1] += own
        self._together = together  # they were in time that has no name yet

    def at_an_end(self) -> None:
        """The last wait was for the first batch of a pass, or for its end. It is in no iteration."""
        its, ns = self._latest
        its[0] -= ns
        self._spent[None][0] += ns

    def outside(self) -> None:
        """The collectives since the last event were in time that is in no step: the start-up of a pass."""
        self._taken()

    def _taken(self) -> int:
        if self._deep:
            now = perf_counter_ns()
            self._together += now - self._began
            self._began = now
        taken, self._together = self._together, 0
        return taken

    def meets(self) -> None:
        """A collective begins. One inside another is a part of it."""
        self._deep += 1
        if self._deep == 1:
            self._began = perf_counter_ns()

    def met(self) -> None:
        self._deep -= 1
        if self._deep == 0:
            self._together += perf_counter_ns() - self._began

    def stepped(self, loops: Sequence[int] = ()) -> None:
        """The optimiser has stepped in the loops over these loaders, the innermost last.

        The first step in no loop may be the last one of a loop that has ended: prefetchers take batches in advance.
        Where steps are made outside all loops, no time is outside.
        """
        loops, self._loops = loops or self._loops, loops
        now = perf_counter_ns()
        if self._number:
            self._longest = max(self._longest, now - self._stepped_at)
        self._stepped_at = now
        wait, work, outside = self._divided(loops)
        self._outside += outside
        self._spent.clear()
        loader = loops[-1] if loops else None
        self._made[loader] += 1
        if thinned(self._number, STEP_BITS):
            self._kept.append(OwnStep(self._number, wait, work, self._outside, loader, self._made[loader]))
            self._outside = 0
        self._number += 1

    def _divided(self, loops: Sequence[int]) -> tuple[int, int, int]:
        """What was waited and worked since the last step in the loops over these loaders, and all that was outside."""
        wait = work = outside = 0
        for loader, (waited, worked) in self._spent.items():
            if not loops or loader in loops:
                wait, work = wait + waited, work + worked
            else:
                outside += waited + worked
        return wait, work, outside

    def ends(self, loader: int | None, unnamed_since: int) -> None:
        """Writes what the rank did since its last step. From `unnamed_since` on, it was in the loop over `loader`."""
        if self._number:
            now = perf_counter_ns()
            self._spent[loader][1] += max(0, now - max(unnamed_since, self._stepped_at) - self._taken())
            wait, work, outside = self._divided(self._loops)
            line = LastStep(now, self._number, now - self._stepped_at, self._longest, wait + work, outside)
            self._recording.write(line)

    def write(self) -> None:
        """Writes the steps that were kept since the last line, and the cores on which they ran if these are new."""
        kept, self._kept = self._kept, []
        if kept:
            cores = os.sched_getaffinity(0)  # by then, a script that chooses its cores has done so
            if cores != self._cores:
                self._recording.write(CoresAllowed(sorted(cores)))
                self._cores = cores
            self._recording.write(OwnSteps(kept))
