"""Overhead and noise: what a span costs, what recording adds to a sample, and what equal readings can tell."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from statistics import median

from pipebench.results.calibration import NoiseFloor, Slowdown
from pipebench.stats import BLOCKS, compare, median_interval
from pipebench.watch.record.exclusive_time import StageTimer, local, timed

SPANS = 8  # a sample of switching.py
READING = 16  # samples in one of its windows
PAIRS = (10, 20, 40, 80)


def span_s(spans: int = 2000, repeats: int = 20) -> float:
    """What one span adds to a call, in seconds, from the least of several blocks with and without.

    High: `watch` slows down a script of many small stages.
    """
    timer = StageTimer()
    plain: Callable[[], object] = int
    wrapped = timed(plain, 1)
    watched, alone = [], []
    collecting = gc.isenabled()
    gc.disable()
    try:
        for _ in range(repeats):
            local.timer = timer
            timer.begin()
            watched.append(_block_ns(wrapped, spans))
            local.timer = None
            alone.append(_block_ns(plain, spans))
    finally:
        local.timer = None
        if collecting:
            gc.enable()
    return (min(watched) - min(alone)) / spans * 1e-9


def _block_ns(function: Callable[[], object], times: int) -> int:
    began = time.perf_counter_ns()
    for _ in range(times):
        function()
    return time.perf_counter_ns() - began


def slowdown(on: Sequence[float], off: Sequence[float], each_s: float) -> Slowdown:
    """What recording adds to a sample: windows with it beside windows without, in the same run. `each_s` is a span."""
    slower = compare(off, on)  # the speed-up of not recording over recording
    sample_s = median(_least(off))
    added, low, high = (sample_s * (one - 1) for one in (slower.speedup, slower.low, slower.high))
    return Slowdown(sample_s, added, low, high, SPANS, SPANS * each_s)


def _least(readings: Sequence[float]) -> list[float]:
    """The least of each block of neighbours: what a comparison divides by, when the machine has other work too."""
    size = max(1, len(readings) // BLOCKS)
    return [min(readings[begin : begin + size]) for begin in range(0, len(readings), size)]


def noise(one: Sequence[float], other: Sequence[float]) -> tuple[NoiseFloor, ...]:
    """What pairs of equal readings tell, for each number of pairs of which there are at least two groups."""
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
