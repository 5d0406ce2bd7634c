"""Tries a changed loader by whole passes: every second pass over the loader is one of the changed loader.

A pass lasts from the script's `iter(loader)` to the end of its last `next()`, so it holds the start and the end of
workers. If the script leaves its loop before, the pass lasts to its last batch. The script's sampler gives the index
lists of every pass, so each pass has its samples in the script's order.
"""

from __future__ import annotations

import os
import sys
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from pipebench.watch.record.orders import Order
from pipebench.watch.record.recording import Recording
from pipebench.watch.trial import arms, edits
from pipebench.watch.trial.alike import Alike, Begun
from pipebench.watch.trial.arms import Arm
from pipebench.watch.trial.dealing import Deal, DealtSampler, Hand
from pipebench.watch.trial.edits import Edit
from pipebench.watch.trial.loop_threads import LoopThreads
from pipebench.watch.trial.open_files import SharedFiles
from pipebench.watch.trial.reading import Reading
from pipebench.watch.trial.stretches import Clock

Plain = Callable[[Any], Any]


class _Owner(Protocol):
    order: Order | None
    turn: int
    spoiled: bool
    clock: Clock
    recording: Recording
    files: SharedFiles
    threads: LoopThreads
    reading: Reading
    alike: Alike

    def refused(self, error: BaseException) -> None: ...
    def told(self, arm: Arm, timed: bool) -> None: ...
    def window(self, order: int, seconds: float, taken: int) -> None: ...


@dataclass
class _Given:
    """What a pass of an order has given, and when: it began, and gave its last batch. It holds no loader or iterator.

    `of` is the script's loader. It `counts`, but in the first pass of persistent workers, which starts them, and after
    a failure. `gone` waits for the end of the iterator.
    """

    order: int
    of: Callable[[], Any]
    stream: bool
    began: float
    last: float = 0.0
    taken: int = 0
    counts: bool = True
    over: bool = False
    gone: Callable[[], Any] | None = None


class _Pass:
    """One pass. `arm` is the changed loader, or None in a pass of the script's own."""

    def __init__(self, order: Order, loader: Any, began: float) -> None:
        self.order, self.loader = order, loader
        self.given = _Given(order.number, weakref.ref(loader), arms.is_stream(loader), began)
        self.arm: Arm | None = None
        self.deal: Deal | None = None
        self.failed = False  # whether the script's own settings make the rest of the pass


class Passes:
    """The passes of one process. `trial` is the session that they belong to."""

    def __init__(self, trial: _Owner) -> None:
        self.trial = trial
        self._open: weakref.WeakKeyDictionary[Any, _Pass] = weakref.WeakKeyDictionary()
        self._kept: Any = None  # the changed loader, if its workers persist
        self._edits: tuple[Edit, ...] = ()  # of the changed loader
        self._edits_of = 0  # the order that they are of
        self._kept_for: Callable[[], Any] = lambda: None  # the script's loader of which it is a copy
        self._latest: _Given | None = None

    def begin(self, loader: Any, order: Order, begun: Begun, plain_iter: Plain, plain: Plain) -> Any:
        """The iterator of the pass that begins now."""
        self.trial.threads.use(0)  # the script may have left its last loop before the end
        self._end_left(loader)
        if not self._compares(loader, begun):
            return self.outside(plain_iter(loader))
        self.trial.reading.mark()
        this = _Pass(order, loader, self.trial.clock.now())
        iterator = None
        if self.trial.turn % 2:
            try:
                iterator = self._changed(this, plain_iter, plain)
            except Exception as error:
                self.trial.refused(error)
                this.arm, this.given.counts = None, False
                if arms.from_the_script(error):
                    raise
        if iterator is None:
            self.trial.files.look(loader.num_workers)
            iterator = plain_iter(loader)
        self._open[iterator], self._latest = this, this.given
        if this.arm is not None:
            this.given.gone = weakref.ref(iterator, _releasing(this.arm, self.trial.threads))
        return iterator

    def outside(self, iterator: Any) -> Any:
        """The same `iterator`, of a pass that is not compared. Persistent workers have one for all their passes."""
        if iterator in self._open:
            del self._open[iterator]
        return iterator

    def _compares(self, loader: Any, begun: Begun) -> bool:
        """Whether a pass that begins so is compared. The first one is the script's own."""
        alike = self.trial.alike
        first, found = alike.first, alike.has(loader, begun, bool(self.trial.turn))
        if alike.first != first:
            self.trial.turn += self.trial.turn % 2
        return found

    def _end_left(self, loader: Any) -> None:
        """Ends the last pass over this loader, if the script has left its loop: nothing else tells of that.

        So does a loader that is made anew, if the one before is gone.
        """
        given = self._latest
        if given is not None and not given.over and given.taken and given.of() in (loader, None):
            self.trial.files.over()
            self._count(given, given.last - given.began)

    def _count(self, given: _Given, seconds: float) -> None:
        given.over = True
        order = self.trial.order
        if order is not None and order.number == given.order and given.counts and given.taken:
            # Of a stream, each worker's last batch is a part: more workers make more batches of the same samples.
            self.trial.window(given.order, seconds, 1 if given.stream else given.taken)

    def _changed(self, this: _Pass, plain_iter: Plain, plain: Plain) -> Any:
        loader = this.loader
        settings = {"persistent_workers": loader.persistent_workers, **(this.order.settings or {})}
        if self._kept is not None and self._kept_for() is not loader:
            self.order_over()
            raise arms.CannotTry("new-loader-each-pass")
        kept = getattr(self._kept, "_iterator", None)  # of a stream, it has no length
        present = self._open.get(kept) if kept is not None else None
        if present is not None and not present.given.over:
            raise arms.CannotTry("passes-overlap")
        if self._kept is None:
            self._kept_for = weakref.ref(loader)
            if self._edits_of != this.order.number or loader.num_workers:  # without, they keep what they know
                self._edits, self._edits_of = edits.made(this.order.edits), this.order.number
            self.trial.threads.check(this.order.loop_threads)
            found = arms.changed(loader, settings, this.order.one_thread, self._edits)
            self.trial.files.check(found.num_workers)
            self._kept = arms.dealt(found, _NO_HAND)
        self.trial.spoiled |= this.order.discards
        found = self._kept
        if settings["persistent_workers"] and found.num_workers:
            this.given.counts = found._iterator is not None
        else:
            self._kept = None
        this.deal = Deal(iter(()))
        sampler: DealtSampler = found._index_sampler
        sampler.hand = Hand(this.deal)
        iterator = plain_iter(found)
        this.deal.stream = _index_lists(loader)
        this.arm = Arm(iterator, sampler.hand, plain, held=False, edits=self._edits)
        this.arm.begin()
        return iterator

    def over(self, iterator: Any) -> bool:
        """Whether `iterator` belongs to no pass of a trial."""
        return iterator not in self._open

    def next(self, iterator: Any, plain: Plain, plain_iter: Plain) -> Any:
        """The next batch of the pass of `iterator`."""
        this = self._open[iterator]
        try:
            batch = this.arm.draw() if this.arm is not None else self.trial.files.during(lambda: plain(iterator))
        except StopIteration:
            self._end(iterator, this)
            raise
        except Exception as error:
            if this.arm is None or this.failed:
                raise
            self._fall_back(this, error, plain_iter, plain)
            if arms.from_the_script(error):
                raise
            batch = this.arm.draw()
        if this.arm is not None:
            self.trial.told(this.arm, this.given.taken >= this.arm.ahead)
        order = self.trial.order
        ours = this.arm is not None and not this.failed and order is not None and order.number == this.order.number
        self.trial.threads.use(this.order.loop_threads if ours else 0)
        this.given.taken, this.given.last = this.given.taken + 1, self.trial.clock.now()
        return batch

    def _fall_back(self, this: _Pass, error: BaseException, plain_iter: Plain, plain: Plain) -> None:
        """Lets the rest of the pass come from a loader with the script's own settings."""
        assert this.arm is not None and this.deal is not None
        self.trial.refused(error)
        this.given.counts, this.failed = False, True
        this.arm.end()
        self._kept = None
        instead = arms.changed(this.loader, {}, False)
        vars(instead)["timeout"] = this.loader.timeout  # nothing stands behind it: the script's own patience
        this.arm = arms.opened(instead, this.deal, plain_iter, plain)
        this.arm.begin()

    def _end(self, iterator: Any, this: _Pass) -> None:
        del self._open[iterator]
        if this.arm is not None:
            this.arm.release()
        else:
            self.trial.files.over()
        self.trial.clock.finish()
        seconds = self.trial.clock.now() - this.given.began
        order = self.trial.order
        if this.arm is not None and (order is None or order.number != this.order.number):
            this.arm.end()
        if not this.given.over:
            self._count(this.given, seconds)

    def order_over(self) -> None:
        """Ends the persistent workers of a changed loader. One that the script iterates now ends with its pass."""
        self.trial.threads.use(0)
        kept, self._kept = self._kept, None
        iterator = getattr(kept, "_iterator", None)
        if iterator is not None and iterator not in self._open:
            iterator._shutdown_workers()


def _releasing(arm: Arm, threads: LoopThreads) -> Callable[[Any], None]:
    """Puts back what a changed loader has replaced in this process, once its iterator is gone."""
    process = os.getpid()

    def release(_: Any) -> None:
        if os.getpid() == process:
            arm.release()
            threads.use(0)

    return release


def _index_lists(loader: Any) -> Iterator[Any]:
    """The index lists of a pass, begun as torch's own iterator begins them: a sampler may draw random numbers then."""
    found: Iterator[Any] = iter(loader._index_sampler)
    if loader.persistent_workers and loader._iterator is not None:
        return found
    _draw_as_a_new_iterator(loader)
    if loader.num_workers:  # then torch begins twice
        found = iter(loader._index_sampler)
    return found


def _draw_as_a_new_iterator(loader: Any) -> None:
    """Draws the seed that torch's own iterator would draw, so that later random numbers stay the script's."""
    torch: Any = sys.modules["torch"]
    torch.empty((), dtype=torch.int64).random_(generator=loader.generator)


_NO_HAND = Hand(Deal(iter(())))
