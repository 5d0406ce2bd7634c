"""Overhead and noise: what a span costs, what watching adds to a sample, and how much equal readings differ."""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Callable, Sequence
from statistics import fmean

from pipebench.calibrate.planted.looping import BATCH, BATCHES, BLOCK
from pipebench.calibrate.running import Reading, in_turns
from pipebench.results.calibration import NoiseFloor, Slowdown
from pipebench.stats import compare, median_interval
from pipebench.watch.record.exclusive_time import StageTimer, local, timed

SPANS = 8  # in a sample of looping.py
FIRST = 256  # batches that are written to the records one by one; see `record_file.Pace`
RUNS = 6  # each in two fresh processes
PAIRS = (10, 20, 40, 80)
RESAMPLED = 2000
CALLS, REPEATS = 2000, 20  # of the blocks that say what a span costs
Run = tuple[list[Reading], list[Reading]]  # the readings of each block, plainly and under watch


def span_s() -> float:
    """What one span adds to a call, in seconds: the least of several blocks with spans, minus the least without.

    If it is high, `watch` slows down a script with many small stages.
    """
    timer = StageTimer()
    plain: Callable[[], object] = int
    wrapped = timed(plain, 1)
    watched, alone = [], []
    collecting = gc.isenabled()
    gc.disable()
    try:
        for _ in range(REPEATS):
            local.timer = timer
            timer.begin()
            watched.append(_block_ns(wrapped))
            local.timer = None
            alone.append(_block_ns(plain))
    finally:
        local.timer = None
        if collecting:
            gc.enable()
    return (min(watched) - min(alone)) / CALLS * 1e-9


def _block_ns(function: Callable[[], object]) -> int:
    began = time.perf_counter_ns()
    for _ in range(CALLS):
        function()
    return time.perf_counter_ns() - began


def looped(progress: Callable[[str], object]) -> list[Run]:
    """Runs a loop from its first batch on, plainly and under `watch` in turns; returns the readings of each run."""
    found = []
    for number in range(RUNS):
        progress(f"a loop plainly and under watch, in turns: {number + 1} of {RUNS}\n")
        found.append(in_turns(BATCHES // BLOCK, BATCH * BATCHES, random.Random(number)))
    return found


def slowdowns(runs: Sequence[Run], each_s: float) -> tuple[Slowdown, ...]:
    """What watching adds to a sample, in the first batches and in the later ones. `each_s` is the cost of a span.

    For each block of batches, the least time of all runs counts, both plainly and under `watch`: other load on the
    machine only ever adds time. No block is left out. The added time is the mean over all blocks. Its interval comes
    from runs drawn again (bootstrap), because where a process lies in memory changes its speed for its whole life.
    """
    first = FIRST // BLOCK
    parts = {f"first {FIRST} batches": slice(0, first), "later batches": slice(first, None)}
    chance = random.Random(0)
    drawn = [chance.choices(runs, k=len(runs)) for _ in range(RESAMPLED)]
    found = []
    for name, part in parts.items():
        for place, clock in enumerate(("wall", "cpu")):
            plain, added = _added(runs, part, place)
            means = sorted(_added(some, part, place)[1] for some in drawn)
            low, high = means[round(0.025 * RESAMPLED)], means[round(0.975 * RESAMPLED) - 1]
            found.append(Slowdown(plain, added, low, high, SPANS, SPANS * each_s, name, clock))
    return tuple(found)


def _added(runs: Sequence[Run], part: slice, place: int) -> tuple[float, float]:
    """Seconds of a plain sample, and what `watch` adds to it."""
    plain, watched = (fmean(_least([kind[part] for kind in kinds], place)) for kinds in zip(*runs, strict=True))
    unit = 1e-9 / (BLOCK * BATCH)
    return plain * unit, (watched - plain) * unit


def _least(runs: Sequence[Sequence[Reading]], place: int) -> list[int]:
    """For each block, the least reading of one clock in any run. `place` selects the clock."""
    return [min(reading[place] for reading in readings) for readings in zip(*runs, strict=True)]


def equal(runs: Sequence[Run]) -> tuple[list[float], list[float]]:
    """Seconds of equal plain blocks, and of their neighbours. The first block of each run is left out."""
    plain = [wall * 1e-9 for run in runs for wall, _ in run[0][1 : len(run[0]) - 1 + len(run[0]) % 2]]
    return plain[::2], plain[1::2]


def noise(one: Sequence[float], other: Sequence[float]) -> tuple[NoiseFloor, ...]:
    """The noise of pairs of equal readings, for each number of pairs for which there are at least two groups."""
    floors = []
    for pairs in PAIRS:
        groups = len(one) // pairs
        found = [
            compare(one[begin : begin + pairs], other[begin : begin + pairs])
            for begin in range(0, groups * pairs, pairs)
        ]
        if groups > 1:
            changes = median_interval([pair.smallest_change for pair in found]).median
            floors.append(NoiseFloor(pairs, changes, groups, sum(pair.told for pair in found)))
    return tuple(floors)
