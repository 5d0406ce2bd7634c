"""One trial: what the script's process tells of it, and how long it takes."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from pipebench.advise import judging, whole_run
from pipebench.remedies.seen import Seen, function_s
from pipebench.results.advice import LEAST_PAIRS, Cache, Change, Difference
from pipebench.results.trial_reads import TrialReads
from pipebench.watch.read.stalls import scatter
from pipebench.watch.record.mounts import NO_STORAGE, mounts
from pipebench.watch.record.trial_lines import TrialFailed, TrialLine, TrialRepeats, TrialSyncs, TrialWindow
from pipebench.watch.trial.stretches import TIMES_AHEAD, burst_of

_WINDOW_SHARE = 1 / 180  # of the budget: the shortest window, so 1 s of the default
_LONGEST_SHARE = 1 / 20  # of the budget: what a window for uneven iterations may last
_EVEN = 0.15  # standard deviation of the means of windows: a pair of them then tells a gain of a half
_BLOCKS = 6  # of the watched iterations, to see how uneven they are
_LONG_SHARE = 1 / 12  # of the budget: two passes that last longer
_PART = 0.5  # of a dataset, drawn in a pass; a larger part may be a split that is the same in each pass
_LEAST_PAIRS = 2  # of windows that a pass must have room for

# file systems whose reads from storage the kernel counts for each process (task_io_account_read), and those in memory
_DISKS = frozenset({"ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "overlay", "tmpfs", "vfat", "squashfs", "erofs"})
_NO_FILES = frozenset({"hugetlbfs", "configfs", "fusectl", "nsfs", "binfmt_misc", "pstore", "efivarfs", "autofs"})


@dataclass
class Trial:
    """The trial that runs now. `earlier` are the pairs of a first trial of this change that was not clear.

    `failed` is why the changed loader could not be tried.
    """

    number: int
    windows: list[TrialWindow]
    earlier: tuple[float, ...] = ()
    failed: str = ""
    difference: Difference | None = None
    repeats: TrialRepeats | None = None
    syncs: TrialSyncs | None = None

    def ratios(self) -> tuple[float, ...]:
        """The speed-up of each pair, also of the first trial."""
        return (*self.earlier, *judging.ratios(self.windows))

    def given_back(self) -> float:
        """The share of the windows with the changed loader in which own values were made again, less the waits."""
        changed = [one for one in self.windows if one.changed]
        whole = sum(one.seconds for one in changed)
        return sum(one.given_back_s for one in changed) / whole if whole else 0.0

    def read(self, seen: Seen) -> TrialReads | None:
        """What was read in its windows; None if the system did not tell.

        Of what a network or a program serves, nobody counts what came from its storage.
        """
        kinds = {one.kind for one in seen.watched.reads} or {one.kind for one in mounts()} - NO_STORAGE - _NO_FILES
        if kinds - _DISKS:
            return None
        sums = [
            sum(getattr(one, name) for one in self.windows if one.changed is changed)
            for changed in (True, False)
            for name in ("read_bytes", "stored_bytes")
        ]
        return TrialReads(*sums) if any(sums) else None

    @property
    def readable(self) -> bool:
        """Whether there are as many pairs as an interval needs."""
        return len(self.ratios()) >= LEAST_PAIRS

    def enough(self) -> bool:
        most = judging.MOST_PAIRS if not self.earlier else len(self.earlier) + judging.MOST_PAIRS
        return judging.enough(self.ratios(), most)

    def cut_short(self, left_s: float) -> str:
        """Why there are too few pairs, if the budget leaves so many seconds; "" if there are enough.

        Without a pair in more than its time, a change is likely to be much slower than what it was compared with.
        """
        if self.enough() or (self.readable and left_s > 0):
            return ""
        return "budget" if left_s <= 0 or self.ratios() else "no-pair"

    def hear(self, line: TrialLine) -> None:
        """Takes in what the script's process tells of this trial. Of the workers' differences, the largest is kept."""
        if isinstance(line, TrialWindow):
            self.windows.append(line)
        elif isinstance(line, TrialFailed):
            self.failed = line.problem
        elif isinstance(line, TrialRepeats):
            before = self.repeats
            found = line if before is None or not line.same or not line.once else before
            told = before if before is not None and not line.enough else line  # of another worker, or of fewer samples
            changed = line.changed or (before is not None and before.changed)
            self.repeats = replace(found, changed=changed, enough=told.enough, sample_s=told.sample_s)
        elif isinstance(line, TrialSyncs):
            self.syncs = line
        elif self.difference is None or self.difference.largest < line.largest:
            self.difference = Difference(line.largest, line.mean, line.span, line.values)


def cache_of(seen: Seen | None, told: TrialRepeats | None, change: Change) -> Cache | None:
    """What a cache of all samples would take, if the samples repeat."""
    if seen is None or told is None or not told.same or seen.batches is None:
        return None
    drawn = round(seen.batches * seen.samples_per_batch)
    whole = told.samples or drawn
    in_time = whole if drawn < _PART * whole else min(drawn, whole)  # of few in a pass, each pass has others
    samples = 1 if told.once else in_time
    name = str(change.edits.get("cache", {}).get("name", ""))
    fill_s = function_s(seen, name, samples)  # workers fill their own at the same time
    if 0 < told.enough < samples:
        samples, fill_s = told.enough, told.enough * told.sample_s
    elif not told.once:
        samples *= told.copies
    pass_s = whole_run.pass_s(seen)
    return Cache(told.sample_bytes, samples, seen.free_bytes, told.once, fill_s, pass_s)


def window_s(seen: Seen, budget_s: float) -> float:
    """The shortest window, in seconds. It is longer where slow iterations are so rare that not every window has some.

    Means of n blocks of independent lengths scatter by 1/sqrt(n) of what one block does.
    """
    shortest = max(0.2, budget_s * _WINDOW_SHARE)
    burst = burst_of(seen.workers, period(seen))
    timed = _timed(seen, seen.workers, seen.number("prefetch_factor"), shortest)
    block = max(burst, min(timed, len(seen.lengths) // _BLOCKS) // burst * burst)
    found = scatter(seen.lengths, block)
    if found is None:
        return shortest
    needed_s = block * (found / _EVEN) ** 2 * seen.iteration_s
    return max(shortest, min(needed_s, budget_s * _LONGEST_SHARE))


def in_batches(seen: Seen, shortest_s: float) -> int:
    """The shortest window in batches, for several ranks: seconds would end at another batch on each. 0: one trains."""
    return math.ceil(shortest_s / max(1e-6, seen.iteration_s)) if seen.ranks > 1 else 0


def has_room(seen: Seen, change: Change, budget_s: float) -> bool:
    """Whether a pass has room for some pairs of windows. An unknown length counts as long."""
    if seen.turns is None:
        return True
    pair = _present_batches(seen, budget_s) + _stretch_batches(seen, *seen.ahead_with(change), window_s(seen, budget_s))
    return seen.turns >= (1 if _long_and_even(seen, budget_s) else _LEAST_PAIRS) * pair


def _long_and_even(seen: Seen, budget_s: float) -> bool:
    """Whether two passes take much of the budget, and short windows do: then one pair in each pass is enough."""
    even = window_s(seen, budget_s) <= max(0.2, budget_s * _WINDOW_SHARE)
    return even and period(seen) == 1 and 2 * (seen.pass_s or 0.0) > budget_s * _LONG_SHARE


def by_passes(seen: Seen, change: Change, budget_s: float, left_s: float) -> bool:
    """Whether a change is tried by whole passes. First workers alone are tried in windows if the time is too short."""
    needed = needed_s(seen, True, budget_s)
    spare = "num_workers" in change.settings and "persistent_workers" not in change.settings
    late = spare and (needed is None or needed > left_s)
    return (change.by_passes and not late) or not has_room(seen, change, budget_s)


def needed_s(seen: Seen, by_passes: bool, budget_s: float) -> float | None:
    """The seconds that the shortest trial takes. None: not known."""
    pairs = LEAST_PAIRS - 1  # two pairs can show a large gain
    if by_passes:
        return None if seen.pass_s is None else 2 * pairs * seen.pass_s
    return 2 * pairs * seen.iteration_s * _present_batches(seen, budget_s)


def not_now(seen: Seen, change: Change, by_passes: bool, needed: float | None, left_s: float) -> str:
    """Why a change cannot be tried ("": it can). In a short pass, the first results of a memo are too large a part."""
    if change.untried:
        return change.untried
    if not _has_memory(seen, change, by_passes):
        return "no-memory"
    if change.knock_out and by_passes:
        return "short-passes"
    if needed is None:
        return "pass-length"
    return "budget" if needed > left_s else ""


def _has_memory(seen: Seen, change: Change, by_passes: bool) -> bool:
    """Whether a part of free memory holds the workers of a trial beside those that live now. If unknown, it does.

    By passes, the workers of one loader follow those of the other, unless they live on.
    """
    workers, _ = seen.ahead_with(change)
    follow = by_passes and not change.settings.get("persistent_workers", seen.settings.get("persistent_workers"))
    return seen.room.has_memory_for(workers - seen.workers * follow)


def _present_batches(seen: Seen, budget_s: float) -> int:
    return _stretch_batches(seen, seen.workers, seen.number("prefetch_factor"), window_s(seen, budget_s))


def _stretch_batches(seen: Seen, workers: int, prefetch: int, shortest_s: float) -> int:
    """About how many batches a stretch has: see `watch.trial.stretches`."""
    ahead = workers * (prefetch or 2)
    return ahead + burst_of(workers, period(seen)) + _timed(seen, workers, prefetch, shortest_s) + ahead


def _timed(seen: Seen, workers: int, prefetch: int, shortest_s: float) -> int:
    """About how many batches a window has."""
    times_ahead = TIMES_AHEAD * workers * (prefetch or 2)
    return max(times_ahead, burst_of(workers, period(seen)), math.ceil(shortest_s / max(1e-6, seen.iteration_s)))


def period(seen: Seen) -> int:
    """The distance of the batches that cost more than the others, in batches; 1 if there is none."""
    causes = seen.watched.account.causes if seen.watched.account else ()
    return next((int(one.values["period"]) for one in causes if "period" in one.values), 1)
