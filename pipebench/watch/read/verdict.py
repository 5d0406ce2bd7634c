"""What limits the loop, with its evidence, and one next move where a measurement backs it."""

from __future__ import annotations

from pipebench.results.watched import LoaderResult, StageResult, WatchResult, WorkerResult
from pipebench.units import counted, percent, printable, seconds

# Under 5 % of an iteration waiting costs less than a loop's own scatter; from 10 % on it is worth an effort.
_SMALL = 0.05
_LARGE = 0.10
_BUSY = 0.90


def diagnose(result: WatchResult) -> tuple[str, str | None]:
    """The verdict line and the next move (None: nothing measured says what would help)."""
    if not result.loaders:
        return "No DataLoader was iterated: nothing was watched.", None
    if result.wait_share is None or not result.iterations:
        return "No iteration was completed: there is nothing to judge.", None
    main = max((one for one in result.loaders if one.loader in result.loaders_in_loop), key=_total)
    share, waiting = result.wait_share, result.loop[0].s_per_iteration
    if result.device_idle is not None:
        share, waiting = result.device_idle.share, result.device_idle.s_per_iteration
    whole = seconds(sum(one.s_per_iteration for one in result.loop))
    if share < _SMALL:
        waits = f"{_who(result)} waits {percent(share)} of an iteration of {whole}"
        return f"Not limited by data: {waits}. {_busiest(result)}", None
    verdict = f"{_who(result).capitalize()} waits for data {percent(share)} of each iteration "
    verdict += f"({seconds(waiting)} of {whole}). "
    stages = [one for one in result.stages if one.loader == main.loader and one.kind != "serialise"]
    alternated = result.bound is not None  # by turns idle and kept busy: how busy they were says nothing
    workers = [] if alternated else [one for one in result.workers if one.loader == main.loader]
    verdict += _inside(main, stages, workers)
    return verdict.strip(), _next_move(result, main, workers) if share >= _LARGE else None


def _total(one: LoaderResult) -> float:
    """The time that a loader's iterations took in all."""
    return (one.s_per_iteration or 0.0) * one.iterations


def _who(result: WatchResult) -> str:
    return "the device" if result.device_idle is not None else "the loop"


def _busiest(result: WatchResult) -> str:
    name = max(result.loop, key=lambda one: one.s_per_iteration)
    return f"Its largest phase is {name.phase}, {percent(name.share)}."


def _inside(main: LoaderResult, stages: list[StageResult], workers: list[WorkerResult]) -> str:
    if not main.watched:
        return f"The inside of its {counted(main.workers, 'worker')} was not watched."
    if not stages:
        return ""
    top = stages[0]
    what = f"{percent(top.worker_share)} of {{}} is {printable(top.name)} ({_kind(top)})."
    if not main.workers:
        return "There are no workers: loading runs inside the loop, and " + what.format("it")
    if not workers:
        return what.format(f"the time in its {counted(main.workers, 'worker')}")
    are = "is" if main.workers == 1 else "are"
    return f"Its {counted(main.workers, 'worker')} {are} busy {percent(_busy(workers))} of the time; " + what.format(
        "that"
    )


def _kind(stage: StageResult) -> str:
    return "read + decode" if stage.includes_read else stage.kind


def _busy(workers: list[WorkerResult]) -> float:
    return sum(one.busy_share for one in workers) / len(workers) if workers else 0.0


def _next_move(result: WatchResult, main: LoaderResult, workers: list[WorkerResult]) -> str | None:
    """More workers where those there are busy and cores stand idle; a cheaper stage where no core is left."""
    top = next((one for one in result.stages if one.loader == main.loader and one.kind != "serialise"), None)
    if top is None:
        return None
    if not main.workers:
        if result.usable_cores < 2:
            return None
        return f"set num_workers: loading and training take turns on one of {result.usable_cores:g} usable cores"
    if _busy(workers) < _BUSY:
        return None
    on_cpu = sum(one.busy_share * one.cpu_s / one.busy_s for one in workers if one.busy_s)
    idle = result.usable_cores - on_cpu - 1
    if idle >= 1:
        return (
            f"raise num_workers above {main.workers}: its workers use {on_cpu:.1f} of {result.usable_cores:g} usable "
            "cores and never rest"
        )
    part = f"{seconds(top.exclusive_s_per_sample)} of {seconds(main.sample_s or 0.0)}"
    return (
        f"make {printable(top.name)} cheaper, the largest part of a sample ({part}): "
        f"the workers already use {on_cpu:.1f} of {result.usable_cores:g} usable cores"
    )
