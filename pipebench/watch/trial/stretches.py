"""A stretch of batches from one loader: a lead that is not timed, a timed window, and the batches still under way.

A stretch begins with no batch made and ends with none left over. So a window measures how fast batches are made and
used, not the batches that were ready before, and a loader that waits for its turn takes no core from the other.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

MOST_IN_STEP = 64
TIMES_AHEAD = 3  # a window has at least so many times the batches that a loader makes ahead


class Loader(Protocol):
    """What a stretch needs of a loader. `arms.Arm` provides it."""

    workers: int
    ahead: int
    hand: Any

    @property
    def dry(self) -> bool: ...
    @property
    def goes_on(self) -> bool: ...
    def begin(self) -> None: ...
    def draw(self) -> Any: ...
    def ready(self) -> int: ...


@dataclass(frozen=True)
class Clock:
    """`now` is a clock in seconds; `finish` waits for the device."""

    now: Callable[[], float]
    finish: Callable[[], object]


@dataclass(frozen=True)
class Timed:
    """What a window found: see `trial_lines.TrialWindow`."""

    seconds: float
    taken: int
    drained: int


def burst_of(workers: int, period: int) -> int:
    """Batches after which the workers are in step with each other and with the period, if that is not too many.

    Else after whole periods: a window with one more of the slow batches would differ by more than a burst.
    """
    both = math.lcm(max(1, workers), period)
    return both if both <= MOST_IN_STEP else max(1, workers, period)


class Stretch:
    """One stretch. `window_s` None: nothing is timed, and the stretch lasts until its hand is closed.

    Workers that begin together finish together, so batches come in bursts of one from each worker. Lead and window are
    whole numbers of bursts, and of `period` batches. The window has at least `least` batches, and the lead `lead` more
    than the loader makes ahead: without seconds, stretches of several ranks are equal. It ends before its seconds are
    over after `most` batches (0: no number is enough): a much faster loader would need more than a pass has.
    """

    def __init__(
        self,
        loader: Loader,
        clock: Clock,
        window_s: float | None,
        lead_s: float = 0.0,
        period: int = 1,
        least: int = 0,
        lead: int = 0,
        most: int = 0,
    ) -> None:
        self.loader, self.clock = loader, clock
        self.window_s = window_s
        self.burst = burst_of(loader.workers, period)
        self.lead = loader.ahead + self.burst + lead if window_s is not None else math.inf
        self.least, self.most = max(self.burst, TIMES_AHEAD * loader.ahead, least), most
        self.lead_until = clock.now() + lead_s
        self.served = 0
        self._began: float | None = None
        self._first = self._ready = 0
        loader.begin()

    @property
    def over(self) -> bool:
        """Whether the hand is closed and no batch is under way."""
        return not self.loader.hand.open and self.loader.dry

    @property
    def timing(self) -> bool:
        return self._began is not None and self.window_s is not None

    def look(self) -> Timed | None:
        """Begins or ends the window, if it is time, and returns what an ended window found.

        Called when the script asks for a batch, before it is drawn.
        """
        if self.window_s is None:
            return None
        if self._began is None:
            if self.served >= self.lead and not self.served % self.burst and self.clock.now() >= self.lead_until:
                self.clock.finish()
                self._first, self._ready = self.served, self.loader.ready()
                self._began = self.clock.now()
            return None
        taken = self.served - self._first
        many = 0 < self.most <= taken
        if taken % self.burst or taken < self.least or not (many or self.clock.now() - self._began >= self.window_s):
            return None
        self.clock.finish()
        seconds = self.clock.now() - self._began
        self.close()
        return Timed(seconds, taken, max(0, self._ready - self.loader.ready()))

    def close(self) -> None:
        """Asks for no further batch, and times nothing more."""
        self.window_s = None
        self.loader.hand.open = False

    def draw(self) -> Any:
        """The next batch."""
        batch = self.loader.draw()
        self.served += 1
        return batch
