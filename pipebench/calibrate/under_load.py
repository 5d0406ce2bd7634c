"""Attribution on a busy machine: rows compared with the planted script's own clocks while other processes compute.

Each process computes without pause. So the workers lose their cores again and again, and a place where the instrument
attracts this shows as an error: what the others computed would be in a row.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

from pipebench.calibrate.running import watched
from pipebench.host.machine import usable_cores
from pipebench.results.calibration import GOAL_S, UNDER_LOAD, PlantedFigure, judged
from pipebench.results.watched import WatchResult

BATCH, BATCHES = 8, 100
_LONGEST_S = 120
# A busy process ends by itself when the process that started it is gone, and after `_LONGEST_S` in any case.
_BUSY = f"""
import os, sys, time
end = time.monotonic() + {_LONGEST_S}
while time.monotonic() < end and os.getppid() == int(sys.argv[1]):
    sum(range(1_000_000))
"""
_ROWS = {"first": "First", "second": "Second", "collate": "collate"}
_GETITEM = "Loaded.__getitem__"


def usual_load() -> int:
    """How many busy processes there are if nobody says so: two for each usable core."""
    return 2 * max(1, int(usable_cores()))


@contextlib.contextmanager
def busy(processes: int) -> Iterator[None]:
    """Keeps so many processes computing while the block runs."""
    command = [sys.executable, "-c", _BUSY, str(os.getpid())]
    started = [subprocess.Popen(command) for _ in range(processes)]
    try:
        yield
    finally:
        for one in started:
            one.kill()
            one.wait()


def under_load(processes: int, progress: Callable[[str], object]) -> list[PlantedFigure]:
    """The rows of one planted run beside so many busy processes."""
    workers = max(1, int(usable_cores()))
    progress(f"planted run: {workers} workers beside {processes} busy processes\n")
    with busy(processes):
        own, result = watched("loaded.py", *_arguments(workers))
    return compare(f"{workers} workers, {processes} busy processes", own, result)


def _arguments(workers: int) -> list[str]:
    return ["--workers", str(workers), "--batches", str(BATCHES), "--batch", str(BATCH)]


def compare(run: str, own: dict[str, Any], result: WatchResult) -> list[PlantedFigure]:
    """One row for `__getitem__` as a whole, and one for each stage; pure. `own` has seconds per sample."""
    shown = {one.name: one.exclusive_s_per_sample for one in result.stages}
    own = {**own, "getitem": own["sample"] - own["first"] - own["second"]}
    found = {name: shown.get(row, 0.0) for name, row in {"getitem": _GETITEM, **_ROWS}.items()}
    found["sample"] = found["getitem"] + found["first"] + found["second"]
    iteration = sum(one.s_per_iteration for one in result.loop)
    return [
        judged(
            PlantedFigure(run, name, "wall", "sample", own[name], found[name], part=UNDER_LOAD),
            iteration / BATCH,
            GOAL_S,
        )
        for name in ("sample", "getitem", *_ROWS)
    ]
