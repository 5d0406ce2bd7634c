"""The series of one program while it runs: a point for so many iterations, from the records of its processes."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pipebench.units import in_ms
from pipebench.watch.log.incoming import Incoming
from pipebench.watch.log.queue_fill import QueueFill
from pipebench.watch.log.sinks import Point
from pipebench.watch.log.worker_memory import WorkerMemory, present
from pipebench.watch.read.stalls import period_of
from pipebench.watch.read.together import sets_of, with_those_in_step
from pipebench.watch.record.lines import (
    FetchSums,
    Line,
    LoaderFound,
    LoadersTogether,
    LoopSums,
    NewStage,
    PassBegun,
    ProcessStarted,
)
from pipebench.watch.record.program_lines import RankFound
from pipebench.watch.record.record_file import WAIT

_NS = 1e-9
_STAGES = 32  # that get a series: the first whose share is large enough
_LEAST = 0.01  # of the time of a batch
_PASSES = 16  # of which the length is the mean
_WAITS = 128  # iterations in which stalls are looked for
_ENOUGH = 16


@dataclass
class _Sums:
    """What happened since the last point. Times are in nanoseconds, and without the first iteration of each pass.

    So are `turns`, but not `asked`: of loaders in step, the one whose passes are short is asked as often as the other.
    """

    asked: Counter[int] = field(default_factory=Counter)  # by loader
    turns: Counter[int] = field(default_factory=Counter)
    wait: Counter[int] = field(default_factory=Counter)
    rest: Counter[int] = field(default_factory=Counter)
    device_idle: Counter[int] = field(default_factory=Counter)
    device_waits: Counter[int] = field(default_factory=Counter)
    fetched: Counter[tuple[int, str]] = field(default_factory=Counter)  # by loader and "batches" or "busy"
    stages: Counter[tuple[int, str]] = field(default_factory=Counter)  # by loader and the stage's name


class Live:
    """Reads what a program's processes wrote since the last call, and makes points of it.

    The loop is that of the loaders that train and of those in step with them, as in a report; of all, while none has
    trained. Loops that only another thread iterates are left out, because their waits are not those of the training.
    `loader` limits it to one loader. `shown` gives the name of a stage as a sink may have it.
    """

    def __init__(
        self,
        folder: Path,
        shown: Callable[[str], str],
        loader: int | None = None,
        memory: Callable[[Collection[int]], dict[int, int]] = present,
    ) -> None:
        self._incoming = Incoming(folder)
        self._shown, self._only, self._present = shown, loader, memory
        self._wall_s = self._now_s = 0.0
        self._counted = self._before = 0  # iterations up to the last point, and those before the training
        self.rank: int | None = None
        self._workers: dict[str, ProcessStarted] = {}
        self._num_workers: dict[int, int] = {}  # by loader
        self._gone: set[str] = set()
        self._names: dict[str, dict[int, str]] = {}
        self._series: set[str] = set()
        self._training: set[int] = set()
        self._pairs: set[tuple[int, int]] = set()  # of loaders in step
        self._iterations: Counter[int] = Counter()
        self._made: Counter[tuple[int, str]] = Counter()  # "batches" and "samples" of each loader since the begin
        self._passes: dict[int, deque[int]] = {}
        self._waits: dict[int, deque[tuple[int, int]]] = {}  # by loader: the task and the wait, of neighbours
        self._queue = QueueFill()
        self._memory = WorkerMemory()
        self._sums = _Sums()

    def points(self, every: int) -> Iterator[Point]:
        """A point for each `every` iterations, or a few more: later in a run, a line holds several iterations."""
        for _ in self._new():
            if self._count(self._sums.turns) >= every:
                yield self._taken()

    def latest(self) -> Point | None:
        """A point for all iterations since the last one; None if there was none."""
        for _ in self._new():
            pass
        return self._taken() if self._count(self._sums.turns) else None

    def _new(self) -> Iterator[None]:
        """Takes in one line after the other."""
        self._wall_s = time.time() - time.perf_counter()  # each time: the records' clock stands still in a suspend
        self._look_at_workers()
        for came in self._incoming.new():
            if isinstance(came.line, LoopSums):
                self._now_s = came.end * _NS
                self._add_turns(came.line)
            elif isinstance(came.line, FetchSums):
                self._add_fetches(came.file, came.line)
            else:
                self._describe(came.file, came.line)
            yield

    def _describe(self, file: str, line: Line) -> None:
        if isinstance(line, NewStage):
            self._names.setdefault(file, {})[line.number] = self._shown(f"{line.stage.kind}.{line.stage.name}")
        elif isinstance(line, ProcessStarted) and line.role == "worker":
            self._workers[file] = line
        elif isinstance(line, PassBegun):
            self._passes.setdefault(line.loader, deque(maxlen=_PASSES)).append(line.begin)
        elif isinstance(line, LoaderFound):
            self._queue.found(line)
            self._num_workers[line.loader] = line.workers
        elif isinstance(line, LoadersTogether):
            self._pairs.add((line.first, line.second))
        elif isinstance(line, RankFound) and line.of > 1:
            self.rank = line.rank

    def _look_at_workers(self) -> None:
        """Notes the memory of the workers of the loop. Of one that is gone, the last lines may still come."""
        sizes = self._present([one.pid for one in self._workers.values()])
        for file in self._gone:
            del self._workers[file]
            self._names.pop(file, None)
        self._gone = {file for file, one in self._workers.items() if one.pid not in sizes}
        loop = self._in_loop()
        its = {one.pid: sizes[one.pid] for one in self._workers.values() if one.loader in loop and one.pid in sizes}
        if its:
            self._memory.note(time.perf_counter(), its)

    def _add_turns(self, line: LoopSums) -> None:
        if self._only not in (None, line.loader) or (line.beside and not line.trained):
            return
        if line.trained:
            self._training.add(line.loader)
        sums = self._sums
        self._iterations[line.loader] += line.turns
        sums.asked[line.loader] += line.turns
        if line.first_wait_ns is not None:  # such a line has the first iteration of a pass, and no other
            return
        sums.turns[line.loader] += line.turns
        sums.wait[line.loader] += line.phases_ns[WAIT]
        sums.rest[line.loader] += sum(line.phases_ns) - line.phases_ns[WAIT]
        if line.idle is not None:
            sums.device_idle[line.loader] += line.idle.idle_ns
            sums.device_waits[line.loader] += line.idle.waits
        if line.loader in self._in_loop():
            self._queue.arrived(line)
            waits = self._waits.setdefault(line.loader, deque(maxlen=_WAITS))
            for one in line.arrivals:
                if waits and one.task != waits[-1][0] + 1:
                    waits.clear()
                waits.append((one.task, one.taken - one.asked))

    def _add_fetches(self, file: str, line: FetchSums) -> None:
        fetched = self._sums.fetched
        self._made[line.loader, "batches"] += line.batches
        self._made[line.loader, "samples"] += line.samples
        fetched[line.loader, "batches"] += line.batches
        fetched[line.loader, "busy"] += line.busy_ns
        names = self._names.get(file, {})
        names |= {number: names[around] for number, around in line.left.items() if around in names}
        for number, spent in line.stages_ns.items():
            self._sums.stages[line.loader, names.get(number, f"stage.{number}")] += spent
        self._queue.made(line)

    def _in_loop(self) -> set[int]:
        return with_those_in_step(self._training, self._pairs, self._iterations) or set(self._iterations)

    def _count(self, turns: Counter[int]) -> int:
        """Iterations of the loop: those of loaders in step, as in `zip`, are the same ones."""
        return sum(max(turns[one] for one in its) for its in sets_of(self._in_loop(), self._pairs))

    def _taken(self) -> Point:
        sums, self._sums = self._sums, _Sums()
        count = self._count(self._iterations)
        if count < self._counted:  # training has begun: until now, the loops were those of an evaluation
            self._before += self._counted
        self._counted = count
        return Point(self._wall_s + self._now_s, self._before + count, dict(self._figures(sums)))

    def _figures(self, sums: _Sums) -> Iterator[tuple[str, float]]:
        loop = self._in_loop()
        times = {one: sums.asked[one] / sums.turns[one] for one in loop if sums.turns[one]}  # the firsts, too
        turns = self._count(Counter({one: sums.asked[one] for one in times}))
        wait_s, rest_s = (sum(its[one] * times[one] for one in times) * _NS / turns for its in (sums.wait, sums.rest))
        iteration_s = wait_s + rest_s
        yield "wait_share", wait_s / iteration_s if iteration_s else 0.0
        yield "wait_ms", in_ms(wait_s)
        yield "iteration_ms", in_ms(iteration_s)
        if waits := sum(sums.device_waits[one] for one in loop):
            yield "device_idle_ms", in_ms(sum(sums.device_idle[one] for one in loop) * _NS / waits)
        batches, busy = (sum(sums.fetched[one, of] for one in loop) for of in ("batches", "busy"))
        made = {one: self._made[one, "batches"] for one in times}
        if iteration_s:
            yield "iterations_per_s", 1 / iteration_s
        if iteration_s and all(made.values()):
            samples = sum(self._made[one, "samples"] / made[one] * sums.asked[one] for one in times)
            yield "samples_per_s", samples / turns / iteration_s
        if batches:
            yield "loading_ms", in_ms(busy * _NS / batches)
            yield from self._stages(sums, loop, batches, busy)
        yield from self._queue.series()
        yield from self._stalls(max(times, key=lambda one: sums.wait[one]))
        yield from self._memory.series(self._passes.get(min(loop), ()))

    def _stages(self, sums: _Sums, loop: set[int], batches: int, busy: int) -> Iterator[tuple[str, float]]:
        spent: Counter[str] = Counter()
        for (loader, name), ns in sums.stages.items():
            if loader in loop:
                spent[name] += ns
        for name, ns in spent.most_common():
            if name not in self._series and ns >= _LEAST * busy and len(self._series) < _STAGES:
                self._series.add(name)
            if name in self._series:
                yield f"stage_ms/{name}", in_ms(ns * _NS / batches)

    def _stalls(self, loader: int) -> Iterator[tuple[str, float]]:
        """Stalls at a regular distance. Workers that finish together look so at the distance of their number."""
        waits = self._waits.get(loader, ())
        if len(waits) >= _ENOUGH:
            found = period_of([wait for _, wait in waits])
            if found and found.period == self._num_workers.get(loader):
                found = None
            yield "stall_period_iterations", float(found.period) if found else 0.0
            yield "stall_share", found.share if found else 0.0
