"""The figures of a watched run by name, with the error that is known of them.

A watched run is one run, so nothing of it was repeated. Its figures carry the goals of `calibrate`, which is the error
of the instrument; the scatter of its iterations; what other processes could have taken from it; and the floor of plain
runs: how far two runs of one script are apart on a machine of their own (see `docs/figures/advice.md`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from statistics import NormalDist

from pipebench.advise.judging import BETWEEN_RUNS
from pipebench.before_after.estimates import Estimate, of_interval
from pipebench.before_after.figures import Figure
from pipebench.results.account import AccountRow
from pipebench.results.advice import Advice
from pipebench.results.before_after import CPU, Floor
from pipebench.results.calibration import GOAL_S, GOAL_SHARE, LARGE_SHARE
from pipebench.results.programs import WatchedCommand
from pipebench.results.report import Report
from pipebench.results.watched import BoundResult, LoaderResult, PhaseResult, WatchResult, as_clocked
from pipebench.stats import NORMAL, Speedup

_TAILS = NormalDist().inv_cdf(0.95), NormalDist().inv_cdf(0.99)  # standard deviations above the mean
_LEAST_SHARE = 0.005  # a smaller wait is none
_LEAST_FREE = 0.05  # of the cores: a run always had some
_LEAST = 0.01  # of the whole: smaller rows are left out
_AT_ALL = 1e-9  # seconds
# Two threads of one core do 1.16 to 1.28 times the work of one (Marr et al., Intel Technology Journal 6, 2002), so a
# sample takes up to 1.7 times the CPU time where work of others is on the same core.
_SHARED_CORE = 1.7


def of_watch(report: Report) -> Iterator[Figure]:
    """The rate of each loop, the account of the run, the phases of an iteration, and the stages of a sample."""
    if report.watched is not None:
        yield from _of_run(report.watched)


def of_command(report: Report) -> Iterator[Figure]:
    """The ranks of a command, then the figures of the program that is shown."""
    yield from _ranks(report.command)
    yield from of_watch(report)


def of_advise(report: Report) -> Iterator[Figure]:
    """What each remedy gained, then the figures of the watched part."""
    yield from _remedies(report.advice)
    yield from of_watch(report)


def floor(base: Report, head: Report) -> Floor:
    """What two runs of one script are apart by."""
    found = [slack(one.watched) for one in (base, head) if one.watched is not None]
    known = [math.exp(one) for one in found if one is not None]
    return Floor("plain-runs", BETWEEN_RUNS, others=max(known, default=1.0) if len(known) == len(found) else None)


def slack(found: WatchResult) -> float | None:
    """The logarithm of how many times as fast the run could have been, at most, if it had had all cores for itself.

    None: nobody saw what others took of the cores, as with `--bound`. Then no wall time can be judged.
    """
    host = found.host
    if host is None:
        return 0.0
    if host.foreign_cores is None:
        return None
    cores = host.machine_cores or found.usable_cores
    taken = host.foreign_cores + (host.stolen_cores or 0.0)
    return math.log(cores / max(cores - taken, _LEAST_FREE * cores)) if cores > 0 else 0.0


def _as_clocked(row: AccountRow) -> str:
    """The row that the clock tells: looks tell work before the model from forward."""
    of_forward = "forward" if row.loader else "before-backward"  # without a loader
    return of_forward if row.code == "prepare" else row.code


def _of_run(found: WatchResult) -> Iterator[Figure]:
    for loader in found.loaders:
        if loader.loader in found.loaders_in_loop and loader.s_per_iteration:
            yield _rate(found, loader)
    yield from _bound(found.bound)
    if found.account is not None:
        yield Figure("run", "whole run", "s", found.account.wall_s)
        sums: dict[str, float] = {}
        for row in found.account.rows:
            code = _as_clocked(row)
            sums[code] = sums.get(code, 0.0) + row.s
        yield from (Figure("account", code, "s", spent) for code, spent in sums.items())
    iteration_s = sum(one.s_per_iteration for one in found.loop)
    samples = sum(_samples(found, one) for one in found.loaders if one.loader in found.loaders_in_loop)
    for phase in as_clocked(found.loop):
        known = _phase(found, phase, iteration_s) if phase.share >= LARGE_SHARE else None
        yield Figure("iteration", phase.phase, "s", phase.s_per_iteration, known, samples=samples)
    yield from _cpu(found)
    for stage in found.stages:
        name = f"{stage.name} ({stage.kind})" + (f" of loader {stage.loader}" if stage.loader > 1 else "")
        spent = stage.exclusive_s_per_sample
        if stage.worker_share >= _LEAST:
            yield Figure("sample", name, "s", spent, _known(found, spent, max(GOAL_S, GOAL_SHARE * spent)))


def _cpu(found: WatchResult) -> Iterator[Figure]:
    """The CPU time in which a sample is made. Waiting for a core is not in it; what others do on the same core is."""
    for loader in found.loaders:
        if loader.training and (spent := loader.sample_cpu_s) is not None and loader.watched:
            spent = max(spent, _AT_ALL)
            known = replace(_estimate(spent, max(GOAL_S, GOAL_SHARE * spent)), slack=_shared(found))
            name = CPU + (f" of loader {loader.loader}" if loader.loader > 1 else "")
            yield Figure("sample", name, "s", spent, known, gated=True, workers=loader.workers)


def _shared(found: WatchResult) -> float:
    """The logarithm of how much CPU time others can have added: all that they can if nobody saw how busy they were."""
    host = found.host
    if host is None:
        return 0.0
    beside = max(1.0, (host.machine_cores or found.usable_cores) - 1)
    busy = 1.0 if host.foreign_cores is None else min(1.0, host.foreign_cores / beside)
    return math.log1p((_SHARED_CORE - 1) * busy)


def _phase(found: WatchResult, phase: PhaseResult, iteration_s: float) -> Estimate | None:
    """A wait is what is left of an iteration, so it differs between runs by as much as the whole iteration does."""
    spent = phase.s_per_iteration
    return _known(found, spent, GOAL_SHARE * spent + (_of_runs(found, iteration_s) if phase.phase == "wait" else 0.0))


def _of_runs(found: WatchResult, iteration_s: float) -> float:
    return NORMAL * math.hypot(BETWEEN_RUNS, _scatter(found)) * iteration_s


def wait(found: WatchResult | None) -> Estimate | None:
    """The share of an iteration that is wait. A wait is what is left of an iteration, so where the iteration differs
    between runs by some share of it, this share differs by that of the rest."""
    if found is None or found.wait_share is None:
        return None
    share = max(found.wait_share, _LEAST_SHARE)
    return _beside(found, share, GOAL_SHARE * share + (1 - min(1.0, share)) * _of_runs(found, 1.0))


def _scatter(found: WatchResult) -> float:
    """The standard error of the mean iteration, as a share of it.

    The spread is that from the mean to the 95th or the 99th percentile, as if it were normal: where batches come in
    bursts, most iterations wait for none, and the median says nothing. Only as many iterations apart as the workers
    have under way are they independent.
    """
    mean_s = sum(one.s_per_iteration for one in found.loop)
    if not mean_s or not found.iterations:
        return 0.0
    tails = zip((found.iteration_p95_s, found.iteration_p99_s), _TAILS, strict=True)
    spread = max(max(0.0, (one or 0.0) / mean_s - 1) / far for one, far in tails)
    ahead = max((one.workers * one.prefetch_factor for one in found.costs), default=1)
    return spread / math.sqrt(max(1.0, found.iterations / max(1, ahead)))


def _samples(found: WatchResult, loader: LoaderResult) -> float:
    """The samples of an iteration of this loader."""
    if loader.content is not None and loader.content.samples:
        return loader.content.samples
    known = next((one.samples for one in found.costs if one.loader == loader.loader), None)
    return known or loader.batch_size or 1.0


def _rate(found: WatchResult, loader: LoaderResult) -> Figure:
    per_s = _samples(found, loader) / (loader.s_per_iteration or 1.0)
    known = _beside(found, per_s, math.hypot(GOAL_SHARE, NORMAL * _scatter(found)) * per_s)
    return Figure("loop", f"loader {loader.loader}", "per-s", per_s, known, gated=loader.training)


def _known(found: WatchResult, value: float, error_s: float) -> Estimate | None:
    """A value whose error is at most `error_s` in 95 % of cases. None: it is smaller than its error."""
    return _beside(found, value, error_s) if value > max(error_s, _AT_ALL) else None


def _beside(found: WatchResult, value: float, error_s: float) -> Estimate | None:
    """The same, also where the error is larger. What other processes took of the cores is in the value."""
    taken = slack(found)
    return None if taken is None else replace(_estimate(value, error_s), slack=taken)


def _estimate(value: float, error_s: float) -> Estimate:
    return Estimate(math.log(value), math.log1p(error_s / value) / NORMAL)


def _bound(found: BoundResult | None) -> Iterator[Figure]:
    if found is not None and found.bound is not None:
        yield Figure("loop", "batches ready", "per-s", found.bound.samples_per_s)


def _ranks(found: WatchedCommand | None) -> Iterator[Figure]:
    together = found.ranks if found is not None else None
    if together is None or not together.steps:
        return
    if together.step_s and together.hidden != "work":
        yield Figure("ranks", "a step waits for the last rank", "share", together.cost_share)
    for one in together.rows:
        yield Figure("ranks", f"rank {one.rank}, own work", "s", one.work_s)
        yield Figure("ranks", f"rank {one.rank}, wait", "s", one.wait_s)


def _remedies(found: Advice | None) -> Iterator[Figure]:
    """The gains of the remedies that were tried, with the interval for another trial of each."""
    for one in found.findings if found is not None else ():
        if one.gain is not None:
            change = one.change
            words = [f"{name}={value!r}" for name, value in change.settings.items()]
            name = ", ".join([*words, *([change.title] if change.title else [])]) or change.remedy
            yield Figure("remedies", name, "times", one.gain.speedup, _gain(one.gain))


def _gain(found: Speedup) -> Estimate | None:
    return of_interval(found.speedup, found.low, found.high, found.confidence)
