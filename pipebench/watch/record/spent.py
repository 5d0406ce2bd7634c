"""Where the time of the script's main thread went: the line for it, and the ledger that adds it up.

A thread is in one row at a time, so the rows of a line add up to the time that the line covers, exactly.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import field
from typing import Literal, NamedTuple

from pipebench.watch.record.line import line
from pipebench.watch.record.pace import shortest_ns

ROWS = (
    "start-up", "sampler", "send-indices", "wait-for-worker", "receive", "unpickle", "pin", "make-batch",
    "after-loader", "next", "host-to-device", "forward", "backward", "optimiser", "other", "spans", "recording",
    "end-of-pass",
)  # fmt: skip
"""The rows of a pass. "start-up" is the iterator's construction and the wait for the first batch, without the sampler.

"next" is what no other part of a later wait holds. "spans" are the functions of `--span` in the loop. "recording" is
what we take after each wait. "end-of-pass" is the last `next()`, and the end of the workers.
"""
START_UP, SAMPLER, *_, RECORDING, END_OF_PASS = range(len(ROWS))
_OF_WAIT = ("sampler", "send-indices", "wait-for-worker", "receive", "unpickle", "pin", "make-batch", "after-loader")
_NEXT = ROWS.index("next")
_PHASES = ROWS.index("host-to-device") - 1  # the row of a phase stands so many places behind the phase
_OF_ITS_AGE = 500


class SpentInPass(NamedTuple):
    """The time of one pass over a loader, without the loops inside it. `spent_ns` has one entry for each of `ROWS`."""

    loader: int
    number_of_pass: int
    spent_ns: list[int]


@line
class TimeSpent:
    """Where the time of the script's main thread went from `begin` to `end`. Each line begins where the last one ended.

    `outside_ns` is the time outside all loops: "before" the first one, "between" them, or "after" the last one. It and
    the times of all `passes` add up to the whole. `cpu_ns` is the CPU time of the process since its start. In a thread
    other than the main one, loops took `beside_ns`; this is no part of the sum.
    """

    begin: int
    end: int
    outside_ns: int = 0
    where: Literal["before", "between", "after"] = "between"
    passes: list[SpentInPass] = field(default_factory=list)
    cpu_ns: int = 0
    beside_ns: int = 0


def _no_time() -> list[int]:
    return [0] * len(ROWS)


class Ledger:
    """Adds up the main thread's time. `mark` is the moment up to which it has a row. A line is due after `due`.

    `clock` gives the CPU time of the process in nanoseconds. It is asked once for each line.
    """

    def __init__(self, began: int, clock: Callable[[], int]) -> None:
        self.mark = self.written = self.began = began
        self.due = began + shortest_ns(0)
        self._clock = clock
        self._kept = self._beside = 0
        self._rows: defaultdict[tuple[int, int] | None, list[int]] = defaultdict(_no_time)  # None: outside all loops

    def _since(self, now: int) -> int:
        """The time since the last event. It is 0 if a later event was noted meanwhile, as by a garbage collection."""
        spent = now - self.mark
        if spent < 0:
            return 0
        self.mark = now
        return spent

    def keep(self, now: int) -> None:
        """Keeps the time since the last event, until `phase` names it."""
        self._kept += self._since(now)

    def phase(self, place: tuple[int, int] | None, phase: int, now: int, unnamed: int | None) -> None:
        """The time since the last event was `phase` of the pass `place`; None: it was outside all loops.

        `unnamed` is the phase of what was kept; None keeps it further.
        """
        rows = self._rows[place]
        if now > self.mark:  # as in `_since`, without its call: this is asked several times in each iteration
            rows[_PHASES + phase] += now - self.mark
            self.mark = now
        if unnamed is not None and self._kept:
            rows[_PHASES + unnamed] += self._kept
            self._kept = 0

    def row(self, place: tuple[int, int], row: int, now: int, parts: list[int] | None = None) -> None:
        """The time since the last event was `row` of the pass `place`, except for the sampler's share of `parts`."""
        spent = self._since(now)
        sampler = min(spent, parts[SAMPLER]) if parts else 0
        rows = self._rows[place]
        rows[SAMPLER] += sampler
        rows[row] += spent - sampler

    def wait(self, place: tuple[int, int], now: int, parts: list[int]) -> None:
        """The time since the last event was a wait. `parts` are those of `record_file.WAIT_PARTS`, "rest" first."""
        left, rows = self._since(now), self._rows[place]
        for row in range(1, len(_OF_WAIT) + 1):
            if parts[row] > 0:
                spent = min(left, parts[row])
                rows[row] += spent
                left -= spent
        rows[_NEXT] += left

    def beside(self, spent: int) -> None:
        """Notes the time of a loop in another thread."""
        self._beside += spent

    def take(self, where: Literal["before", "between", "after"] = "between") -> TimeSpent:
        """The line for the time since the last one. What is still kept counts as outside."""
        rows, self._rows = self._rows, defaultdict(_no_time)
        found = TimeSpent(
            self.written,
            self.mark,
            sum(rows[None]) + self._kept,
            where,
            [SpentInPass(*place, spent) for place, spent in rows.items() if place is not None],
            self._clock(),
            self._beside,
        )
        age, self.written = self.mark - self.began, self.mark
        self.due = self.mark + max(shortest_ns(age), age // _OF_ITS_AGE)
        self._kept = self._beside = 0
        return found
