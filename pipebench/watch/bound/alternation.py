"""Alternates live windows and their replays inside the script's own loop: decides which batch the script gets next.

An iteration lasts from one request for a batch to the next. Copying, discarding and settling happen between windows and
are not timed. The first iteration of a pass and the lead-in iterations after it are not counted either.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from pipebench.watch.bound import batches
from pipebench.watch.bound.schedule import BUSY, DEVICE, LIVE, REPLAY_LEAD, Place, Schedule
from pipebench.watch.record.bound_lines import BoundRoundVoid, BoundWindow, CountedIteration, Reason

Draw = Callable[[], Any]


class Refused(Exception):
    """The bound cannot be measured, for this reason."""

    def __init__(self, code: str, **values: str | int | float) -> None:
        super().__init__(code, values)
        self.reason = Reason(code, values)


class LiveBatches(Protocol):
    """The live batches of one pass, as an `Alternation` uses them. `LiveSource` provides them."""

    cold: bool
    given: int

    def over(self) -> bool: ...
    def draw(self) -> Any: ...
    def discard(self) -> None: ...
    def settle(self, interval_s: float) -> None: ...
    def keep_busy(self, interval_s: float) -> None: ...
    def rest(self) -> None: ...


@dataclass(frozen=True)
class Means:
    """What the windows need from the machine: `now` is a clock, `finish` waits for a device, `sweep` clears caches.

    `sweep` takes the size of a window's batches in bytes. `budget` is how many bytes these batches may take. `pin` says
    that live batches are in pinned memory.
    """

    now: Callable[[], float]
    finish: Callable[[], None]
    sweep: Callable[[int], None]
    budget: float
    pin: bool = False
    device: Any = None
    batch_size: int | None = None


class Alternation:
    """Follows a schedule. `report` receives a line after each window, and a line for each round that is void."""

    def __init__(
        self, schedule: Schedule, means: Means, report: Callable[[BoundWindow | BoundRoundVoid], None]
    ) -> None:
        self.schedule, self.means, self.report = schedule, means, report
        self.step = 0
        self.changes = False  # the script changes its batches in place
        self._place: Place | None = None
        self._source: LiveBatches | None = None
        self._began: float | None = None
        self._skip = 0
        self._window: list[CountedIteration] = []
        self._opened = 0.0
        self._samples = 0
        self._waited_s = 0.0
        self._interval_s = 0.0
        self._last: tuple[Any, tuple[int, ...]] | None = None
        self._places: dict[int, set[int]] = {}  # of each tensor of the last batch, by its `id`
        self._sent: set[int] = set()  # the places of those that the script has copied to a device
        self._held: list[tuple[Any, tuple[int, ...], set[int]]] = []
        self._held_bytes = 0
        self._copies: list[tuple[Any, set[int]]] = []
        self._ready: dict[int, Any] = {}

    @property
    def done(self) -> bool:
        """Whether the schedule has ended. Ask this after `close`."""
        return self.step >= self.schedule.end

    @property
    def goes_on(self) -> bool:
        """Whether the next iteration is live and follows a counted iteration of the same window."""
        place = self.schedule.at(self.step)
        return self._began is not None and not place.replayed and place.number > 0

    def transferred(self, tensor: Any) -> None:
        """Notes that the script copies this tensor to a device. Only such ones of a batch are replayed from there."""
        self._sent |= self._places.get(id(tensor), set())

    def close(self) -> None:
        """Ends the current iteration. After the last iteration of a window, reports the window."""
        place = self._place
        if place is None or not place.measured:
            return
        last = place.number == self.schedule.window - 1
        if self._began is not None:
            if last or self._source is None or self._source.over():
                self.means.finish()
            spent = self.means.now() - self._began
            self._window.append(CountedIteration(place.number, spent, self._samples, self._waited_s))
            self._began = None
        if last and self._place is not None:
            self._end_window(place)
            self._place = None

    def _end_window(self, place: Place) -> None:
        window, self._window = self._window, []
        seconds = sum(one.seconds for one in window)
        if place.kind == LIVE and window:
            self._interval_s = seconds / len(window)
        self.report(BoundWindow(
            place.round, place.kind, seconds, sum(one.samples for one in window), len(window),
            self.step - self.schedule.window, self._opened, self.means.now(), window,
            stayed_on_host=place.kind == DEVICE and not any(sent for _, sent in self._copies),
            on_host=self._on_host() if place.kind == DEVICE else 0.0,
        ))  # fmt: skip

    def _on_host(self) -> float:
        """The share of the bytes of the replayed batches that is not on the device."""
        left = whole = 0
        for batch, sent in self._copies:
            for at, one in enumerate(batches.listed(batch)):
                whole += int(one.nbytes)
                left += int(one.nbytes) * (at not in sent)
        return left / max(1, whole)

    def interrupt(self) -> None:
        """Notes that the pass has ended, or that another begins. Drawing stops; the window goes on in the next pass."""
        self._began = None
        if self._source is not None:
            self._source.rest()
        self._source = None

    def next(self, source: LiveBatches, recorded: Callable[[Draw], Any]) -> Any:
        """The batch for the iteration that begins now. `recorded` draws a live batch that the loop's table may include.

        Raises StopIteration at the end of the pass. The step is then still to be done.
        """
        if source.over():
            raise StopIteration
        place = self.schedule.at(self.step)
        if source is not self._source or place.number == self._start(place):
            self._enter(place, source)
        if place.kind == BUSY and source.cold:
            self._skip = self.schedule.window  # no batch is left to draw: the workers are no longer busy
        if place.number == 0:
            self.means.finish()
            self._opened = self.means.now()
        counted = place.measured and not self._skip
        self._began = self.means.now() if counted else None
        try:
            batch = (
                self._replayed(place) if place.replayed else self._drawn(place, source, recorded if counted else None)
            )
        except BaseException:
            self._began = None
            raise
        self._skip = max(0, self._skip - 1)
        self._place = place
        self.step += 1
        source.given += 1
        return batch

    def _start(self, place: Place) -> int:
        return -REPLAY_LEAD if place.replayed else -self.schedule.lead

    def _enter(self, place: Place, source: LiveBatches) -> None:
        """Prepares the first iteration of a window's lead-in, or the first iteration of a pass."""
        resumed = place.number != self._start(place)
        if self._source is not None and source is not self._source:
            self._source.rest()
        self._source = source
        source.rest()
        if place.replayed:
            if not resumed:
                self._prepare(place)
            self._warm_up(place, source)
            (source.keep_busy if place.kind == BUSY else source.settle)(self._interval_s)
            return
        if not resumed:
            self._copies, self._ready, self._held, self._held_bytes = [], {}, [], 0
            source.discard()
        self._warm_up(place, source)

    def _warm_up(self, place: Place, source: LiveBatches) -> None:
        if source.cold:
            source.cold = False
            self._skip = REPLAY_LEAD if place.replayed else self.schedule.lead

    def _drawn(self, place: Place, source: LiveBatches, recorded: Callable[[Draw], Any] | None) -> Any:
        self._look_for_changes()
        before = self.means.now()
        batch = recorded(source.draw) if recorded else source.draw()
        self._waited_s = self.means.now() - before
        if source.cold:
            self._warm_up(place, source)
            self._began = None
        if not self.schedule.rounds:
            return batch  # nothing is measured
        self._samples = batches.samples(batch, self.means.batch_size)
        self._sent = set()
        if place.measured:
            self._hold(batch)
        self._last = batches.same(batch), batches.versions(batch)
        if DEVICE in self.schedule.replays:
            for number, one in enumerate(batches.listed(self._last[0])):
                self._places.setdefault(id(one), set()).add(number)
        return batch

    def _look_for_changes(self) -> None:
        if self._last is not None and batches.versions(self._last[0]) != self._last[1]:
            self.changes = True
        self._last, self._places = None, {}

    def _hold(self, batch: Any) -> None:
        """Keeps a live batch for its replays: the batch itself, or a copy if the script changes its batches."""
        self._held_bytes += batches.nbytes(batch)
        if self._held_bytes > self.means.budget:
            raise Refused("bound-outgrew-memory")
        if not self.changes:
            self._held.append((batches.same(batch), batches.versions(batch), self._sent))
            return
        before = self.means.now()
        self._held.append((batches.copied(batch, self.means.pin), (), self._sent))
        if self._began is not None:
            self._began += self.means.now() - before

    def _prepare(self, place: Place) -> None:
        """Makes the batches that a replay hands out. First copies and releases what the live window holds."""
        if self._held:
            self._copy(place.round)
        self._ready = {}
        for number in range(-REPLAY_LEAD, self.schedule.window):
            one, sent = self._copies[number % len(self._copies)]
            if place.kind == DEVICE:
                self._ready[number] = batches.moved(one, self.means.device, sent, self.means.pin)
            else:
                self._ready[number] = batches.copied(one, self.means.pin) if self.changes else batches.same(one)
        self.means.sweep(self._held_bytes)

    def _copy(self, turn: int) -> None:
        self._look_for_changes()
        held, self._held = self._held, []
        spoilt = False
        for place, (batch, seen, sent) in enumerate(held):
            if seen and batches.versions(batch) != seen:
                spoilt = True
            self._copies.append((batches.copied(batch, self.means.pin) if seen or not self.changes else batch, sent))
            held[place] = (None, (), sent)
        if spoilt:
            self.changes = True
            self.report(BoundRoundVoid(turn))

    def _replayed(self, place: Place) -> Any:
        batch = self._ready.pop(place.number)
        self._waited_s = 0.0
        self._samples = batches.samples(batch, self.means.batch_size)
        return batch
