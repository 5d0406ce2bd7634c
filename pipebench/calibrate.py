"""The instrument measures itself: pipelines whose truth is known, watched, and the difference reported."""

from __future__ import annotations

import gc
import json
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipebench.errors import PipebenchError
from pipebench.machine import usable_cores
from pipebench.units import percent, seconds_scale
from pipebench.watch.command import observe
from pipebench.watch.options import WatchOptions
from pipebench.watch.results import WatchResult
from pipebench.watch.track import Track, local, timed
from pipebench.watch.trust import GOAL_S, GOAL_SHARE, Calibration, Row, keep

PLANTED = Path(__file__).with_name("watch") / "planted.py"
# stage of planted.py -> the row of `watch` that should show it, and whether its CPU time is measured
STAGES = {
    "read": ("Image.open", True),
    "decode": ("ImageFile.load", True),
    "spin": ("Spin", False),
    "sleep": ("Sleep", False),
    "getitem": ("Planted.__getitem__", False),
    "collate": ("collate", True),
}
_PHASES = ("wait", "forward", "backward", "optimiser", "other")


@dataclass(frozen=True)
class Plan:
    """One planted run: how many workers, whether later ones have more to do, how they are started."""

    workers: int
    skew: bool = False
    method: str = "fork"
    batches: int = 30
    batch: int = 8

    @property
    def name(self) -> str:
        skew = ", skewed" if self.skew else ""
        return f"{self.workers} workers{skew}, {self.method}" if self.workers else "no workers"


def plans(full: bool = False) -> list[Plan]:
    """Workers from none to twice the usable cores, evenly loaded and skewed; other start methods where asked for."""
    cores = max(1, int(usable_cores()))
    found = [Plan(0), Plan(1), Plan(cores, skew=True), Plan(2 * cores)]
    return found + [Plan(cores, method=method) for method in ("spawn", "forkserver") if full]


def calibrate(chosen: Iterable[Plan], progress: Callable[[str], object] = lambda line: None) -> Calibration:
    """Runs every plan under watch and keeps, for this host, how far the figures were from the truth."""
    rows: list[Row] = []
    for plan in chosen:
        progress(f"planted run: {plan.name}\n")
        rows += attribution(plan)
    stages = [abs(row.error_s) for row in rows if row.per == "sample"]
    found = Calibration(
        host=platform.node(),
        worst_sample_s=max(stages, default=0.0),
        worst_share=max((abs(row.error_share) for row in rows), default=0.0),
        span_ns=span_ns(),
        within=sum(row.within for row in rows),
        rows=tuple(rows),
    )
    keep(found)
    return found


def attribution(plan: Plan) -> list[Row]:
    """One planted run: per stage and per phase, what its own clock saw and what `watch` says."""
    with tempfile.TemporaryDirectory(prefix="pipebench-calibrate-") as folder:
        truth = Path(folder) / "truth.json"
        argv = [str(PLANTED), str(truth), "--workers", str(plan.workers), "--method", plan.method]
        argv += ["--batches", str(plan.batches), "--batch", str(plan.batch), *(["--skew"] if plan.skew else [])]
        status, result = observe(WatchOptions(), argv, sys.stderr.write)
        if status or result is None or not truth.exists():
            raise PipebenchError(f"a planted run ended with status {status}", "run pipebench calibrate again")
        return compare(plan, json.loads(truth.read_text()), result)


def compare(plan: Plan, truth: dict[str, Any], result: WatchResult) -> list[Row]:
    """The rows of one run; pure."""
    iteration = sum(one.s_per_iteration for one in result.loop)
    rows = []
    for clock in ("wall", "cpu"):
        for stage, spent in truth[clock].items():
            name, has_cpu = STAGES[stage]
            if clock == "wall" or has_cpu:
                expected, found = spent / 1e9 / truth["samples"], _found(result, name, clock)
                rows.append(_row(plan, stage, clock, "sample", expected, found, iteration))
    phases = truth["phases"][1:]  # the first iteration is start-up, there as here
    for place, phase in enumerate(_PHASES):
        expected = sum(one[place] for one in phases) / len(phases) / 1e9
        found = next(one.s_per_iteration for one in result.loop if one.phase == phase)
        rows.append(_row(plan, phase, "wall", "iteration", expected, found, iteration))
    return rows


def _found(result: WatchResult, name: str, clock: str) -> float:
    rows = [one for one in result.stages if one.name == name]
    return sum((one.exclusive_s_per_sample if clock == "wall" else one.cpu_s_per_sample or 0.0) for one in rows)


def _row(plan: Plan, name: str, clock: str, per: str, truth: float, found: float, iteration: float) -> Row:
    times = plan.batch if per == "sample" else 1
    share = (found - truth) * times / iteration if iteration else 0.0
    allowed = GOAL_S * (plan.batch if per == "iteration" else 1)
    within = abs(share) <= GOAL_SHARE or abs(found - truth) <= allowed
    return Row(plan.name, name, clock, per, truth, found, share, within)


def span_ns(spans: int = 2000, repeats: int = 20) -> float:
    """What one span adds to a call, in nanoseconds, from the least of several blocks with and without.

    High: `watch` slows down a script of many small stages.
    """
    track = Track()
    plain: Callable[[], object] = int
    wrapped = timed(plain, 1)
    watched, alone = [], []
    collecting = gc.isenabled()
    gc.disable()
    try:
        for _ in range(repeats):
            local.track = track
            track.begin()
            watched.append(_block_ns(wrapped, spans))
            local.track = None
            alone.append(_block_ns(plain, spans))
    finally:
        local.track = None
        if collecting:
            gc.enable()
    return (min(watched) - min(alone)) / spans


def _block_ns(function: Callable[[], object], times: int) -> int:
    began = time.perf_counter_ns()
    for _ in range(times):
        function()
    return time.perf_counter_ns() - began


def render(calibration: Calibration) -> str:
    """The table of errors and the line that later reports quote."""
    lines = [calibration.foot + f"; {calibration.within} of {len(calibration.rows)} rows are within the goal."]
    runs = list(dict.fromkeys(row.run for row in calibration.rows))
    for run in runs:
        rows = [row for row in calibration.rows if row.run == run]
        scale = seconds_scale([max(row.truth_s for row in rows)])
        lines += ["", f"{run} ({scale.unit})", f"{'':12}{'clock':>6}{'per':>11}{'truth':>10}{'found':>10}{'error':>9}"]
        lines += [
            f"{row.name:12}{row.clock:>6}{row.per:>11}{scale.number(row.truth_s):>10}{scale.number(row.found_s):>10}"
            f"{percent(row.error_share, 1):>9}{'' if row.within else '  over the goal'}"
            for row in rows
        ]
    return "\n".join(lines) + "\n"
