"""Whether a worker's memory grows, and how much storage gave it per second: from looks over time. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean
from typing import NamedTuple

from pipebench.stats import CONFIDENCE, student
from pipebench.watch.launch.over_time import Seen

_LEAST = 4  # looks
_START = 0.25  # of the looks: a worker fills its caches and its first batches
_STEADY = 0.8  # of the scatter of the memory is a straight line
# Less is within what an allocator keeps for later, and what recording takes in the first seconds (4 MB).
_LEAST_BYTES = 8_000_000
_EVEN = 0.4  # of the growth in the first half: what the second half must have at least
_PARTS = 6  # of the time, for an interval


class Growth(NamedTuple):
    """How fast memory grows, in bytes per second, and an interval of 95 %. If it holds 0, no growth is shown."""

    per_s: float
    low: float
    high: float


def growth_with_interval(moments: Sequence[Seen]) -> Growth | None:
    """The slope of the memory after its start, by least squares over means of 6 parts of the looks. None: too few.

    Batches that come and go move neighbouring looks alike, and the means of parts hardly. So the interval is that of a
    slope with independent errors (Student's t; Draper and Smith, Applied Regression Analysis, section 1.4). With a
    correlation of 0.5 between neighbouring looks it holds the truth in 94 % of the cases (a test). Memory that levels
    off is no straight line, which widens it.
    """
    found = moments[int(len(moments) * _START) :]
    each = len(found) // _PARTS
    if each < 2:
        return None
    parts = [found[len(found) - each * (part + 1) : len(found) - each * part] for part in reversed(range(_PARTS))]
    times = [fmean(one.s for one in part) for part in parts]
    sizes = [fmean(one.own_bytes for one in part) for part in parts]
    middle, mean = fmean(times), fmean(sizes)
    across = sum((at - middle) ** 2 for at in times)
    if not across:
        return None
    slope, _ = _line(times, sizes)
    left = sum((size - mean - slope * (at - middle)) ** 2 for at, size in zip(times, sizes, strict=True))
    half = student(CONFIDENCE, _PARTS - 2) * (left / (_PARTS - 2) / across) ** 0.5
    return Growth(slope, slope - half, slope + half)


def growth_bytes_per_s(moments: Sequence[Seen]) -> float | None:
    """How fast the memory of its own grows, if it grows steadily; 0 if it does not. None: too few looks.

    Memory that levels off (a cache that is full, pages of the parent that were all touched once) is no growth.
    """
    found = moments[int(len(moments) * _START) :]
    if len(found) < _LEAST:
        return None
    times, sizes = [one.s for one in found], [float(one.own_bytes) for one in found]
    middle = len(found) // 2
    first, second = sizes[middle] - sizes[0], sizes[-1] - sizes[middle]
    levels_off = second < _EVEN * first * (times[-1] - times[middle]) / max(1e-9, times[middle] - times[0])
    if sizes[-1] - sizes[0] < _LEAST_BYTES or levels_off:
        return 0.0
    slope, explained = _line(times, sizes)
    free = len(found) - 2  # of the looks; of a few, a line may explain much by chance
    by_chance = explained * free <= student(CONFIDENCE, free) ** 2 * (1 - explained)
    return slope if explained >= _STEADY and not by_chance else 0.0


def storage_bytes_per_s(moments: Sequence[Seen], lasted_s: Callable[[float, float], float]) -> float | None:
    """What storage gave per second of loops, between the first look and the last. None: not known.

    `lasted_s` is how long loops ran between two moments.
    """
    known = [(one.s, one.storage_bytes) for one in moments if one.storage_bytes is not None]
    seconds = lasted_s(known[0][0], known[-1][0]) if known else 0.0
    return (known[-1][1] - known[0][1]) / seconds if seconds > 0 else None


def _line(xs: Sequence[float], ys: Sequence[float]) -> tuple[float, float]:
    """The slope of the least-squares line, and the share of the scatter of `ys` that it explains."""
    x, y = fmean(xs), fmean(ys)
    across = sum((one - x) ** 2 for one in xs)
    along = sum((one - x) * (other - y) for one, other in zip(xs, ys, strict=True))
    scatter = sum((one - y) ** 2 for one in ys)
    return (along / across, along * along / across / scatter) if across and scatter else (0.0, 0.0)
