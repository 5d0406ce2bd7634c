"""Splits samples into rows in some of the batches only, once their rows are known and where timing them costs much.

A sample of a millisecond with eight transforms changes its row eighteen times, at about a microsecond each. After the
first batches, about each eighth batch is split then. In the others, a sample is one piece: its time, measured as
before, is given to the rows of samples in the proportions of the batches that are split.
"""

from __future__ import annotations

from collections import deque
from itertools import zip_longest
from typing import NamedTuple

from pipebench.watch.record.exclusive_time import REST, StageTimer, stages

_KNOWN, _LATER = 512, 64  # batches of a process that are all split, or more: the last ones of them decide
_KNOWN_NS, _LATER_NS = 10_000_000_000, 1_000_000_000  # of making them: looks from outside need rows, too
_FEWEST, _DISTURBED = 4, 0.1  # of these, without those that had no core for a tenth of their time
_CHANGE_NS, _DEAR = 1_000, 0.005  # what a change of row takes, about; the share of making samples from which it matters
_APART = 0.01  # of the time of samples: what their rows may differ from it
_LARGE, _SCATTER = 0.05, 1.0  # a row of this share, and its standard deviation from batch to batch, of its mean
_LONG, _MOST_LONG, _LONG_SHARE = 3, 3, 0.05  # times the mean; batches of that length, and their share of the time
_WEYL, _EIGHTH = 0x9E3779B1, 1 << 29  # of 32 bits: spread evenly, with no short period that a pipeline could share
_NEARLY_ALL = 0.9  # of the time of samples: their own row, without those inside
_HALF = 16  # after so many batches that are split, what was known of the rows before counts half


class _Sums(NamedTuple):
    """The sums of a timer: nanoseconds by row, without and with the rows inside."""

    rows: list[int]
    whole: list[int]

    def until(self, after: _Sums) -> _Sums:
        """What came from here to `after`, where other rows may be known."""
        return _Sums(
            *([now - then for now, then in zip_longest(*both, fillvalue=0)] for both in zip(after, self, strict=True))
        )


class _Batch(NamedTuple):
    """A batch that was made: the nanoseconds of its samples, the changes of row, and the sums before and after it."""

    samples: int
    changes: int
    before: _Sums
    after: _Sums


class Split:
    """Decides, for one process and loader, whose batches are split, and shares out the time of those that are not.

    Of `every` so many batches, one is written in full. `here`: this batch is split. `outer` is the row of a sample
    without the rows inside it; it is `REST` where a dataset does not make single samples, and then all batches are
    split. `samples_ns` is the time of the samples of this batch. `shown` is what looks from outside see in a sample
    that is not split: its own row, where that has nearly all of its time, or none.
    """

    def __init__(self, timer: StageTimer, every: int, first_pass: int) -> None:
        self.here, self.outer, self.shown, self.samples_ns = True, REST, REST, 0
        self._timer, self._every = timer, every
        self._known, self._known_ns = (_LATER, _LATER_NS) if first_pass else (_KNOWN, _KNOWN_NS)
        self._batches = self._busy_ns = self._before_ns = self._unsplit_ns = self._unsplit = self._split = 0
        self._chosen = self._over = False
        self._before: _Sums | None = None
        self._observed: deque[_Batch] = deque(maxlen=self._known // 2)
        self._usual_ns, self._spent_ns, self._long, self._long_ns = 0.0, 0, 0, 0
        self._rows: dict[int, float] = {}  # of batches that were split, the latest ones most
        self._whole: dict[int, float] = {}

    def begins(self, batch: int) -> None:
        """Called before a batch is made, the `batch`-th (from 0). One that will be written in full is split."""
        if self._over or self.outer == REST:
            return
        self.samples_ns = 0
        self._batches += 1
        if self._chosen:
            self.here = batch % self._every == 0 or self._batches * _WEYL & 0xFFFFFFFF < _EIGHTH
            self._split += self.here
            self._before_ns = self._timer.sums[self.outer]
        elif self._batches > self._known // 2:
            self._before = self._sums()

    def ends(self, spent: int, core_wait: int) -> None:
        """Called when a batch was made in `spent` nanoseconds, before its sums are written.

        In `core_wait` of them the thread had no core. One that lost its core tells little about its rows.
        """
        self._busy_ns += spent
        if not self.here:
            self.here = True
            self._unsplit += 1
            self._unsplit_ns += self._timer.sums[self.outer] - self._before_ns
            self._look_at_length(spent - core_wait)
        elif self._before is not None:
            if core_wait <= _DISTURBED * spent:
                self._observed.append(_Batch(self.samples_ns, len(self._timer.log) // 2, self._before, self._sums()))
            self._before = None
            if self._batches >= self._known and self._busy_ns >= self._known_ns:
                self._decide()

    def _sums(self) -> _Sums:
        known = len(stages.known)
        return _Sums(self._timer.sums[:known], self._timer.whole[:known])

    def _look_at_length(self, spent: int) -> None:
        """Splits all batches again if some take much longer than is usual, because of whatever part of theirs."""
        self._spent_ns += spent
        if spent > _LONG * self._usual_ns:
            self._long, self._long_ns = self._long + 1, self._long_ns + spent
            self._over = self._long >= _MOST_LONG and self._long_ns > _LONG_SHARE * self._spent_ns

    def _decide(self) -> None:
        observed = [*self._observed]
        self._observed.clear()
        if len(observed) < _FEWEST:
            self._over = True
            return
        batches = [one.before.until(one.after) for one in observed]
        rows, whole = ([*map(sum, zip_longest(*each, fillvalue=0))] for each in zip(*batches, strict=True))
        inside = [number for number, ns in enumerate(rows) if ns and _may_be_inside(number)]
        samples_ns = sum(one.samples for one in observed)
        self._chosen = (
            sum(one.changes for one in observed) * _CHANGE_NS > _DEAR * samples_ns
            and abs(sum(rows[number] for number in inside) - samples_ns) <= _APART * samples_ns
            and all(
                _scatter([one.rows[number] if number < len(one.rows) else 0 for one in batches]) <= _SCATTER
                for number in inside
                if rows[number] > _LARGE * samples_ns
            )
        )
        self._over = not self._chosen
        self._usual_ns = sum(rows) / len(batches)
        self._rows = {number: float(rows[number]) for number in inside}
        self._whole = {number: float(ns) for number, ns in enumerate(whole) if ns}
        self._show()

    def _show(self) -> None:
        mostly = self._rows.get(self.outer, 0.0) >= _NEARLY_ALL * sum(self._rows.values())
        self.shown = self.outer if mostly else REST

    def share_out(self) -> int:
        """Gives the time of samples that were not split to the rows that the others have. Called for each line.

        Returns how many batches were not split.
        """
        if not self._chosen or (self._over and not self._unsplit):
            return 0
        sums, whole = self._timer.sums, self._timer.whole
        found = self._sums()
        rows = {number: ns for number, ns in enumerate(found.rows) if _may_be_inside(number)}
        rows[self.outer] -= self._unsplit_ns
        kept = 0.5 ** (self._split / _HALF)
        self._rows, self._whole = _with(self._rows, kept, rows), _with(self._whole, kept, dict(enumerate(found.whole)))
        self._show()
        times = self._unsplit_ns / max(1.0, sum(self._rows.values()))
        given = {number: int(ns * times) for number, ns in self._rows.items() if number != self.outer}
        sums[self.outer] -= sum(given.values())
        for into, more in ((sums, given), (whole, {number: int(ns * times) for number, ns in self._whole.items()})):
            for number, ns in more.items():
                into[number] += ns
        unsplit, self._split, self._unsplit, self._unsplit_ns = self._unsplit, 0, 0, 0
        return unsplit


def _may_be_inside(number: int) -> bool:
    return number != REST and stages.kind(number) != "collate"


def _with(known: dict[int, float], kept: float, new: dict[int, int]) -> dict[int, float]:
    both = ((number, kept * known.get(number, 0.0) + new.get(number, 0)) for number in {*known, *new})
    return {number: found for number, found in both if found}


def _scatter(numbers: list[int]) -> float:
    """The standard deviation of some numbers, as a share of their mean."""
    mean = sum(numbers) / len(numbers)
    return float((sum((one - mean) ** 2 for one in numbers) / len(numbers)) ** 0.5 / mean)
