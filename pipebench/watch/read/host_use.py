"""Computes what the workers and the script used: CPU time, memory, descriptors and threads. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from statistics import fmean
from typing import Any

from pipebench.results.host_use import HostUse, ThreadPool
from pipebench.results.watched import LoaderResult, Note, WorkerResult
from pipebench.watch.launch.footprint import Footprint, Held
from pipebench.watch.launch.over_time import OverTime
from pipebench.watch.read.gather import Process, Run, loaders_found
from pipebench.watch.read.loop_clock import LoopClock
from pipebench.watch.read.over_time import growth_bytes_per_s, storage_bytes_per_s
from pipebench.watch.read.script_cpu import stretches
from pipebench.watch.read.together import sharing
from pipebench.watch.record.lines import FetchSums, LoopSums
from pipebench.watch.record.thread_pools import ARROW

_NS = 1e-9
_NEARLY = 0.8


def workers(
    run: Run, loaders: Sequence[int], footprint: Footprint, in_loop: Collection[int] = ()
) -> Iterable[WorkerResult]:
    """The workers of these loaders. Workers of several passes with the same number count as one.

    `in_loop` are the loaders of the training loop.
    """
    shared = sharing(run, in_loop)
    clocks = {one: LoopClock(run, one, next((each for each in shared if one in each), ())) for one in loaders}
    found: dict[tuple[int, int], list[Process]] = {}
    for process in run.processes:
        loader, number = process.loader, process.worker
        if process.role == "worker" and loader is not None and loader in loaders and number is not None:
            found.setdefault((loader, number), []).append(process)
    for (loader, number), processes in sorted(found.items()):
        yield _worker(run, clocks[loader], loader, number, processes, footprint)


def _worker(
    run: Run, clock: LoopClock, loader: int, number: int, processes: list[Process], footprint: Footprint
) -> WorkerResult:
    shown = [run.shown.holds(process.of(FetchSums)) for process in processes]
    sums = [one for records in shown for one in records]
    lives = [(rows, clock.end_of_life(process, rows)) for process, rows in zip(processes, shown, strict=True) if rows]
    alive = sum(clock.ns(min(one.begin for one in rows), end) for rows, end in lives) * _NS
    busy = sum(one.busy_ns for one in sums) * _NS
    whole = [max((one.process_cpu_ns for one in process.of(FetchSums)), default=0) for process in processes]
    held = [footprint.processes[process.pid] for process in processes if process.pid in footprint.processes]
    return WorkerResult(
        loader=loader,
        worker=number,
        pids=tuple(process.pid for process in processes),
        batches=sum(one.batches for one in sums),
        samples=sum(one.samples for one in sums),
        failed_batches=sum(one.failed for one in sums),
        busy_s=busy,
        cpu_s=sum(one.cpu_ns for one in sums) * _NS,
        core_wait_s=sum(one.core_wait_ns for one in sums) * _NS,
        busy_share=min(1.0, busy / alive) if alive else 0.0,
        gc_s=sum(one.gc.spent_ns for one in sums) * _NS,
        gc_collections=sum(one.gc.collections for one in sums),
        ended=all(process.moment("end") is not None for process in processes),
        process_cpu_s=sum(whole) * _NS if any(whole) else None,
        pss_bytes=_highest(one.pss_bytes for one in held),
        rss_bytes=_highest(one.rss_bytes for one in held),
        descriptors=_highest(one.descriptors for one in held),
        threads=_highest(one.threads for one in held),
        allowed_cores=tuple(sorted(frozenset().union(*(one.cores for one in held)))),
        cores=_worker_cores(clock, lives),
        **_over_time(clock, held),
    )


def _over_time(clock: LoopClock, held: Sequence[Held]) -> dict[str, Any]:
    """What changed from look to look. Of several processes, the one that was looked at most is the measure."""
    seen = max((one.over_time for one in held), key=lambda one: one.looks, default=OverTime())
    return {
        "growth_bytes_per_s": growth_bytes_per_s(seen.moments),
        "storage_bytes_per_s": storage_bytes_per_s(seen.moments, clock.s),
        "looks": sum(one.over_time.looks for one in held),
        "looks_asleep": sum(one.over_time.asleep for one in held),
        "looks_for_storage": sum(one.over_time.for_storage for one in held),
    }


def _worker_cores(clock: LoopClock, lives: Sequence[tuple[Sequence[FetchSums], int]]) -> float | None:
    """The cores that a worker keeps busy with all its threads, from the first line of each process to its end."""
    spans = [(lines, end) for lines, end in lives if len(lines) > 1 and lines[0].process_cpu_ns]
    # Batches are also made ahead while the clock stands still.
    wall = sum(max(clock.ns(lines[0].end, end), sum(one.busy_ns for one in lines[1:])) for lines, end in spans)
    return sum(lines[-1].process_cpu_ns - lines[0].process_cpu_ns for lines, _ in spans) / wall if wall else None


def script_cores(turns: Sequence[LoopSums]) -> float | None:
    """The cores that the script's own process keeps busy with all its threads, after the first line of each pass."""
    found = stretches(turns)
    wall = sum(one.wall_ns for one in found)
    return sum(one.cpu_ns for one in found) / wall if wall else None


def _highest(values: Iterable[int | None]) -> int | None:
    return max((one for one in values if one is not None), default=None)


def host(run: Run, loaders: Sequence[int], footprint: Footprint) -> HostUse:
    """What the whole run used, and the thread pools of the script and of the workers of these loaders."""
    script = next(iter(run.of_script()), Process([]))
    own = footprint.processes.get(script.pid, Held())
    inside = [one for one in run.processes if one.role == "worker" and one.loader in loaders]
    met = any(footprint.processes.get(one.pid, Held()).pss_bytes for one in inside)
    load = footprint.load if footprint.load is not None and footprint.load.wall_s else None
    if any(one.start_method == "forkserver" for one in loaders_found(run.processes).values()):
        load = None  # nobody waits for those workers, so their CPU time would be counted as that of others
    return HostUse(
        pss_bytes=footprint.pss_bytes if met or not inside else None,
        script_pss_bytes=own.pss_bytes,
        script_rss_bytes=own.rss_bytes,
        script_threads=own.threads,
        script_descriptors=own.descriptors,
        descriptor_limit=own.descriptor_limit,
        shared_memory_bytes=footprint.shared_bytes,
        shared_memory_before_bytes=footprint.shared_before_bytes,
        shared_memory_size_bytes=footprint.shared_size_bytes,
        sharing_strategy=script.threads.sharing,
        worker_native_threads=_highest(one.threads.native_threads for one in inside),
        pools=(*_pools("script", [script]), *_pools("workers", inside)),
        foreign_cores=load.foreign_s / load.wall_s if load else None,
        stolen_cores=load.steal_s / load.wall_s if load else None,
        own_cores=load.own_s / load.wall_s if load else None,
        machine_cores=footprint.machine_cores,
        free_bytes=footprint.free_bytes,
    )


def _pools(where: str, processes: Iterable[Process]) -> Iterable[ThreadPool]:
    """The thread pools of these processes. For each library, the process with the most threads counts."""
    most: dict[tuple[str, str], int] = {}
    for process in processes:
        for one in process.threads.pools:
            key = one.library, one.set_with
            most[key] = max(one.threads, most.get(key, 0))
    return [ThreadPool(where, name, threads, setter) for (name, setter), threads in sorted(most.items())]


def worker_threads(run: Run, loader: int) -> tuple[int, Sequence[ThreadPool]]:
    """How many threads ran at once in a worker of this loader, with its own, and the pools that allow more than one."""
    inside = run.workers_of(loader)
    native = _highest(one.threads.native_threads for one in inside) or 0
    return 1 + native, [one for one in _pools("workers", inside) if one.threads > 1]


def unexplained(threads: int, pools: Sequence[ThreadPool]) -> int:
    """How many of the threads that ran at once are more than these pools have, besides the thread that calls them."""
    if any(one.name == ARROW for one in pools):
        return 0
    return max(0, threads - 1 - sum(one.threads - 1 for one in pools))


def host_notes(run: Run, found: HostUse, loaders: Sequence[LoaderResult], usable_cores: float) -> Iterable[Note]:
    """Notes about what is close to a limit. Thread pools that never ran are not mentioned."""
    yield from _threads(run, loaders, usable_cores)
    used, whole = found.shared_memory_bytes, found.shared_memory_size_bytes
    if used is not None and whole and used >= _NEARLY * whole:
        yield Note("shared-memory-nearly-full", {"used_bytes": used, "size_bytes": whole})
    open_, limit = found.script_descriptors, found.descriptor_limit
    if open_ is not None and limit and open_ >= _NEARLY * limit:
        yield Note("descriptors-nearly-used-up", {"open": open_, "limit": limit})


def _threads(run: Run, loaders: Sequence[LoaderResult], usable_cores: float) -> Iterable[Note]:
    """Notes oversubscription: the threads that ran in one worker, times the workers, exceed the usable cores."""
    for loader in loaders:
        running, pools = worker_threads(run, loader.loader)
        if running > 1 and pools and loader.workers * running > usable_cores:
            named = ", ".join(f"{one.name} {one.threads} ({one.set_with})" for one in pools)
            threads = {"loader": loader.loader, "workers": loader.workers, "threads": running}
            more = {"unexplained": left} if (left := unexplained(running, pools)) else {}
            yield Note("oversubscribed", {**threads, **more, "usable_cores": usable_cores, "pools": named})


def busy_shares(found: Iterable[WorkerResult]) -> dict[int, float]:
    """The mean share of their time in which the workers of each loader make batches, without waits for a core.

    Workers that have no data are left out: the loop waits for the others.
    """
    shares: dict[int, list[float]] = {}
    for one in found:
        if one.batches and one.busy_s > 0:
            shares.setdefault(one.loader, []).append(one.busy_share * max(0.0, 1 - one.core_wait_s / one.busy_s))
    return {loader: min(1.0, fmean(each)) for loader, each in shares.items()}
