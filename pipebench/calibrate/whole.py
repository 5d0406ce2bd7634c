"""Runs a whole calibration: all planted scripts, one after the other."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Sequence
from statistics import median

from pipebench.calibrate.attribution import PlantedRun, attribution
from pipebench.calibrate.bounds import bounds
from pipebench.calibrate.overhead import RUNS, Run, equal, looped, noise, slowdowns, span_s
from pipebench.calibrate.under_load import under_load, usual_load
from pipebench.calibrate.waits import waits
from pipebench.host.machine import usable_cores
from pipebench.results.calibration import Calibration
from pipebench.results.report import keep_calibration


def activities(chosen: Sequence[PlantedRun], load: int | None) -> int:
    """How many times `calibrate` will say what it does, on a machine without a CUDA device."""
    of_attribution, of_waits, of_bounds = 1 + len(chosen), 2, 2
    return of_attribution + of_waits + of_bounds + RUNS + (load != 0)


def calibrate(
    chosen: Sequence[PlantedRun], progress: Callable[[str], object] = lambda line: None, load: int | None = None
) -> Calibration:
    """Runs all planted scripts. Keeps for this host, and returns, how far the figures were from the truth.

    If it is interrupted after the first part, it returns the rows until then, without slow-downs and noise, and keeps
    nothing. `load` is the number of busy processes of the part under load: None for two for each usable core, 0 to
    leave it out.
    """
    busy_processes = usual_load() if load is None else load
    began, before = time.monotonic(), os.getloadavg()[0]
    rows = attribution(chosen, progress)
    runs: list[Run] = []
    complete = False
    try:
        rows += waits(progress, cuda=_cuda())
        rows += bounds(progress)
        runs = looped(progress)
        after = os.getloadavg()[0]
        rows += under_load(busy_processes, progress) if busy_processes else []
        complete = True
    except KeyboardInterrupt:
        after = os.getloadavg()[0]
    plain = equal(runs)
    each_s = span_s()
    found = Calibration(
        host=platform.node(),
        at=time.strftime("%Y-%m-%d %H:%M"),
        load=(before, after),
        cores=usable_cores(),
        took_s=time.monotonic() - began,
        rows=tuple(rows),
        span_s=each_s,
        slowdowns=slowdowns(runs, each_s) if runs else (),
        reading_s=median(plain[0]) if runs else 0.0,
        noise=noise(*plain) if runs else (),
    )
    if complete:
        keep_calibration(found)
    return found


def _cuda() -> bool:
    import torch

    return torch.cuda.is_available()
