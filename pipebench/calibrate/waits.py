"""Wait: loops whose true waits are known. The work is in the loop's thread, in other threads, or launched ahead."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from typing import Any

from pipebench.calibrate.running import plainly, watched
from pipebench.results.calibration import PlantedFigure, judged
from pipebench.results.watched import WatchResult

Moment = Sequence[int]  # asked, began, ready, arrived, got


def waits(progress: Callable[[str], object], cuda: bool = False) -> list[PlantedFigure]:
    """The wait of every scenario. With a CUDA device, also its idle time when kernels of known length are queued."""
    progress("plain run: the time of `next()` besides waiting\n")
    plain = {name: around(moments) for name, moments in plainly("waiting.py")["moments"].items()}
    progress("planted run: known waits\n")
    found, result = watched("waiting.py")
    rows = compare(found["moments"], plain, result)
    if cuda:
        progress("planted run: kernels that are launched ahead\n")
        found, result = watched("waiting.py", "--only", "launches", "--device", "cuda")
        rows += idle(found["idle"], result)
    return rows


def around(moments: Sequence[Moment]) -> tuple[float, float]:
    """Mean nanoseconds of `next()` before it looks for a batch, and after the batch arrived. The run is not watched."""
    before = statistics.fmean(began - asked for asked, began, *_ in moments[1:])
    return before, statistics.fmean(got - arrived for *_, arrived, got in moments[1:])


def true_wait(moments: Sequence[Moment], before: float, after: float) -> float:
    """The true wait in seconds per iteration, without the first iteration.

    If the batch was not ready when the loop asked for it, the wait begins with the request, even if `next()` was slow
    to look for the batch.
    """
    spent = [
        arrived - (asked if ready > asked else began - before) + after
        for asked, began, ready, arrived, _ in moments[1:]
    ]
    return statistics.fmean(spent) * 1e-9


def compare(
    moments: dict[str, list[Moment]], plain: dict[str, tuple[float, float]], result: WatchResult
) -> list[PlantedFigure]:
    """One row for each scenario, in the order of the loaders; pure."""
    rows = []
    for loader, (name, noted) in zip(result.loaders, moments.items(), strict=True):
        assert loader.wait_s_per_iteration is not None and loader.s_per_iteration is not None
        expected = true_wait(noted, *plain[name])
        rows.append(_row(name, expected, loader.wait_s_per_iteration, loader.s_per_iteration))
    return rows


def idle(known: Sequence[int], result: WatchResult) -> list[PlantedFigure]:
    """The device's idle time per wait, compared with the part of each wait in which no kernel ran.

    The first wait is start-up, which the report does not count.
    """
    seen: Any = result.device_idle
    iteration = sum(one.s_per_iteration for one in result.loop)
    return [_row("device idle", statistics.fmean(known[1:]) * 1e-9, seen.s_per_iteration, iteration)]


def _row(name: str, truth_s: float, found_s: float, iteration: float) -> PlantedFigure:
    return judged(PlantedFigure("waits", name, "wall", "iteration", truth_s, found_s, part="wait"), iteration)
