"""Bound: measures a loop whose step time is known, with a loader that is slower."""

from __future__ import annotations

import itertools
import statistics
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from pipebench.calibrate.running import FOLDER, ended
from pipebench.errors import PipebenchError
from pipebench.host.scratch import Scratch
from pipebench.results.calibration import PlantedFigure, judged
from pipebench.watch.bound.schedule import BUSY, IDLE
from pipebench.watch.command import observe
from pipebench.watch.read.gather import gather
from pipebench.watch.record.bound_lines import BoundPlan, BoundWindow
from pipebench.watch.record.lines import Line
from pipebench.watch.record.options import WatchOptions

_SCRIPT = FOLDER / "replaying.py"
_STEPS = 150
_SETTLED = 10  # iterations of the plain run that are start-up
_NAMES = {IDLE: "bound, workers idle", BUSY: "bound, workers busy"}
# For each iteration, in nanoseconds: the planted time, and the moment at which the next batch was asked for.
Noted = Sequence[tuple[int, int]]


def bounds(progress: Callable[[str], object]) -> list[PlantedFigure]:
    """Rows that compare the planted time of replayed iterations with what `watch --bound` finds."""
    with Scratch("calibrate") as folder:
        truth = folder / "truth"
        progress("plain run: the time of an iteration besides its step\n")
        besides_s = besides(_noted(truth, ended([sys.executable, str(_SCRIPT), str(truth), "--ready"])))
        progress("planted run: a known bound\n")
        options = WatchOptions(bound=True, steps=_STEPS, records=folder / "records", ours=True)
        status, _ = observe(options, [str(_SCRIPT), str(truth)], sys.stderr.write)
        noted = _noted(truth, status)
        lines = [one for process in gather(folder / "records") for one in process.lines]
    return compare(noted, besides_s, lines)


def _noted(truth: Path, status: int) -> list[tuple[int, int]]:
    from pipebench.calibrate.planted.replaying import ROW

    if status or not truth.exists():
        raise PipebenchError(f"a planted run ended with status {status}", "run pipebench calibrate again")
    return [(spent, asked) for spent, asked in ROW.iter_unpack(truth.read_bytes()) if asked]


def besides(noted: Noted) -> float:
    """Median seconds of an iteration besides the planted time, from a run whose batches are ready in advance."""
    later = itertools.pairwise(noted[_SETTLED:])
    return statistics.median(after[1] - before[1] - after[0] for before, after in later) * 1e-9


def compare(noted: Noted, besides_s: float, lines: Sequence[Line]) -> list[PlantedFigure]:
    """One row for each kind of replay, over all its windows; pure."""
    plan = next((one for one in lines if isinstance(one, BoundPlan)), None)
    if plan is None:
        raise PipebenchError("a planted bound was not measured", "run pipebench calibrate again")
    rows = []
    for kind, name in _NAMES.items():
        windows = [one for one in lines if isinstance(one, BoundWindow) and one.kind == kind]
        iterations = sum(one.iterations for one in windows)
        places = [plan.given + one.first + at for one in windows for at in range(plan.window)]
        if iterations != len(places) or not places:
            raise PipebenchError("a planted bound was measured only in part", "run pipebench calibrate again")
        truth_s = sum(noted[place][0] for place in places) * 1e-9 / iterations + besides_s
        found_s = sum(one.seconds for one in windows) / iterations
        row = PlantedFigure("bound", name, "wall", "iteration", truth_s, found_s, part="bound")
        rows.append(judged(row, truth_s))
    return rows
