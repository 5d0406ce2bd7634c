"""Attribution: watches runs with planted amounts in every stage and phase, and compares the rows with these amounts.

The true time of a stage is the sum of two parts. One is what was planted in it: its CPU time is units of work times the
cost of a unit, its wall time comes from innermost clocks. The other is its carrier: the time of the library around it,
from a run that nobody watched. On shared cores, a carrier's wall time grows by the same factor as the wall time of
planted work in the same process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from pipebench.calibrate.planted.amounts import REFERENCE
from pipebench.calibrate.running import plainly, watched
from pipebench.host.machine import usable_cores
from pipebench.results.calibration import GOAL_S, PlantedFigure, judged
from pipebench.results.watched import WatchResult, as_clocked

# planted stage -> the row of `watch` that should show it
STAGES = {
    "read": "Image.open",
    "decode": "ImageFile.load",
    REFERENCE: "Reference",
    "work": "Work",
    "sleep": "Sleep",
    "getitem": "Planted.__getitem__",
    "collate": "collate",
    "hand-off": "queue feeder thread",
}
PHASES = ("wait", "forward", "backward", "optimiser", "other")
Carriers = dict[str, tuple[float, float]]


@dataclass(frozen=True)
class PlantedRun:
    """One planted run: how many workers, whether later workers have more work, and how workers are started."""

    workers: int
    skew: bool = False
    method: str = "fork"
    batches: int = 60
    batch: int = 8

    @property
    def name(self) -> str:
        skew = ", skewed" if self.skew else ""
        return f"{self.workers} workers{skew}, {self.method}" if self.workers else "no workers"


def plans(full: bool = False) -> list[PlantedRun]:
    """Plans with zero workers up to twice the usable cores, even and skewed. `full` adds the other start methods."""
    cores = max(1, int(usable_cores()))
    found = [PlantedRun(0), PlantedRun(1), PlantedRun(cores, skew=True), PlantedRun(2 * cores)]
    return found + [PlantedRun(cores, method=method) for method in ("spawn", "forkserver") if full]


def attribution(chosen: Iterable[PlantedRun], progress: Callable[[str], object]) -> list[PlantedFigure]:
    """The rows of every plan. First, plain runs measure the carriers."""
    progress("plain run: the time of libraries around the planted work\n")
    carriers: Carriers = plainly("samples.py", "--carriers")["carriers"]
    carriers["hand-off"] = plainly("samples.py", "--carriers", "--workers", "1")["carriers"]["hand-off"]
    rows = []
    for plan in chosen:
        progress(f"planted run: {plan.name}\n")
        found, result = watched("samples.py", *_arguments(plan))
        rows += compare(plan, found, carriers, result)
    return rows


def _arguments(plan: PlantedRun) -> list[str]:
    found = ["--workers", str(plan.workers), "--method", plan.method]
    return [*found, "--batches", str(plan.batches), "--batch", str(plan.batch), *(["--skew"] if plan.skew else [])]


def compare(plan: PlantedRun, found: dict[str, Any], carriers: Carriers, result: WatchResult) -> list[PlantedFigure]:
    """The rows of one run; pure. `found` is what was planted: by worker and stage, and by iteration and phase."""
    iteration = sum(one.s_per_iteration for one in result.loop)
    rows = []
    for stage, name in STAGES.items():
        shown = [one for one in result.stages if one.name == name]
        wall, _ = truth(stage, found["workers"].values(), carriers)
        if stage == "hand-off" and not plan.workers:
            continue
        seen = sum(one.exclusive_s_per_sample for one in shown)
        rows.append(_row(plan, stage, "wall", "sample", wall / found["samples"], seen, iteration))
    rows += _cpu_rows(plan, found, carriers, result, iteration)
    rows += _of_single_workers(plan, found, carriers, result, iteration)
    later = found["iterations"][1:]  # the first iteration is start-up, there as here
    _, wall_ns, cpu_ns, _ = found["loop"]["forward"]
    for place, phase in enumerate(PHASES):
        spent = sum(one[place][1] for one in later) / len(later) + carriers[phase][0] * wall_ns / cpu_ns
        expected = spent * 1e-9
        seen = next(one.s_per_iteration for one in as_clocked(result.loop) if one.phase == phase)
        rows.append(_row(plan, phase, "wall", "iteration", expected, seen, iteration))
    return rows


def _cpu_rows(
    plan: PlantedRun, found: dict[str, Any], carriers: Carriers, result: WatchResult, iteration: float
) -> Iterable[PlantedFigure]:
    """Rows of CPU time, which is known of batches: of all that makes one, and of its hand-off."""
    spent = {stage: truth(stage, found["workers"].values(), carriers)[1] / found["samples"] for stage in STAGES}
    handed_off = spent.pop("hand-off")
    seen = next((one.sample_cpu_s for one in result.loaders), None)
    if seen is not None:
        yield _row(plan, "sample", "cpu", "sample", sum(spent.values()), seen, iteration)
    if result.hand_off is not None:
        seen = result.hand_off.serialise_cpu_s_per_batch * result.hand_off.batches / found["samples"]
        yield _row(plan, "hand-off", "cpu", "sample", handed_off, seen, iteration)


def _of_single_workers(
    plan: PlantedRun, found: dict[str, Any], carriers: Carriers, result: WatchResult, iteration: float
) -> Iterable[PlantedFigure]:
    """Rows for the workers with the least and with the most work per sample, if there are several workers."""
    shown = next((one for one in result.stages if one.name == STAGES["work"]), None)
    if shown is None or shown.least_s_per_sample is None or shown.most_s_per_sample is None:
        return
    workers = [one for one in found["workers"].values() if one["work"][3]]
    spent = sorted(truth("work", [one], carriers)[0] / one["work"][3] for one in workers)
    yield _row(plan, "work, least", "wall", "sample", spent[0], shown.least_s_per_sample, iteration)
    yield _row(plan, "work, most", "wall", "sample", spent[-1], shown.most_s_per_sample, iteration)


def truth(stage: str, workers: Iterable[dict[str, Sequence[int]]], carriers: Carriers) -> tuple[float, float]:
    """The true wall and CPU seconds of a stage in all workers together."""
    wall = cpu = 0.0
    for amounts in workers:
        reference_units, reference_wall, reference_cpu, _ = amounts[REFERENCE]
        units, spent, _, times = amounts[stage]
        carrier_wall, carrier_cpu = carriers.get(stage, (0.0, 0.0))
        wall += spent + times * carrier_wall * (reference_wall / reference_cpu)
        cpu += units * (reference_cpu / reference_units) + times * carrier_cpu
    return wall * 1e-9, cpu * 1e-9


def _row(
    plan: PlantedRun, name: str, clock: str, per: str, truth_s: float, found_s: float, iteration: float
) -> PlantedFigure:
    row = PlantedFigure(plan.name, name, clock, per, truth_s, found_s)
    if per == "sample":
        return judged(row, iteration / plan.batch, GOAL_S)
    return judged(row, iteration, GOAL_S * plan.batch)
