"""Runs `--bound` in the script's process: finds the loop that trains, alternates its windows, then ends the process.

The script gets other batches than it asked for, so its weights are worth nothing. The process ends at once, and nothing
of the script runs on the way out: not the rest of the script, no `atexit` function, no `finally` block.

One of several ranks has the windows of all (`agreement`). If there are none, or if it fails, it trains on with live
batches until the steps of all are done, so that no rank waits in vain for one that left.
"""

from __future__ import annotations

import os
import sys
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from pipebench.host import machine
from pipebench.host.limits import SHARED_MEMORY, descriptors, free_bytes, free_memory
from pipebench.watch.bound import batches
from pipebench.watch.bound.agreement import Offer, Ranks, decided, together
from pipebench.watch.bound.alternation import Alternation, Means, Refused
from pipebench.watch.bound.live_batches import LiveSource
from pipebench.watch.bound.schedule import (
    BEGIN,
    BUSY,
    DEVICE,
    IDLE,
    LARGEST_WINDOW,
    LEAST_WINDOW,
    Schedule,
)
from pipebench.watch.record.bound_lines import BoundEnded, BoundPlan, Reason
from pipebench.watch.record.program_lines import RankFound
from pipebench.watch.record.recording import Recording
from pipebench.watch.script.made import length_of
from pipebench.watch.script.phases import LoopPhases
from pipebench.watch.script.ranks import present
from pipebench.watch.script.training_device import cuda_in_use

MEASURED, FAILED = 0, 1  # the exit statuses
# Times the last-level cache: a replayed window is at least this large, or this much is written before the replay.
_CACHE_FACTOR = 1.2
_MEMORY_SHARE = 0.9 / 2  # of free memory: a window's batches exist twice while they are copied
_DEVICE_SHARE = 0.25  # of a device's free memory
_ELSEWHERE = 3  # iterations in a row that train on another loader: the script has left the current pass
_DESCRIPTORS = 64  # file descriptors that are left for everything else

Plain = Callable[[Any], Any]
Recorded = Callable[[Any, Plain], Any]


class Bound:
    """Measures the bound of one script. `finish` writes the rest of the recording."""

    def __init__(self, recording: Recording, loop: LoopPhases, finish: Callable[[], None]) -> None:
        self.recording, self.loop, self.finish = recording, loop, finish
        self.steps = recording.settings.bound or 0
        self.number: int | None = None
        self.alternation: Alternation | None = None
        self.rank: RankFound | None = None  # known from the first window on
        self._ranks: Ranks | None = None
        self._ended = self._leaving = False
        self._loaders: weakref.WeakKeyDictionary[Any, Callable[[], Any]] = weakref.WeakKeyDictionary()
        self._given: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._script: Any = None  # the script's own iterator in the current pass
        self._source: LiveSource | None = None
        self._opening = False
        self._elsewhere = 0
        loop.on_transfer = self._transferred

    def _transferred(self, tensor: Any) -> None:
        if self.alternation is not None:
            self.alternation.transferred(tensor)

    def opened(self, iterator: Any, loader: Any) -> None:
        """Notes that the script is about to iterate `loader`. If the current pass is over this loader, it ends."""
        if self._opening:
            return
        if self._script is not None and self._loaders.get(self._script, _nothing)() is loader:
            self._end_pass()
        kept: Callable[[], Any] = weakref.ref(loader) if loader.persistent_workers else lambda: loader
        self._loaders[iterator] = kept
        self._given[iterator] = 0

    def _end_pass(self) -> None:
        if self.alternation is not None:
            self.alternation.interrupt()
        if self._source is not None:
            self._source.rest()
            self._given[self._script] = self._source.given
        self._source = self._script = None

    def batch(self, iterator: Any, plain: Plain, recorded: Recorded) -> Any:
        """What the script gets from `next(iterator)`. `recorded(iterator, draw)` draws for the loop's table."""
        if os.getpid() != self.recording.pid:
            return plain(iterator)
        if not self.recording.on and not self._ended:
            self._give_up(Reason("bound-no-records", {}))
        if not self._chosen(iterator):
            found = recorded(iterator, plain)
            self._given[iterator] = self._given.get(iterator, 0) + 1
            return found
        if self.alternation is None:
            return self._first(iterator, plain, recorded)
        return self._alternated(iterator, plain, recorded, self.alternation)

    def _chosen(self, iterator: Any) -> bool:
        """Whether this is the loader whose loop trains (or the one that --loader names)."""
        this = self.loop.passes.get(iterator)
        if this is None:
            return False
        wanted = self.recording.settings.loader
        if wanted is not None:
            self.number = wanted
        elif this.loader != self.number and this.trained:
            self._elsewhere += 1
            if self._script is None or self._elsewhere >= _ELSEWHERE:
                self.number = this.loader  # the first loader that trains, or one created again for this pass
        if this.loader != self.number:
            return False
        self._elsewhere = 0
        return True

    def _first(self, iterator: Any, plain: Plain, recorded: Recorded) -> Any:
        """One more batch as it comes. Its size decides how long the windows may be."""
        found = recorded(iterator, plain)
        given = self._given[iterator] = self._given.get(iterator, 0) + 1
        self._guarded(lambda: self._plan(iterator, found, given))
        this = self.loop.passes.get(iterator)
        if this is not None:
            self.loop.recorded(this)  # no phase has the wait for the other ranks
        return found

    def _alternated(self, iterator: Any, plain: Plain, recorded: Recorded, alternation: Alternation) -> Any:
        if not alternation.goes_on:
            self.loop.leave(iterator)
        self._guarded(alternation.close)
        alternation = self.alternation or alternation
        if alternation.done:
            self.leave(FAILED if self._ended else MEASURED)
        if self._script is not iterator or self._source is None:
            self._end_pass()
            self._source = self._attached(iterator, plain)
            self._script = iterator
        source = self._source
        try:
            return alternation.next(source, lambda draw: recorded(iterator, lambda _: draw()))
        except StopIteration:
            self._end_pass()
            return recorded(iterator, _exhausted)
        except Exception as error:
            if error is source.raised:
                raise  # it is the script's own
            self._failed(error)
        return self.batch(iterator, plain, recorded)

    def _attached(self, iterator: Any, plain: Plain) -> LiveSource:
        loader = self._loaders.get(iterator, _nothing)()

        def reopen() -> Any:
            self.loop.leave(iterator)
            self._opening = True
            try:
                return iter(loader)
            finally:
                self._opening = False

        given = self._given.get(iterator, 0)
        return LiveSource(iterator, plain, given, length_of(loader), None if loader is None else reopen)

    def _guarded(self, act: Callable[[], object]) -> None:
        """Runs `act`. If it fails, the run ends, because the script must not go on and save its weights."""
        try:
            act()
        except Exception as error:
            self._failed(error)

    def _failed(self, error: Exception) -> None:
        if isinstance(error, Refused):
            self._give_up(error.reason)
        else:
            self.recording.fault("measuring the bound", error)
            self._give_up(Reason("bound-fault", {}))

    def _give_up(self, problem: Reason) -> None:
        """Ends the run. One of several ranks goes on without windows, for as many steps as the others."""
        self.rank = self.rank or present()
        if self.rank is None:
            self.leave(FAILED, problem)
        self._end_measuring(problem)
        step, end = 0, self.steps
        if self.alternation is not None:
            step, end = self.alternation.step, self.alternation.schedule.end
        means = Means(time.perf_counter, _nothing, _nothing, 0.0)
        self.alternation = Alternation(Schedule(end, 0, LEAST_WINDOW, 0, ()), means, self.recording.write)
        self.alternation.step = step

    def _end_measuring(self, problem: Reason | None) -> None:
        if not self._ended:
            self._ended = True
            self.recording.write(BoundEnded(problem))

    def _plan(self, iterator: Any, batch: Any, given: int) -> None:
        self.rank = present()
        if self.rank is not None:
            since = self.recording.file.began * 1e-9
            self._ranks = together(self.recording.settings.shared, self.rank, since)
        one, workers = max(1, batches.nbytes(batch)), int(getattr(iterator, "_num_workers", 0))
        notes: list[Reason] = []
        budget = (free_memory() or 1 << 62) * _MEMORY_SHARE / self._of
        most, why, left = min(self._limits(iterator, batch, budget))
        replays = [IDLE, BUSY] if workers else [IDLE]
        cuda, device = cuda_in_use(), self.loop.device.index()
        if cuda is not None and device is None:
            notes.append(Reason("bound-no-device", {}))
        elif cuda is not None:
            room = int(cuda.mem_get_info(device)[0] * _DEVICE_SHARE) // one
            if room < LEAST_WINDOW:
                notes.append(Reason("bound-not-on-device", {}))
            else:
                most, replays = min(most, room), [*replays, DEVICE]
        if most < LARGEST_WINDOW and why != "":
            notes.append(Reason("bound-small-windows", {"batches": most, "limit": why, "left": left}))
        length = length_of(self._loaders.get(iterator, _nothing)())
        lead = max(1, min(workers, length // 4 if length else workers))
        begin = max(BEGIN, self.recording.settings.warmup)
        offer = Offer(given, one, most, why, left, lead, workers, replays)
        ranks = self._ranks
        schedule = ranks.agreed(offer, self.steps, begin) if ranks else decided([offer], self.steps, begin)
        if workers and schedule.window % workers:
            notes.append(Reason("bound-bursts", {"batches": schedule.window, "workers": workers}))
        swept = self._sweeper(one * schedule.window)
        pin = bool(getattr(iterator, "_pin_memory", False))
        finish, where = self.loop.device.synchronize, None if device is None else f"cuda:{device}"
        means = Means(time.perf_counter, finish, swept, budget, pin, where, _batch_size(self._loaders, iterator))
        self.recording.write(BoundPlan(
            loader=self.number, steps=self.steps, window=schedule.window, rounds=schedule.rounds, given=given,
            batch_bytes=one, last_level_cache_bytes=machine.last_level_cache_bytes(), swept=swept is not _nothing,
            notes=notes,
        ))  # fmt: skip
        self.alternation = Alternation(schedule, means, self.recording.write)

    @property
    def _of(self) -> int:
        """How many processes share the memory of the machine."""
        return 1 if self.rank is None else self.rank.of

    def _limits(self, iterator: Any, batch: Any, budget: float) -> Iterator[tuple[int, str, int]]:
        """The limits on the number of batches in a window, each with what is scarce, and how much of it is left."""
        one, workers = max(1, batches.nbytes(batch)), int(getattr(iterator, "_num_workers", 0))
        yield LARGEST_WINDOW, "", 0
        yield int(budget // one), "memory", int(budget * self._of / _MEMORY_SHARE)
        if workers and not getattr(iterator, "_pin_memory", False):  # batches stay in shared memory for a whole window
            flying = workers * (int(iterator._prefetch_factor) + 1)
            shared, files = free_bytes(SHARED_MEMORY), descriptors()
            if shared is not None:
                yield int(0.9 * shared / self._of // one) - flying, "shared memory", int(shared)
            if files is not None:
                tensors = max(1, sum(1 for _ in batches.leaves(batch)))
                yield (files - _DESCRIPTORS) // tensors - flying, "file descriptors", files

    def _sweeper(self, window_bytes: int) -> Callable[[int], None]:
        """A function that clears the last-level cache before a replay, so that no replayed batch is found there.

        It does nothing if a window's batches are larger than the cache, or if the size of the cache is unknown.
        """
        wanted = int(_CACHE_FACTOR * machine.last_level_cache_bytes())
        if not wanted or window_bytes >= wanted:
            return _nothing
        room: list[bytearray] = []

        def sweep(held: int) -> None:
            if held < wanted:
                room[:] = room or [bytearray(wanted)]
                torch: Any = sys.modules["torch"]
                torch.frombuffer(room[0], dtype=torch.uint8).add_(1)

        return sweep

    def rest(self) -> None:
        """Stops drawing, because the script has come to its own end."""
        self._end_pass()
        if self._ranks is not None and not self._leaving and os.getpid() == self.recording.pid:
            self._ranks.leaves()

    def leave(self, status: int, problem: Reason | None = None) -> NoReturn:
        """Ends the process at once. Its workers end first, so that they can write their records."""
        self._leaving = True
        self._end_measuring(problem)
        self._end_pass()
        for iterator in list(self.loop.passes):
            if (shutdown := getattr(iterator, "_shutdown_workers", None)) is not None:
                self.recording.guarded("ending workers", shutdown)
        self.recording.guarded("ending the recording", self.finish)
        if self._ranks is not None:
            self.recording.guarded("waiting for the other ranks", self._ranks.leave_together)
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                self.recording.guarded("flushing what the script printed", stream.flush)
        os._exit(status)


def _exhausted(iterator: Any) -> NoReturn:
    raise StopIteration


def _nothing(*_: object) -> None:
    pass


def _batch_size(loaders: Any, iterator: Any) -> int | None:
    return getattr(loaders.get(iterator, _nothing)(), "batch_size", None)
