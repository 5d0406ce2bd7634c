"""Looks where the thread of a training loop is, besides waiting and training: in which of the user's lines.

Between the passes, it looks where that thread is at all.

A thread of this process looks at random moments: now and then while `watch` watches, and often while `advise` does,
but not while changes are tried. What waits for something lets this thread run, so such places are seen as they are.
If a look comes late, the line that it finds has kept Python from other threads, as `gc.collect()` does. `threading`
does not know this thread, which ends before each fork of this process: see `forks`.
"""

from __future__ import annotations

import _thread
import contextlib
import itertools
import math
import os
import random
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from types import CodeType, FrameType
from typing import Any

from pipebench.watch.record.kernel_counts import OURS
from pipebench.watch.record.patches import unseen
from pipebench.watch.record.recording import Recording
from pipebench.watch.record.trial_lines import BETWEEN, NO_LOADER
from pipebench.watch.script.around_loop import AroundLoop
from pipebench.watch.script.awaiting import awaited, task_of
from pipebench.watch.script.busy_threads import BusyThreads
from pipebench.watch.script.compiling import compiles, graphs
from pipebench.watch.script.forks import pauses_at_forks
from pipebench.watch.script.full_collections import FullCollections
from pipebench.watch.script.helper_threads import at_work_for, makes_batch
from pipebench.watch.script.look_counts import MOST_PLACES, Key, Loop, OfLoader, PlaceCount, count_line
from pipebench.watch.script.look_keys import Look, in_forward, key_of, settle
from pipebench.watch.script.looked_lines import AfterLoops
from pipebench.watch.script.loop_place import Around, Place, loop_of, loops_around, note_last, taking
from pipebench.watch.script.own_line import OwnLine, innermost_line, line_of_sampler, own_line, works_apart
from pipebench.watch.script.own_python import placed
from pipebench.watch.script.switching import Switching
from pipebench.watch.script.thread_clock import ThreadClock
from pipebench.watch.script.unused_gradients import UnusedGradients

OFTEN_S = 0.01  # between two looks, on average
RARELY_S = 0.15  # a look takes 20 to 60 µs of the loop's time, and there are two at a time: below 0.1 %
_FIRST, _FIRST_S = 100, 0.03  # a short run needs some, too: what these take is 8 ms in all
# Until a look has met the model, nobody knows what comes before it. It may be a hundredth of an iteration, and code
# that keeps Python to itself lets each look wait for 5 ms. At most 60 ms in all.
_SEARCH, _SEARCH_S = 1_000, 0.002
# After a look, a second one tells whether the thread used a core in between: after a rare one, or in short iterations.
_AGAIN_S, _OF_ITERATION, _SOONEST_S = 0.005, 0.1, 0.0005
_LATE_NS = 20_000_000  # four times the interval after which Python lets another thread run
_WRITTEN_EACH_S = 1.0
_OF_THE_RUN = 20  # what is written later is not more often than each 20th part of the time so far
_BACKWARDS = 8  # of a loop without a loader, around which its loops are noted
_PATIENCE_S = 1.0


class LoopLooker:
    """Looks at the thread that takes batches. `came` is called by it for each batch, and `left` at a pass's end.

    `trains` says of a loader whether its loop has trained so far. `early` says whether it has, and has not come to the
    backward of its present iteration yet. `on_host`: whether the script has trained, and on no device.
    """

    def __init__(self, recording: Recording, each_s: float) -> None:
        self.recording, self.each_s = recording, each_s
        self.before_first: Callable[[], None] = lambda: None  # called when the first loop begins
        self.early: Callable[[int], bool] = lambda loader: False
        self.trains: Callable[[int], bool] = lambda loader: False
        self.on_host: Callable[[], bool] = lambda: False
        self.gradients = UnusedGradients()
        self.again: dict[Key, PlaceCount] = {}  # what met a model after a backward; a further backward empties it
        self._switching = Switching()
        self.others, self.collected = BusyThreads(recording, self._switching), FullCollections()
        self._loop: Loop | None = None
        self._rest, self._around = AfterLoops(), AroundLoop()
        self._of_backward: set[tuple[CodeType, range | None]] = set()
        self._backwards = self._turn = self._process = self._graphs = 0
        self._came, self._turn_s = 0.0, math.inf  # when the last iteration began, and how long it took
        self._thread: int | None = None
        self._clock: ThreadClock | None = None
        self._stop, self._gone = _thread.allocate_lock(), _thread.allocate_lock()
        self._on = self._runs = False
        self._of: dict[int, OfLoader] = {}
        self._before: tuple[Key, int, int, int] | None = None
        # of the present look, if it is before a backward: where Python is at work, and the innermost line
        self._lines: tuple[OwnLine | None, OwnLine | None] = None, None
        self._apart = False  # whether it did besides the model, in a loop that has not trained
        self._looks = self._searched = 0  # so far, by the threads before each fork, too
        self._due = self._used = 0  # of the next look: its moment, and what the loop's thread needs until then at most
        self._began = time.monotonic()
        self._written = self._began + _WRITTEN_EACH_S
        recording.before_stop.append(self._write_last)

    @unseen
    def next(self, plain: Callable[[Any], Any], iterator: Any, number: Callable[[Any], int | None]) -> Any:
        """`plain(iterator)`, noted. Called by what torch's `next` was replaced with; `number` says of which loader."""
        if not self.recording.on:
            return plain(iterator)
        try:
            self.came(number(iterator), sys._getframe())
        except Exception as error:
            self._fault(error)
        try:
            return plain(iterator)
        except BaseException:
            try:
                self.left(sys._getframe())
            except Exception as error:
                self._fault(error)
            raise

    def came(self, loader: int | None, frame: FrameType | None) -> None:
        """Notes that the loop asks for a batch. `frame` is that of the caller of torch's iterator, or ours in it."""
        if loader is not None and self._is_followed():
            self._ended(loader)
            self._turns(loader, taking(frame))

    def stepped(self, loader: int) -> None:
        """Notes that an iteration of a loop without a loader ends. The caller is inside its optimiser's step."""
        if self._is_followed():
            frame = sys._getframe(1)
            loops = list(loops_around(frame))
            trains = (at for at, one in enumerate(loops) if (one.frame.f_code, one.inside) in self._of_backward)
            loops = loops[next(trains, 0) :]
            self._ended(loader, loops)
            self._turns(loader, loops[0] if loops else None)
            if loops and (own := self._of.get(loader)) is not None:
                note_last(own.trained, frame, loops[0].frame)

    def at_backward(self) -> None:
        """Notes which loops a backward is in: a step may be in one of its own, as over several optimisers."""
        if self._backwards < _BACKWARDS and self._is_followed():
            self._backwards += 1
            self._of_backward |= {(one.frame.f_code, one.inside) for one in loops_around(sys._getframe(1))}
        if self._around.looks and self._is_followed():
            self._around.backward(sys._getframe(1))

    def left(self, frame: FrameType | None) -> None:
        """Notes that the pass is over: what comes now is in the loop around it, if there is one. See `came`."""
        if self._thread == threading.get_ident():
            around = itertools.islice(loops_around(loop_of(frame)), 1, None)  # the first is that of the pass
            self._turns(BETWEEN, next(around, None))

    def _is_followed(self) -> bool:
        """Whether this is the main thread: the account, which looks divide, is of that one."""
        if self._thread is None and threading.current_thread() is threading.main_thread():
            self._begin()
        return self._thread == threading.get_ident()

    def _turns(self, loader: int, loop: Around | None) -> None:
        """Notes that an iteration of this loop begins."""
        if not self._runs:
            self.go_on()
        if (now := time.monotonic()) >= self._written:
            self.write()
        self._turn, self._came, self._turn_s = self._turn + 1, now, now - self._came
        self.collected.loader = loader
        self._rest.begins(loader == BETWEEN)
        if self.again and self._loop is not None:  # the iteration that ends has no further backward
            self._of[self._loop.loader].include(self.again)
            self.again.clear()
        if loop is None:
            self._loop = None
            return
        own = self._of.get(loader)
        if own is None:
            own = self._of[loader] = OfLoader(loop.frame.f_code.co_filename)
        own.turns += 1
        own.frozen.turns += 1
        code = loop.frame.f_code
        task = task_of(code) if loader == NO_LOADER else None
        self._loop = Loop(loader, self._turn, id(loop.frame), code, loop.inside, task)

    def _ended(self, loader: int, loops: Sequence[Around] = ()) -> None:
        """Counts what was found around a loop without a loader, the first of these `loops`, if its iteration ends."""
        same = self._around.begins(loops)
        if loops[1:] and BETWEEN not in self._of:
            self._of[BETWEEN] = OfLoader(loops[1].frame.f_code.co_filename)
        if same and self._around.looks and (own := self._of.get(loader)) is not None:
            self._around.give(own, self._of[BETWEEN])
        self._around.drop()

    def write(self, last: bool = False) -> None:
        """Writes what was seen since the last time. `last`: no more comes."""
        self._written = (now := time.monotonic()) + max(_WRITTEN_EACH_S, (now - self._began) / _OF_THE_RUN)
        found = {loader: own for loader, own in self._of.items() if own.turns}
        for loader, own in found.items():
            self._of[loader] = own.emptied(last=last or self._searched >= _SEARCH)
        compiled = graphs() - self._graphs
        for loader, own in found.items():
            modules = own.frozen.found(self.gradients, loader)
            self.recording.write(own.written(loader, modules, self.collected.take(loader), self.on_host(), compiled))
        self.others.write()

    def end(self) -> None:
        """Ends the looks, writes what is left of them, and lets go of all that was seen."""
        self._on = False
        self.pause()
        if self.recording.on:
            self._write_last()
            self._rest.write(self.recording)
        for held in (self._of, self.again, self._of_backward):  # code of the script: see `per_code`
            held.clear()
        self._loop, self._before, self._around, self._rest = None, None, AroundLoop(), AfterLoops()

    def _write_last(self) -> None:
        for own in list(self._of.values()):
            settle(own)
        self.write(last=True)

    def pause(self) -> None:
        """Ends the thread. `go_on` starts it again."""
        if self._runs:
            self._runs = False
            self._stop.release()
            self._gone.acquire(timeout=_PATIENCE_S)  # no other thread asks for it, and the next one has its own

    def go_on(self) -> None:
        if self._on and not self._runs and self.recording.on and self._process == os.getpid():
            self._stop, self._gone = _thread.allocate_lock(), _thread.allocate_lock()
            self._stop.acquire()
            self._gone.acquire()
            _thread.start_new_thread(self._look_on, (self._stop, self._gone))
            self._runs = True

    def _begin(self) -> None:
        self._thread, self._process, self._on = threading.get_ident(), os.getpid(), True
        self._clock, self._graphs = ThreadClock(), graphs()
        self.before_first()
        self.others.follow(self._thread, self._clock.native)
        pauses_at_forks(self)

    def _look_on(self, stop: Any, gone: Any) -> None:
        native = threading.get_native_id()
        OURS.add(native)
        self._around.passes()
        try:
            chance, due = random.Random(), 0.0
            while self.recording.on:
                each_s = min(self.each_s, _FIRST_S) if self._looks < _FIRST else self.each_s
                searches = self._searched < _SEARCH and any(one.sought for one in list(self._of.values()))
                if self._waits(stop, (_SEARCH_S if searches else each_s) * (0.5 + chance.random())):
                    return
                again = searches and time.monotonic() < due  # no more often than others, or its time would weigh more
                self._look(again=again)
                due = due if again else time.monotonic() + each_s * (0.5 + chance.random())
                self._looks, self._searched = self._looks + (not searches), self._searched + searches
                if (self.each_s > OFTEN_S or self._turn_s < 2 * OFTEN_S) and not searches:
                    if self._waits(stop, max(_SOONEST_S, min(_AGAIN_S, _OF_ITERATION * self._turn_s))):
                        return
                    self._look(again=True)
        except Exception as error:
            self._fault(error)
        finally:
            self._switching.back()
            OURS.discard(native)
            gone.release()

    def _waits(self, stop: Any, seconds: float) -> bool:
        """Waits for the next look. True: there is none, because looks are to end."""
        self._due = self._used = 0
        with contextlib.suppress(OSError):  # the thread has ended
            self._used = (self._clock.needed_ns() if self._clock is not None else 0) + int(seconds * 1e9)
            self._due = time.perf_counter_ns() + int(seconds * 1e9)
        (self._switching.back if self.others.met else self._switching.soon)()
        self.others.sleeps(seconds)
        ends = bool(stop.acquire(timeout=seconds))
        self._switching.back()  # else the thread could go on while a look goes through its frames
        self.others.wakes()
        return ends

    def _fault(self, error: Exception) -> None:
        self._on = False
        self.recording.fault("looking at the loop", error)

    def _look(self, again: bool = False) -> None:
        """Looks once. A second look right after the first is not counted: it only tells what happened between them."""
        inner, thread = self._loop, self._thread
        frames = sys._current_frames()
        frame = frames.get(thread or 0)
        passed_ns = self._around.passes(again)
        if inner is not None and compiles(frame):
            self._note_compiling(inner, 0 if again else passed_ns)
            self.others.look(None, frames)
            return
        loop, place = self._found(inner, frame)
        if not again:
            self._rest.note(frame)
            self._elsewhere(loop, place, frames)
        early = loop is not None and place is not None and not again and self._forward(loop, place)
        self._lines = None, None
        if loop is not None and early:
            self._lines = own_line(frame, loop.frame, loop.inside), innermost_line(frame, loop.frame)
        self._apart = loop is not None and self._works_apart(loop, place, frame)
        iterated = loop.loader if loop is not None and loop.loader != BETWEEN else None
        self.others.look(iterated, frames)
        del frame, frames  # else this thread would free what is local there, if that returns while another one runs
        own = self._of.get(loop.loader) if loop is not None else None
        key = self._key(loop, own, place, again) if loop is not None and own is not None and place is not None else None
        if loop is None or inner is None or own is None or key is None or place is None:
            self._before = None
        elif loop.loader == inner.loader:
            later = place.models and not key.early and loop.loader != BETWEEN
            found = self.again if later else own.waiting if key.way else own.found
            if self._count(found, loop, key, again, place.models) and not again:
                own.count_inner(key, place.path)
        elif self._count(self._around.found, loop, key, again) and not again:
            self._around.count(passed_ns)

    def _note_compiling(self, loop: Loop, passed_ns: int) -> None:
        self._before = None
        if passed_ns and (own := self._of.get(loop.loader)) is not None:
            own.compiling.note(passed_ns, loop.turn, self.early(loop.loader))

    def _count(self, found: dict[Key, PlaceCount], loop: Loop, key: Key, again: bool, models: bool = False) -> bool:
        """Counts a look at this place, if there is room for it. `models`: it met a model there."""
        now = cpu = -1
        if self._clock is not None:
            with contextlib.suppress(OSError):  # the thread has ended since
                cpu, now = self._clock.needed_ns(), time.perf_counter_ns()
        if self._clock is None or now < 0 or (len(found) >= MOST_PLACES and key not in found):
            self._before = None
            return False
        before, self._before = self._before, (began := key.begin(), loop.turn, now, cpu)
        same = before is not None and before[:2] == (began, loop.turn)
        if again and not same:
            return False
        one = found.setdefault(key, PlaceCount())
        if not again:
            one.looks += 1
            one.models += models
            one.turns += one.last != loop.turn
            one.last = loop.turn
        if not self._clock.known:
            return True
        if self._due and (late := now - self._due) > _LATE_NS:
            one.ns += late
            one.cpu_ns += late if self._clock.is_ready() else max(0, cpu - self._used)  # if it needed one before
        elif before is not None and same:
            one.ns += now - before[2]
            one.cpu_ns += now - before[2] if self._clock.is_ready() else cpu - before[3]
        return True

    def _forward(self, loop: Loop, place: Place) -> bool:
        own = self._of.get(loop.loader)
        again = own is not None and self.trains(loop.loader) and in_forward(own, loop, place)
        return again or self.early(loop.loader)

    def _key(self, loop: Loop, own: OfLoader, place: Place, again: bool) -> Key | None:
        """Where a look is counted. Those that waited for the model are counted as soon as it is known."""
        searches = self._searched < _SEARCH
        look = Look(self._forward(loop, place), self.trains(loop.loader), again, self._apart, self._lines, searches)
        key = key_of(own, loop, place, look)
        if own.waiting and (own.model or not searches):
            settle(own)
        return key

    def _found(self, inner: Loop | None, frame: FrameType | None) -> tuple[Loop | None, Place | None]:
        """The loop that the thread is in, and where. Of one without a loader, that may be a loop around it."""
        if inner is None or frame is None:
            return inner, None
        bare = inner.loader == NO_LOADER and self.early(inner.loader)
        place = placed(frame, inner.frame, inner.inside, bare)
        if place is not None and place.path[0][0] is inner.code:
            return inner, place
        if bare and (waits := awaited(inner, frame)) is not None:
            return inner, waits
        if (again := self._around.again(frame)) is not None:
            return inner._replace(frame=again), placed(frame, again, inner.inside, bare)
        outer = self._around.at(frame) if self.early(inner.loader) else None
        return (inner, None) if outer is None else (Loop(BETWEEN, inner.turn, *outer[0]), outer[1])

    def _elsewhere(self, loop: Loop | None, place: Place | None, frames: Mapping[int, FrameType]) -> None:
        """Counts a look that met a model: in which of its modules, if that is in forward.

        Or one that met a sampler, or a wait for threads that help to make a batch.
        """
        own, thread = self._of.get(loop.loader) if loop is not None else None, self._thread or 0
        frame = frames.get(thread)
        if loop is None or own is None:
            return
        if place is None:
            count_line(own.drawn, line_of_sampler(frame))
            if makes_batch(frame):
                own.note_helpers(at_work_for(thread, frames))
        elif not self._forward(loop, place):
            own.note_later(place, frame, loop.frame, self.trains(loop.loader))
        elif place.models:
            own.note_model(place, frame, loop.frame, self.gradients)

    def _works_apart(self, loop: Loop, place: Place | None, frame: FrameType | None) -> bool:
        own = self._of.get(loop.loader)
        if own is None or place is None or place.trains or loop.loader == BETWEEN or self.trains(loop.loader):
            return False
        return place.python or works_apart(frame, loop.frame, loop.inside, own.calling)
