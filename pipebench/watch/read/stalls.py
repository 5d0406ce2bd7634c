"""Uneven iterations: waits that come at a regular distance, and how far means of blocks of iterations scatter. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, median, stdev
from typing import NamedTuple

from pipebench.results.costs import LoopCosts
from pipebench.watch.read.gather import Run

_LONGEST = 64  # batches
_LEAST_PERIODS = 4
_ALIKE = 0.5  # autocorrelation: half of the scatter of the waits repeats with the period
_SHARE = 0.5  # of all waits lies at one place of the period
_LEAST_BLOCKS = 4
FEWEST = 32  # batches after the first ones: the waits of fewer may be what is left of the start of workers
_OF_STALL = 0.5  # of the length of a stall: by so much some batches, or some iterations, take longer


class Period(NamedTuple):
    """Every `period`-th batch is waited for. These waits take `share` of all waits."""

    period: int
    share: float


def waits_of(run: Run, loader: int, first: int) -> list[int]:
    """The waits for the batches of one pass in the loop's order, in ns, without the first ones: of the longest pass."""
    passes: dict[int, list[int]] = {}
    for line in run.turns(loader):
        waits = [one.taken - one.asked for one in line.arrivals]
        passes.setdefault(line.number_of_pass, []).extend(waits)
    return max(passes.values(), key=len, default=[])[first:]


def lengths_of(run: Run, loader: int) -> list[int]:
    """The iterations of one pass in the loop's order, in ns, without the first: of the longest pass."""
    passes: dict[int, list[int]] = {}
    for line in run.turns(loader):
        passes.setdefault(line.number_of_pass, []).extend(one.left - one.asked for one in line.arrivals if one.left)
    return max(passes.values(), key=len, default=[])[1:]


def scatter(lengths: Sequence[float], block: int) -> float | None:
    """The standard deviation of the means of whole blocks of successive iterations, as a share of their mean.

    None: there are too few blocks. Waits that come in bursts even out within a block; a slow batch that few blocks have
    does not.
    """
    means = [fmean(lengths[begin : begin + block]) for begin in range(0, len(lengths) - block + 1, block)]
    return stdev(means) / fmean(means) if len(means) >= _LEAST_BLOCKS and any(means) else None


def period_of(waits: Sequence[int]) -> Period | None:
    """The period of the waits, from their autocorrelation; None if they have none or are too few."""
    most = min(_LONGEST, len(waits) // _LEAST_PERIODS)
    if most < 2 or not sum(waits):
        return None
    mean = sum(waits) / len(waits)
    moved = [one - mean for one in waits]
    scatter = sum(one * one for one in moved)
    if not scatter:
        return None
    # Divided by the number of terms, so that long periods count as much as short ones.
    alike = {lag: _product(moved, lag) * len(moved) / (len(moved) - lag) / scatter for lag in range(1, most + 1)}
    best = max(alike.values())
    if best < _ALIKE:
        return None
    lag = next(lag for lag, one in alike.items() if one >= 0.9 * best)
    if lag < 2:
        return None
    share = max(sum(waits[place::lag]) for place in range(lag)) / sum(waits)
    return Period(lag, share) if share >= _SHARE else None


def has_reason(found: Period, waits: Sequence[int], costs: LoopCosts | None) -> bool:
    """Whether some batches or iterations take as much longer as such stalls need, as far as their costs are known.

    Where all cost the same, workers that never rest give their batches in bursts, one of each: no queue bridges that.
    With one batch ahead of each, a worker rests until its batch is taken, so that such bursts have a reason, too.
    """
    if costs is None or costs.prefetch_factor < 2:
        return True
    stall_s = found.share * sum(waits) / (len(waits) / found.period) / 1e9
    known = [one for one in (costs.each_made_s, costs.step_s) if len(one) >= _LEAST_PERIODS * found.period]
    return len(known) < 2 or any(_longest(one, found.period) - median(one) >= _OF_STALL * stall_s for one in known)


def _longest(lengths: Sequence[float], period: int) -> float:
    """The mean of the longest ones, as many as stalls."""
    return fmean(sorted(lengths)[-max(1, len(lengths) // period) :])


def _product(moved: Sequence[float], lag: int) -> float:
    return sum(one * later for one, later in zip(moved, moved[lag:], strict=False))
