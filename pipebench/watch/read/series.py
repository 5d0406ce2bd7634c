"""The series of a run: waits, times of samples, and memory of workers over time. Short, whatever its length. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from pipebench.results.over_time import MemoryPoint, OverTime, TimesPoint, WorkerMemory
from pipebench.watch.launch.footprint import Footprint
from pipebench.watch.read.gather import Process, Run, added, percentile
from pipebench.watch.read.stalls import waits_of
from pipebench.watch.record.lines import Buckets

_NS = 1e-9
_POINTS = 60
_WAITS = 240  # iterations
_WORKERS = 8
_MOMENTS = 120  # of the memory of a worker
_MOST_WORKERS = 64  # of which each stage is kept by worker
Timed = tuple[int, Buckets]
"""A moment in nanoseconds, and durations around it."""


def over_time(run: Run, in_loop: Sequence[int], first: int, footprint: Footprint) -> OverTime:
    """The series of the loaders of the loop. `first` is how many waits of a pass belong to its start-up."""
    began = min((one.started.at for one in run.of_script()), default=0)
    turns = [one for loader in in_loop for one in run.turns(loader)]
    sums = [one for loader in in_loop for _, one in run.sums(loader)]
    waits = waits_of(run, in_loop[0], first)[:_WAITS] if in_loop else []
    return OverTime(
        waits_s=tuple(one * _NS for one in waits),
        waits=points([(one.begin + sum(one.phases_ns) // 2, one.waits) for one in turns], began),
        samples=points([((one.begin + one.end) // 2, one.lengths) for one in sums], began),
        memory=tuple(_memory(run.processes, in_loop, footprint, began)),
    )


def points(lines: Sequence[Timed], began: int) -> tuple[TimesPoint, ...]:
    """At most `_POINTS` points: the percentiles in equal parts of the time from the first line to the last.

    Parts without a duration are left out.
    """
    found = [line for line in lines if line[1]]
    if not found:
        return ()
    begin, end = min(at for at, _ in found), max(at for at, _ in found)
    width = max(1, -(-(end - begin + 1) // _POINTS))
    parts: dict[int, list[Buckets]] = {}
    for at, lengths in found:
        parts.setdefault((at - begin) // width, []).append(lengths)
    return tuple(
        _point((begin - began + (part + 0.5) * width) * _NS, added(lengths)) for part, lengths in sorted(parts.items())
    )


def _point(at_s: float, lengths: Buckets) -> TimesPoint:
    half, most, longest = (percentile(lengths, share) or 0.0 for share in (0.5, 0.95, 1.0))
    return TimesPoint(at_s, half, most, longest, sum(lengths.values()))


def _memory(
    processes: Sequence[Process], in_loop: Sequence[int], footprint: Footprint, began: int
) -> Iterable[WorkerMemory]:
    """The workers with most memory, in their order. Workers of several passes with the same number count as one."""
    found: dict[tuple[int, int], list[MemoryPoint]] = {}
    for process in processes:
        loader, worker, held = process.loader, process.worker, footprint.processes.get(process.pid)
        if process.role != "worker" or loader not in in_loop or worker is None or held is None or loader is None:
            continue
        seen = [MemoryPoint(one.s - began * _NS, one.own_bytes) for one in held.over_time.moments]
        found.setdefault((loader, worker), []).extend(seen)
    found = {place: sorted(seen) for place, seen in found.items() if len(seen) > 1}
    largest = sorted(found, key=lambda place: (-max(one.own_bytes for one in found[place]), place))[:_WORKERS]
    yield from (WorkerMemory(loader, worker, _highest(found[loader, worker])) for loader, worker in sorted(largest))


def _highest(seen: Sequence[MemoryPoint]) -> tuple[MemoryPoint, ...]:
    """At most `_MOMENTS` of them: of neighbours, the highest."""
    step = -(-len(seen) // _MOMENTS)
    return tuple(max(seen[at : at + step], key=lambda one: one.own_bytes) for at in range(0, len(seen), step))


def by_worker(
    processes: Sequence[Process], loader: int, samples: Mapping[int, int]
) -> Callable[[Mapping[int, float]], tuple[float, ...]]:
    """Turns seconds by process into seconds a sample by worker, in the order of the workers' numbers.

    `samples` are those of each process. Workers of several passes with the same number count as one. There are no
    figures for work that no worker's own thread did, and none with more than 64 workers.
    """
    numbers = {one.pid: one.worker for one in processes if one.role == "worker" and one.loader == loader}
    workers = sorted({number for number in numbers.values() if number is not None})

    def of(found: Mapping[int, float]) -> dict[int, float]:
        total = dict.fromkeys(workers, 0.0)
        for pid, value in found.items():
            if (number := numbers.get(pid)) is not None:
                total[number] += value
        return total

    made = of(samples)

    def each(row: Mapping[int, float]) -> tuple[float, ...]:
        if len(workers) > _MOST_WORKERS or not any(pid in numbers for pid in row):
            return ()
        return tuple(spent / made[number] if made[number] else 0.0 for number, spent in of(row).items())

    return each
