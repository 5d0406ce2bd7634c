"""Makes a passport of a watched run: the costs of its training loop, and what was tried in it. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from statistics import fmean
from typing import TYPE_CHECKING

from pipebench.errors import PipebenchError
from pipebench.predict.asked import crowds
from pipebench.predict.bounds import core_s
from pipebench.results.costs import LoopCosts, Passport, StageShare, Tried
from pipebench.results.watched import WatchResult

if TYPE_CHECKING:
    from pipebench.results.advice import Advice, Change
    from pipebench.results.report import Report

_KNOBS = {"num_workers", "prefetch_factor"}
_SIMULATED = {*_KNOBS, "persistent_workers", "timeout"}
_HARDLY = 0.15  # of the CPU time: about so much a thread waits that wakes often, on free cores too


def passport_of(watched: WatchResult, advice: Advice | None = None, loader: int | None = None) -> Passport | None:
    """The passport of a watched run. None: nothing was recorded from which a prediction could be made.

    It is about `loader`; if that is not given, about the loader of the advice or of the verdict.
    """
    costs = _main(watched, advice, loader)
    if costs is None:
        return None
    stages = (one for one in watched.stages if one.loader == costs.loader)
    cores, taken, shared = _part(watched, costs)
    told = others(costs, cores, taken) if foreign_known(watched) else max(taken, others(costs, cores, None))
    return Passport(
        costs=waking(costs, cores, told),
        stages=tuple(StageShare(one.name, one.kind, min(1.0, one.worker_share)) for one in stages),
        cores=cores,
        others=told,
        tried=tuple(_tried(costs, advice, cores)) if advice is not None else (),
        shared_cores=shared,
    )


def passport_in(report: Report) -> Passport:
    """The passport in a saved report, or the one that follows from it. Raises PipebenchError if there is none."""
    found = report.passport
    if found is None and report.watched is not None:
        found = passport_of(report.watched, report.advice)
    if found is None:
        raise PipebenchError(
            "this report has no costs of batches, so nothing can be predicted from it",
            "name one that `pipebench watch --export-json` or `pipebench advise --passport` wrote",
        )
    return found


def others(costs: LoopCosts, cores: float, foreign_cores: float | None) -> float:
    """How many threads of other processes wanted a core, on average, while a worker wanted one.

    If n threads share C cores evenly, each runs for C/n of the time in which it is ready (`cores.Cores`): a worker for
    its CPU time out of that and its waits for a core, and a thread of others for as much. So if they used
    `foreign_cores`, that share gives how many they were.

    If that is not known (None), n follows from the share itself, and what are not our own threads are others. A thread
    waits for a moment each time it wakes, on a free core too: waits that are no longer tell of none.
    """
    cpu_s, waited_s = fmean(costs.cpu_s), costs.core_wait_s
    ready = (1 + waited_s / cpu_s) if cpu_s else 1.0
    if foreign_cores is not None:
        return foreign_cores * ready
    if waited_s <= _HARDLY * cpu_s:
        return 0.0
    own_s = core_s(costs, costs.workers) + waited_s
    beside = (own_s - (cpu_s + waited_s) / max(1, costs.workers)) / costs.iteration_s
    return max(0.0, cores * ready - 1 - beside)


def waking(costs: LoopCosts, cores: float, others: float) -> LoopCosts:
    """The costs with only those waits for a core that sharing the cores does not explain.

    If n threads share C cores evenly, each waits for n/C - 1 times its CPU time.
    """
    cpu_s, waited_s = fmean(costs.cpu_s), costs.core_wait_s
    ready = (core_s(costs, costs.workers) + waited_s) / costs.iteration_s + others
    return replace(costs, core_wait_s=max(0.0, waited_s - cpu_s * max(0.0, ready / cores - 1)))


def _part(watched: WatchResult, costs: LoopCosts) -> tuple[float, float, float | None]:
    """The cores of the loop, those of them that others use, and the cores that it shares with other ranks.

    Ranks go in step: where one gets faster, the others do, and need more. So each keeps the part that it has now, and
    the others are no load that stays as it is.
    """
    host, own = watched.host, core_s(costs, costs.workers) / costs.iteration_s
    if host is None or not host.shared_cores or not host.sibling_cores or not own:
        return watched.usable_cores, watched.taken_cores, None
    shared = host.shared_cores
    bound = watched.usable_cores < shared  # to cores that are its own, as far as is known
    part = watched.usable_cores if bound else shared * own / (own + host.sibling_cores)
    elsewhere = max(0.0, (host.machine_cores or shared) - shared)
    return part, max(0.0, (host.foreign_cores or 0.0) - elsewhere) * part / shared, shared


def foreign_known(watched: WatchResult) -> bool:
    """Whether it is known what others used of these cores: of all cores of the machine."""
    host = watched.host
    if host is None or host.foreign_cores is None:
        return False
    return watched.usable_cores >= (host.machine_cores or 0)


def _main(watched: WatchResult, advice: Advice | None, loader: int | None) -> LoopCosts | None:
    """The costs of `loader`, or of the one that the advice or the verdict is about; else of the first one."""
    if loader is not None:
        return watched.costs_of(loader)
    wanted = [advice.loader if advice is not None else None, getattr(watched.verdict, "loader", None)]
    for number in wanted:
        found = next((one for one in watched.costs if one.loader == number), None)
        if found is not None:
            return found
    return next(iter(watched.costs), None)


def _tried(costs: LoopCosts, advice: Advice, cores: float) -> Iterator[Tried]:
    """The findings by windows that changed only what the simulation knows."""
    for one in advice.findings:
        if one.gain is not None and one.by == "windows" and simulated(one.change, costs, cores):
            workers, prefetch_factor = setting_of(one.change, costs)
            yield Tried(workers, prefetch_factor, one.gain.speedup)


def simulated(change: Change, costs: LoopCosts, cores: float) -> bool:
    """Whether the simulation knows all of what a change is about: in the settled loop, workers persist anyway.

    It knows first workers with as many threads of torch less, where training uses their cores, and not with all.
    """
    settings, workers = set(change.settings), setting_of(change, costs)[0]
    known = settings & _KNOBS and settings <= _SIMULATED and not (change.one_thread or change.edits)
    fewer = workers and not costs.workers
    threads = bool(change.loop_threads) == crowds(costs, workers, cores) if fewer else not change.loop_threads
    return bool(known) and threads


def setting_of(change: Change, costs: LoopCosts) -> tuple[int, int]:
    """The number of workers and the prefetch factor after a change."""
    workers = change.settings.get("num_workers", costs.workers)
    return int(workers or 0), int(change.settings.get("prefetch_factor", costs.prefetch_factor) or 2)
