"""Tries changed loaders in the script's process, as the supervisor orders. The training is kept.

In windows: the script's own loader and the changed one give the batches of one pass in turn, see `dealing`. In passes:
every second pass over the loader is one of the changed loader.

An order that discards gives the script values that are not its own. Then the training is not kept, and when everything
is tried the process ends at once, as with `--bound`: nothing of the script runs on the way out.
"""

from __future__ import annotations

import os
import sys
import weakref
from collections import deque
from collections.abc import Callable
from statistics import fmean
from typing import Any

from pipebench.watch.record.orders import Order, Orders
from pipebench.watch.record.recording import Recording, told
from pipebench.watch.record.trial_lines import TrialDifference, TrialFailed, TrialRepeats, TrialWindow
from pipebench.watch.script.ranks import present
from pipebench.watch.trial import arms, edits
from pipebench.watch.trial.alike import Alike, Begun
from pipebench.watch.trial.arms import Arm
from pipebench.watch.trial.dealing import Hand
from pipebench.watch.trial.edits import Difference, GivenBack, Refused, Repeats
from pipebench.watch.trial.examining import Examining
from pipebench.watch.trial.in_step import InStep
from pipebench.watch.trial.leaving import leave_at_once, leave_script
from pipebench.watch.trial.loop_threads import LoopThreads
from pipebench.watch.trial.open_files import SharedFiles
from pipebench.watch.trial.passes import Passes
from pipebench.watch.trial.reading import Reading
from pipebench.watch.trial.resting import Resting
from pipebench.watch.trial.stretches import Clock, Stretch, Timed

Plain = Callable[[Any], Any]
_KNOWN = 1000
# A loader that only its loop holds lives as long as its iterator, by this attribute. One that holds its iterator itself
# needs none: both would end late, when Python looks for cycles, and torch then waits for each worker in vain.
_HELD = "_held_by_pipebench"


def _nothing(*_: object) -> None:
    return None


class _Pass:
    """One pass of the script over the loader, in windows: the script's own iterator, and the changed loader."""

    def __init__(self, own: Arm, loader: Any) -> None:
        self.own, self.loader = own, loader
        self.other: Arm | None = None
        self.number = 0  # the order for which `other` was opened
        self.stretch: Stretch | None = None
        self.resting: Resting | None = None  # the loader that waits for its turn

    def end(self) -> None:
        if self.other is not None:
            other, self.other = self.other, None
            other.end()


class Trial:
    """Everything that is tried in one process. `quiet` ends the recording.

    `has_number` and `number_of` know the loaders' numbers.
    """

    def __init__(
        self,
        recording: Recording,
        has_number: Callable[[Any, int], bool],
        quiet: Callable[[], object],
        clock: Clock,
        number_of: Callable[[Any], int | None] = _nothing,
    ) -> None:
        self.recording, self.has_number, self.quiet, self.number_of = recording, has_number, quiet, number_of
        self.pid = os.getpid()
        self.clock = clock
        self.orders: Orders | InStep = Orders(recording.settings.folder)
        self._alone: bool | None = None  # not known before the first batch
        self.order: Order | None = None
        self.turn = self._own_taken = 0  # `_own_taken`: the batches of the present loader's last window
        self.off = False
        self.spoiled = False  # whether the script has trained on values that are not its own
        self.files, self.threads, self.reading = SharedFiles(), LoopThreads(), Reading()
        self.passes = Passes(self)
        self.alike = Alike()
        self.examining: Examining | None = None
        self._loaders: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
        self._begins: weakref.WeakKeyDictionary[Any, Begun] = weakref.WeakKeyDictionary()  # by iterator, as loaders are
        self._now: _Pass | None = None
        self._given_back: deque[float] = deque(maxlen=_KNOWN)  # the seconds of each of the last batches of an order
        self._iterator: Callable[[], Any] = _nothing  # that of the present pass

    @property
    def elsewhere(self) -> bool:
        return self.off or os.getpid() != self.pid

    def opened(self, loader: Any, iterator: Any, begun: Begun) -> None:
        """Notes that the script iterates `loader` by `iterator`, and how the pass has begun."""
        if self._now is not None and self._now.loader is loader:
            self.leave_pass()
        if not arms.is_of_torch(iterator):
            return
        self._loaders[iterator], self._begins[iterator] = weakref.ref(loader), begun
        if not loader.persistent_workers:
            vars(iterator)[_HELD] = loader

    def iterate(self, loader: Any, plain_iter: Plain, plain: Plain) -> Any:
        """What the script gets from `iter(loader)`."""
        self.obey()
        order, begun = self.order, self.alike.begun(loader, sys._getframe(1))
        if order is None or order.settings is None or order.by != "passes" or not self.wants(loader):
            iterator = self.passes.outside(plain_iter(loader))
        else:
            iterator = self.passes.begin(loader, order, begun, plain_iter, plain)
        self.opened(loader, iterator, begun)
        return iterator

    def batch(self, iterator: Any, plain: Plain, plain_iter: Plain) -> Any:
        """What the script gets from `next(iterator)`."""
        self.obey()
        loader = self.loader_of(iterator)
        if _HELD in vars(iterator) and any(one is iterator for one in vars(loader).values()):
            del vars(iterator)[_HELD]
        try:
            found = self._examined(iterator, loader, plain, plain_iter)
        except BaseException:  # the pass is over, or what the script gets is an error
            self.threads.use(0)
            raise
        if isinstance(self.orders, InStep):
            self.orders.came(self.number_at(iterator))
        return found

    def loader_of(self, iterator: Any) -> Any:
        """The loader that the script iterates by `iterator`; None if it is not known."""
        return self._loaders.get(iterator, _nothing)()

    def number_at(self, iterator: Any) -> int | None:
        """The number of the loader that the script iterates by `iterator`; None if it has none."""
        loader = self.loader_of(iterator)
        return None if loader is None else self.number_of(loader)

    def _examined(self, iterator: Any, loader: Any, plain: Plain, plain_iter: Plain) -> Any:
        if self.examining is None or loader is None or not self.wants(loader):
            return self._batch(iterator, loader, plain, plain_iter)
        try:
            found = self._batch(iterator, loader, plain, plain_iter)
        except BaseException:
            self.guarded(self.examining.end)
            raise
        self.guarded(self.examining.came, found)
        return found

    def _batch(self, iterator: Any, loader: Any, plain: Plain, plain_iter: Plain) -> Any:
        if not self.passes.over(iterator):
            return self.passes.next(iterator, plain, plain_iter)
        order, entered = self.order, self._iterator() is iterator and isinstance(iterator._sampler_iter, Hand)
        if order is None or loader is None or not self.wants(loader) or (order.by == "passes" and not entered):
            return plain(iterator)
        if not entered:
            if not self.alike.has(loader, self._begins.get(iterator), bool(self.turn)):
                return plain(iterator)
            self._enter(iterator, loader, plain)
        assert self._now is not None
        return self._next(self._now, plain, plain_iter)

    def wants(self, loader: Any) -> bool:
        return self.order is not None and self.has_number(loader, self.order.loader)

    def _enter(self, iterator: Any, loader: Any, plain: Plain) -> None:
        """A new pass, or the first batch after an order: from here on, index lists are dealt."""
        self.leave_pass()
        self.turn += self.turn % 2
        self._now, self._iterator = _Pass(arms.joined(iterator, plain), loader), weakref.ref(iterator, self._left)
        self.reading.mark()

    def _left(self, iterator: Any) -> None:
        """The script has left its loop before the end of the pass, so the changed loader has nothing more to do."""
        if iterator is self._iterator and os.getpid() == self.pid:
            self.leave_pass()

    def leave_pass(self) -> None:
        """Ends the changed loader of the current pass. The script's own makes what is missing, if it goes on."""
        this, self._now, self._iterator = self._now, None, _nothing
        if this is not None:
            self.threads.use(0)
            try:
                self.guarded(this.end)
            finally:  # a signal handler of the script may raise
                this.own.hand.open = True

    def _next(self, this: _Pass, plain: Plain, plain_iter: Plain) -> Any:
        while True:
            stretch = self._ready(this, plain, plain_iter)
            if stretch is None:
                return self._last(this)
            try:
                batch = self.files.during(stretch.draw) if stretch.loader is this.own else stretch.draw()
                self.told(stretch.loader, stretch.timing)
                order = self.order if stretch.loader is this.other else None
                self.threads.use(order.loop_threads if order is not None and order.number == this.number else 0)
                return batch
            except StopIteration:
                if self._over(this, stretch):
                    return self._last(this)
            except Exception as error:
                if stretch.loader is this.own:
                    raise
                self._failed(this, error)
                if arms.from_the_script(error):
                    raise

    def _over(self, this: _Pass, stretch: Stretch) -> bool:
        """Whether the pass is over, not only a turn, or the changed loader's stream: then the script's own goes on."""
        if stretch.loader.goes_on or stretch.loader is this.own or not arms.is_stream(this.loader):
            return not stretch.loader.goes_on
        this.end()
        this.stretch = Stretch(this.own, self.clock, None)
        return False

    def _ready(self, this: _Pass, plain: Plain, plain_iter: Plain) -> Stretch | None:
        """The stretch from which the next batch comes. None: no batch is left."""
        try:
            stretch = self._stretch(this, plain, plain_iter)
            found = stretch.look() if stretch is not None else None
            if stretch is None or found is None:
                return stretch
            self._report(this, found)
            return self._stretch(this, plain, plain_iter)
        except Exception as error:
            self._failed(this, error)
            self.fault("trying a loader", error)
            self.off = True  # every batch that was asked for is the script's own again
            return this.stretch

    def _last(self, this: _Pass) -> Any:
        """The end of the pass, as torch's own iterator makes it."""
        self.leave_pass()
        return this.own.draw()

    def _stretch(self, this: _Pass, plain: Plain, plain_iter: Plain) -> Stretch | None:
        """The stretch from which the next batch comes. None: no batch is left."""
        if this.stretch is None or this.stretch.over:
            this.stretch = self._begun(this, plain, plain_iter)
            if this.stretch.loader.workers and this.stretch.loader.dry:
                return None
        return this.stretch

    def _begun(self, this: _Pass, plain: Plain, plain_iter: Plain) -> Stretch:
        order = self.order
        if order is None or order.settings is None or order.by != "windows" or this.number != order.number:
            this.end()
        if order is None or order.settings is None or order.by != "windows":
            return Stretch(this.own, self.clock, None)
        if not self.turn % 2:
            this.resting = Resting(this.other.iterator, self.clock.now) if this.other is not None else None
            self.files.look(this.own.workers)
            return self._timed(this.own, order)
        fresh = this.other is None
        try:
            if this.other is None:
                self.spoiled |= order.discards
                self.threads.check(order.loop_threads)
                inside = edits.made(order.edits)
                found = arms.changed(this.loader, order.settings, order.one_thread, inside)
                self.files.check(found.num_workers)
                this.other = arms.opened(found, this.own.hand.deal, plain_iter, plain, inside)
                this.number = order.number
            this.resting = Resting(this.own.iterator, self.clock.now)
            return self._timed(this.other, order, fresh)
        except Exception as error:
            if arms.from_the_script(error):
                raise
            self._failed(this, error)
            return Stretch(this.own, self.clock, None)

    def _timed(self, arm: Arm, order: Order, fresh: bool = False) -> Stretch:
        """A stretch with a window. It begins later if the workers are new: their first batches are slower."""
        if order.window:
            return Stretch(arm, self.clock, 0.0, 0.0, order.period, order.window, order.window // 2 if fresh else 0)
        lead_s = order.window_s / 2 if fresh and arm.workers else 0.0
        most = self._own_taken if self.turn % 2 else 0
        return Stretch(arm, self.clock, order.window_s, lead_s, order.period, most=most)

    def _report(self, this: _Pass, found: Timed) -> None:
        if this.resting is not None and this.resting.compute:
            self._failed(this, arms.CannotTry("workers-compute"))
        elif self.order is not None:
            self._own_taken = self._own_taken if self.turn % 2 else found.taken
            self.window(self.order.number, found.seconds, found.taken, found.drained)

    def _failed(self, this: _Pass, error: BaseException) -> None:
        """The changed loader has failed: the script's own makes the batches that are missing, and the order is over."""
        self.refused(error)
        try:
            self.guarded(this.end)
        finally:  # a signal handler of the script may raise
            this.stretch = Stretch(this.own, self.clock, None)

    def told(self, arm: Any, timed: bool) -> None:
        """Writes what the workers of a changed loader have told of their samples. A fault in it costs no batch.

        What was given back counts in a `timed` window: before it, the loop waits for the first batches.
        """
        notes, arm.notes = arm.notes, []
        for found in notes:
            if isinstance(found, GivenBack):
                self._given_back.extend([found.seconds] if timed else [])
            else:
                self.guarded(self._tell, found)

    def window(self, order: int, seconds: float, taken: int, drained: int = 0) -> None:
        """Writes what a window of an order, or a pass, found. The next one is of the other loader."""
        changed = bool(self.turn % 2)
        given_back_s = taken * max(0.0, fmean(self._given_back)) if changed and self._given_back else 0.0
        read = self.reading.since()
        self.recording.write(TrialWindow(order, self.turn // 2, changed, seconds, taken, drained, given_back_s, *read))
        self.turn += 1

    def _tell(self, found: Difference | Repeats) -> None:
        kind = TrialDifference if isinstance(found, Difference) else TrialRepeats
        if self.order is not None:
            self.recording.write(kind(self.order.number, **vars(found)))

    def refused(self, error: BaseException) -> None:
        if self.order is not None:
            problem = str(error) if isinstance(error, arms.CannotTry | Refused) else told(error)
            self.recording.write(TrialFailed(self.order.number, problem))
            self.order = Order(self.order.number, self.order.loader)

    def obey(self) -> None:
        """Takes the newest order, if there is one."""
        try:
            self._join()
            order = self.orders.latest()
        except Exception as error:
            self.fault("reading what to try", error)
            return
        if order is not None:
            self._take(order)

    def _join(self) -> None:
        """Finds out, once, whether this process is one of several ranks: then they take each order together."""
        if self._alone is None:
            found, settings = present(), self.recording.settings
            self._alone = found is None or not settings.shared
            if found is not None and settings.shared:
                self.orders = InStep(settings.folder, settings.shared, found, self.recording.file.began)

    def _take(self, order: Order) -> None:
        """Ends what was tried. What the present stretch has asked for still comes; then the order begins."""
        if self.order is None:
            self.quiet()
        if order.leave:
            self._leave()
        self.spoiled |= bool(order.examine)
        self.order, self.turn = order, 0
        self._given_back.clear()
        if self.examining is not None:
            self.guarded(self.examining.end)
        self.examining = Examining(order.number, order.examine, self.recording.write) if order.examine else None
        self.passes.order_over()
        this = self._now
        if this is not None and this.stretch is not None:
            this.stretch.close()
        if order.problem:
            self.recording.write(TrialFailed(order.number, order.problem))

    def guarded(self, act: Callable[..., object], *args: Any) -> None:
        """Runs `act`. A fault in it is one line on standard error. What the script's signal handlers raise is none."""
        try:
            act(*args)
        except Exception as error:
            self.fault("trying a loader", error)

    def fault(self, where: str, error: BaseException) -> None:
        """Tells of a fault of ours, see `Recording.fault`, in one line. The script goes on with its own loader."""
        self.recording.fault(where, error)
        sys.stderr.write(f"pipebench: a fault of pipebench while {where} ({told(error)}). The script goes on.\n")

    def _leave(self) -> None:
        """Ends the script. If its weights are worth nothing, nothing of it runs on the way out."""
        self.end()
        if self.spoiled:
            leave_at_once(self._loaders, self.recording, self.guarded)
        leave_script()

    def end(self) -> None:
        """Ends every worker of ours, because the script has come to its own end."""
        if os.getpid() == self.pid:
            if self.examining is not None:
                self.guarded(self.examining.end)
            self.leave_pass()
            self.passes.order_over()
