"""A whole calibration: everything that is planted, one after the other."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Sequence
from statistics import median

from pipebench.calibrate.attribution import Plan, attribution
from pipebench.calibrate.bounds import bounds
from pipebench.calibrate.overhead import READING, noise, slowdown, span_s
from pipebench.calibrate.running import plainly
from pipebench.calibrate.waits import waits
from pipebench.host.machine import usable_cores
from pipebench.results.calibration import Calibration
from pipebench.results.report import keep_calibration

ROUNDS = 160


def calibrate(chosen: Sequence[Plan], progress: Callable[[str], object] = lambda line: None) -> Calibration:
    """Runs everything that is planted and keeps, for this host, how far the figures were from the truth."""
    began, load = time.monotonic(), os.getloadavg()[0]
    rows = attribution(chosen, progress)
    rows += waits(progress, cuda=_cuda())
    rows += bounds(progress)
    progress("recording switched on and off in turn, and equal work in turn\n")
    readings = plainly("switching.py", "--rounds", str(ROUNDS))
    each_s = span_s()
    found = Calibration(
        host=platform.node(),
        at=time.strftime("%Y-%m-%d %H:%M"),
        load=(load, os.getloadavg()[0]),
        cores=usable_cores(),
        took_s=time.monotonic() - began,
        rows=tuple(rows),
        span_s=each_s,
        slowdowns=tuple(slowdown(one["on"], one["off"], each_s) for one in readings.values()),
        reading_s=READING * median(readings["work"]["off"]),
        noise=noise(readings["work"]["off"], readings["work"]["again"]),
    )
    keep_calibration(found)
    return found


def _cuda() -> bool:
    import torch

    return torch.cuda.is_available()
