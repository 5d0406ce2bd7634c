"""Measures the phases of a training loop without touching the model.

`next()` on a loader's iterator is the wait. `backward` and the optimiser's step are wrapped. The event that ends any
other piece of time names it: before a backward it is forward, before anything else it is other (callbacks, logging,
gradient clipping). Modules get no hooks, because `torch.compile` reacts to them.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from operator import attrgetter
from threading import get_ident
from time import perf_counter_ns
from typing import Any, Literal

from pipebench.watch.record.lines import (
    LoadersTogether,
    Moment,
)
from pipebench.watch.record.record_file import AFTER, FORWARD, OTHER, SPANS, WAIT
from pipebench.watch.record.recording import Recording
from pipebench.watch.script.arrivals import Arrivals
from pipebench.watch.script.line_counts import LinesOfLoops, Part
from pipebench.watch.script.main_thread import MainThread
from pipebench.watch.script.own_steps import OwnTime
from pipebench.watch.script.passes import Pass
from pipebench.watch.script.training_device import TrainingDevice
from pipebench.watch.script.unused_gradients import UnusedGradients

_LOGGED = 8192  # of one iteration, which is as long as the script takes to ask for the next batch


class _Thread:
    """The state of one thread: its open passes (the innermost last), and the moment up to which its time is assigned.

    `main` says that it is the one of the account. `unnamed` is the time, in nanoseconds, that its next event will name.
    """

    def __init__(self, main: bool) -> None:
        self.main = main
        self.open: list[Pass] = []
        self.mark = 0
        self.unnamed = 0
        self.whole: Any = None  # the pipeline around a loader, while `next()` of that pipeline runs
        self.bare: Pass | None = None  # the loop without a loader
        self.spans: list[str] = []
        self.backward = False  # inside one: torch then records no gradients, and it is training all the same
        self.constructing: list[tuple[int, str]] = []  # the loaders whose iterators are made: number and start method

    def innermost(self) -> Pass | None:
        """The innermost open pass. One that ended when another thread freed its iterator is open no more."""
        while self.open and self.open[-1].over:
            self.open.pop()
        return self.open[-1] if self.open else None

    def working(self) -> bool:
        """Whether this thread is in a loop, and not in its `next()`."""
        this = self.innermost()
        return this is not None and not this.waiting


class _Threads(threading.local):
    """The state of each thread that asks for it. `main` is the number of the account's thread."""

    def __init__(self, main: int) -> None:
        self.here = _Thread(get_ident() == main)


class LoopPhases:
    """The state of all loops of one process. `here` is that of the thread which asks for it."""

    # What a `threading.local` itself holds takes eight times as long to read, and a function of ours would as well.
    here: _Thread = property(attrgetter("_threads.here"))  # type: ignore[assignment]

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self._threads = _Threads(get_ident())
        self.passes: weakref.WeakKeyDictionary[Any, Pass] = weakref.WeakKeyDictionary()
        self.completed = 0
        self.arrivals = Arrivals()
        self.account = MainThread(recording)
        self.device = TrainingDevice()
        self.gradients = UnusedGradients()
        self.line_counts = LinesOfLoops(recording)
        self.own: OwnTime | None = None  # set on a rank
        self.on_transfer: Callable[[Any], object] | None = None  # hears of each tensor that is copied to a CUDA device
        self.trains: set[int] = set()  # loaders whose loop came to a backward
        self.without_loader: Callable[[int], object] = lambda number: None  # called in each turn of such a loop
        self.at_backward: Callable[[], object] = lambda: None  # called before each backward of such a loop
        self.again: dict[Any, Any] = {}  # looks at the present iteration that only count if no other backward comes
        self._together: set[tuple[int, int]] = set()

    def spend(self, phase: int, unnamed: int = OTHER) -> Pass | None:
        """Adds the time since this thread's last event to `phase`, and the time that `defer` kept to `unnamed`.

        Forward and other are what nothing else names: inside a span, they are the span's. `ends_wait` divides a wait.
        Returns the innermost pass.
        """
        here = self.here
        now = perf_counter_ns()
        spent = now - here.mark
        if here.spans and phase in (FORWARD, OTHER):
            phase = SPANS
        top = here.innermost()
        if not here.main:
            self.account.beside(spent if top is not None else 0)
        elif phase != WAIT:
            self.account.phase(None if top is None else top.place, phase, now, unnamed if here.unnamed else None)
        if top is not None:
            top.phases[phase] += spent
            top.phases[unnamed] += here.unnamed
            if phase == SPANS:
                top.spans[here.spans[-1]] = top.spans.get(here.spans[-1], 0) + spent
            if len(top.log) < _LOGGED:
                top.log += (here.mark, now, phase)
        if self.own is not None and here.main:
            self.own.spent(None if top is None else top.loader, phase, spent, unnamed, here.unnamed)
        here.mark = now
        here.unnamed = 0
        return top

    def spend_only(self, phase: int) -> None:
        """Adds the time since this thread's last event to `phase`. What `defer` kept still waits for its name."""
        here = self.here
        unnamed, here.unnamed = here.unnamed, 0
        self.spend(phase)
        here.unnamed = unnamed

    def defer(self) -> None:
        """Keeps the time since the last event without a name, until the next event names it. A span's has its name."""
        here = self.here
        if here.spans:
            self.spend_only(SPANS)
            return
        now = perf_counter_ns()
        here.unnamed += now - here.mark
        here.mark = now
        if here.main:
            self.account.keep(now)

    def name(self, phase: int) -> None:
        """What `defer` has kept was `phase`. The time since then has no name yet."""
        here = self.here
        top = here.innermost()
        if here.main:
            self.account.name(None if top is None else top.place, phase)
        if top is not None:
            top.phases[phase] += here.unnamed
        if self.own is not None and here.main:
            self.own.spent(None if top is None else top.loader, phase, here.unnamed)
        here.unnamed = 0

    def iterated(self, loader: int, length: int | None) -> bool:
        """Whether an iterator of this loader has neither come to its end nor given `length` batches (None: unknown)."""
        passes = [one for one in list(self.passes.values()) if one.loader == loader and not one.over]
        return any(length is None or one.turn + (one.began is not None) < length for one in passes)

    def early(self, loader: int) -> bool:
        """Whether a loop trains, and its present iteration has not come to a backward yet. Another thread may ask."""
        present = [one for one in list(self.passes.values()) if one.loader == loader and one.began is not None]
        return loader in self.trains and bool(present) and not any(one.trained for one in present)

    def end_bare(self) -> None:
        """Ends this thread's loop without a loader, because a loader is iterated."""
        bare, self.here.bare = self.here.bare, None
        if bare is not None and bare in self.here.open:
            self.spend(OTHER)
            self._left(bare)

    def before_next(self, iterator: Any) -> None:
        here = self.here
        top = self.spend(OTHER)
        this = self.passes.get(iterator)
        if this is None:
            return
        if top is not None and top is not this:
            top.device.elsewhere()
        if this in here.open:
            while here.open[-1] is not this:
                here.open.pop().suspended = True
        else:
            self.end_bare()
            if this.suspended and here.open:
                self._in_step(here.open[-1].loader, this.loader)
            here.open.append(this)
        if this.trained:
            self.trains.add(this.loader)
        this.close(here.mark)
        self.count(this)
        this.began = here.mark
        this.beside = not here.main
        this.suspended = this.over = False  # a script may go on after a `next()` that failed
        this.waiting = True
        if not this.beside or this.loader in self.trains:
            this.device.begin()
        self.arrivals.parts.begin()
        self.count_lines(this, "wait", model=False)

    def _in_step(self, first: int, second: int) -> None:
        """Writes once that these two loaders are iterated in step."""
        if (first, second) not in self._together:
            self._together.add((first, second))
            self.recording.write(LoadersTogether(first, second))

    def count(self, this: Pass) -> None:
        """Counts an iteration. Ends the warm-up and the recording after the numbers of iterations in the settings."""
        settings = self.recording.settings
        if this.began is None or this.silent or settings.loader not in (None, this.loader):
            return
        self.completed += 1
        if self.completed == settings.warmup:
            self.recording.write(Moment("warm", self.here.mark))
        if settings.steps is not None and self.completed == settings.warmup + settings.steps:
            self.finish()
            if self.here.main:
                self.account.stops()
            self.recording.stop()

    def after_next(self, iterator: Any, event: Literal["exhausted", "failed"] | None, after_ns: int = 0) -> None:
        """Ends the wait, of which stages after the loader took `after_ns`.

        `event` is None if a batch came, else what happened instead: "exhausted" or "failed".
        """
        here = self.here
        waited = self.arrivals.parts.take()
        waited[AFTER] += after_ns
        self.spend(WAIT)
        this = self.passes.get(iterator)
        if this is None:
            return
        this.waiting = False
        this.waited = waited
        self.ends_wait(this, waited, last=event is not None)
        this.device.end(here.mark, this.turn, counts=event is None and this.turn > 0)
        this.arrived = None
        if event is None:
            this.arrived = self.arrivals.taken(iterator, this.number, this.began or 0, here.mark)
        if event:
            this.finish(event)
            this.began = None
            if this in here.open:
                here.open.remove(this)
        self.recorded(this)
        self.count_lines(this, None if event else "before", model=True)

    def count_lines(self, this: Pass, part: Part | None, model: bool) -> None:
        """Counts lines of the user's own in the part of an iteration that begins now, if it is time.

        `model`: in that part, the model may run. None: the loop has ended.
        """
        here, counts = self.here, self.line_counts
        if counts.counter.begun or counts.looking is not None:
            counts.stop()
        if part and here.main and here.mark >= counts.asked_ns and self.recording.on:
            self.recording.guarded("counting lines", counts.begin, this.loader, part, this.turn, here.mark, model)

    def ends_wait(self, this: Pass, parts: list[int], last: bool) -> None:
        """The time since the event before the last one was a wait, with these parts. `last`: the pass has ended."""
        here = self.here
        if not here.main:
            return
        if this.turn and not last:
            self.account.wait(this.place, here.mark, parts)
            return
        (self.account.ended if last else self.account.started)(this.place, here.mark, parts)
        if self.own is not None:
            self.own.at_an_end()

    def recorded(self, this: Pass) -> None:
        """Writes what is due. The time since the last event was ours: it is in the account, and in no phase."""
        if this.due:
            this.write()
        if self.here.main:
            self.account.write_if_due()
        self.looked(this)

    def looked(self, this: Pass) -> None:
        """The time since the last event was ours, as in `recorded`."""
        here = self.here
        here.mark = now = perf_counter_ns()
        if here.main:
            self.account.recorded(this.place, now)

    def write_own(self) -> None:
        """Writes a rank's steps up to now. It follows the line of their iterations, so a kill loses both or neither."""
        if self.own is not None and self.here.main:
            self.own.write()

    def loader_opens(self, again: Any = None) -> None:
        """Notes that an iterator is about to be constructed, or that `again` is reset. Until now, other things ran.

        If a loop over `again` is still open, it was left by `break`, and what ran is outside it. Inside a larger
        pipeline, the wait for that pipeline has already begun.
        """
        self.line_counts.stop()  # workers may be forked now
        if self.here.whole is None:
            self.end_bare()
            if again in self.passes:
                self._left(self.passes[again])
            self.spend(OTHER)
            self.arrivals.parts.begin()
        self.loop_begins()

    def loop_begins(self) -> None:
        """Notes that a loop of this thread is about to begin."""
        if self.here.main:
            self.account.loop_begins()

    def pass_begins(self, iterator: Any, loader: int, number: int) -> None:
        """Begins a pass. The time since `loader_opens` is its start-up; no iteration includes it."""
        earlier = self.passes.get(iterator)
        if earlier is not None:
            self._left(earlier)
        self.passes[iterator] = this = Pass(self.recording, loader, number, self.device, self.write_own)
        this.gone = weakref.ref(iterator, lambda _: self.recording.guarded("leaving a loop", lambda: self._gone(this)))
        self.starts(this)

    def starts(self, this: Pass) -> None:
        """The time since the last event was the start-up of a pass."""
        here = self.here
        here.mark = now = perf_counter_ns()
        if not here.main:
            return
        self.account.started(this.place, now, self.arrivals.parts.take())
        if self.own is not None:
            self.own.outside()

    def workers_end(self, iterator: Any) -> None:
        """Notes that the workers of an iterator are about to end. In its last `next()`, this is a part of the wait."""
        this = self.passes.get(iterator)
        if this is not None and not this.waiting:
            self.spend(OTHER)

    def workers_ended(self, iterator: Any) -> None:
        this = self.passes.get(iterator)
        if this is not None and not this.waiting:
            here = self.here
            here.mark = now = perf_counter_ns()
            if here.main:
                self.account.ended(this.place, now)

    def _gone(self, this: Pass) -> None:
        """Ends a pass whose iterator is gone: the loop was left by `break`, `return` or an exception."""
        if self.recording.on and self.recording.pid == os.getpid():
            if this in self.here.open:
                self.spend(OTHER)
            self._left(this)

    def _left(self, this: Pass) -> None:
        if this in self.here.open:
            self.here.open.remove(this)
        if this.began is not None:
            this.finish("left")
            this.began = None

    def leave(self, iterator: Any) -> None:
        """Ends the current iteration. No table includes the time from here to the next `next()` of this iterator."""
        here, this = self.here, self.passes.get(iterator)
        self.spend(OTHER)
        if this is None:
            return
        if this in here.open:
            del here.open[here.open.index(this) :]
        this.close(here.mark)
        if this.due:
            this.write()
        this.began = None
        this.turn = max(1, this.turn)  # the first batch of the pass was not seen, so no later one counts as the first

    def finish(self) -> None:
        """Writes what is left of every pass that has not ended. The current iteration is not counted."""
        for this in list(self.passes.values()):
            if this.began is not None:
                this.finish("left")
                this.began = None
        if self.own is not None:
            self.own.write()

    def ends(self) -> None:
        """Writes when a rank made its last step, and what it did since."""
        here = self.here
        if self.own is not None and here.main:
            top = here.innermost()
            self.own.ends(None if top is None else top.loader, here.mark - here.unnamed)
