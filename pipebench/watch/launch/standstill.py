"""When a watched script stood still: it was stopped (SIGSTOP, Ctrl-Z), or the whole machine was suspended."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from pipebench.host.gaps import LEAST_S, suspended_s

_NS = 1e-9


class Stop(NamedTuple):
    """From when to when a process was stopped, in nanoseconds of the monotonic clock."""

    began: int
    ended: int


@dataclass(frozen=True)
class Standstill:
    """The stops of the script's process, and how long the machine was suspended meanwhile.

    The monotonic clock, by which everything is measured, goes on in a stop, and not in a suspension.
    """

    stops: tuple[Stop, ...] = ()
    suspended_s: float = 0.0


NEVER = Standstill()


@dataclass
class Stops:
    """Follows a child by what waitpid(2) says of it. `clock` is the monotonic clock, in nanoseconds.

    If this process was stopped too, as by Ctrl-Z, it only learns that the child goes on. Then the stop is taken to have
    begun when this process last ran, which it does every second.
    """

    clock: Callable[[], int] = time.perf_counter_ns
    suspended: Callable[[], float] = suspended_s
    _found: list[Stop] = field(default_factory=list)
    _since: int | None = None

    def __post_init__(self) -> None:
        self._awake = self.clock()
        self._suspended_before = self.suspended()

    def awake(self) -> None:
        """This process runs, and the child has not changed."""
        self._awake = self.clock()

    def stopped(self) -> None:
        self._since = self.clock() if self._since is None else self._since

    def continued(self) -> None:
        since, now = self._awake if self._since is None else self._since, self.clock()
        self._since = None
        self._found.append(Stop(since, now))

    def found(self) -> Standstill:
        """What was found. A child that ended while it was stopped was so until now."""
        if self._since is not None:
            self.continued()
        slept = self.suspended() - self._suspended_before
        long = [one for one in self._found if one.ended - one.began > LEAST_S / _NS]
        return Standstill(tuple(long), slept if slept > LEAST_S else 0.0)
