"""What a rank does by itself in each step of a training on several ranks: all but backward and collectives.

In backward the ranks wait for each other, so its time is nearly the same on all of them and says nothing of one rank.
"""

from __future__ import annotations

import os
from time import perf_counter_ns

from pipebench.watch.record.program_lines import CoresAllowed, OwnStep, OwnSteps
from pipebench.watch.record.record_file import BACKWARD, WAIT
from pipebench.watch.record.recording import Recording
from pipebench.watch.record.sampling import STEP_BITS, thinned


class OwnTime:
    """Adds up the own time of a step, from the end of one step of the optimiser to the end of the next."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._kept: list[OwnStep] = []
        self._cores: set[int] = set()
        self._number = self._wait = self._work = self._deep = self._began = self._together = 0

    def spent(self, *phases: int) -> None:
        """Pairs of a phase and the time that the main thread spent in it. Outside all loops, the phase is other.

        The collectives since the last call were in this time, and are taken out of it.
        """
        together = self._taken()
        for phase, ns in zip(phases[::2], phases[1::2], strict=True):
            own = max(0, ns - together)
            together -= ns - own
            if phase == WAIT:
                self._wait += own
            elif phase != BACKWARD:
                self._work += own
        self._together = together  # they were in time that has no name yet

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

    def stepped(self) -> None:
        """The optimiser has stepped."""
        if thinned(self._number, STEP_BITS):
            self._kept.append(OwnStep(self._number, self._wait, self._work))
        self._number += 1
        self._wait = self._work = 0

    def write(self) -> None:
        """Writes the steps that were kept since the last line, and the cores on which they ran if these are new."""
        kept, self._kept = self._kept, []
        if kept:
            cores = os.sched_getaffinity(0)  # by then, a script that chooses its cores has done so
            if cores != self._cores:
                self._recording.write(CoresAllowed(sorted(cores)))
                self._cores = cores
            self._recording.write(OwnSteps(kept))
