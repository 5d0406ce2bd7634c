"""One pass over a loader, as the thread of its loop sees it: the iterations, and what is written of them."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from operator import add
from time import perf_counter_ns, process_time_ns
from typing import Any, Literal

from pipebench.watch.record.kernel_counts import HelperWaits, core_wait_ns
from pipebench.watch.record.lines import Arrival, IterationInFull, LoopSums, PassEnded
from pipebench.watch.record.pace import Pace
from pipebench.watch.record.record_file import PHASES, WAIT, WAIT_PARTS, bucket
from pipebench.watch.record.recording import Recording
from pipebench.watch.script.device_idle import IdleDevice
from pipebench.watch.script.training_device import TrainingDevice

_KEPT = 20_000
_helpers = HelperWaits()  # one for the process: its threads outlive a pass


class Pass:
    """One pass over a loader: the current iteration, and the earlier ones that are not yet written.

    `silent` says that the loop is another thread's, which gets its batches from this one: see `relays`. `beside` says
    that this thread is not the main one, and `batch` is then the `id` of its last batch, which may be `handed` on
    already. `written` is called after each line of iterations.
    """

    def __init__(
        self, recording: Recording, loader: int, number: int, device: TrainingDevice, written: Callable[[], None]
    ) -> None:
        self.recording = recording
        self._written = written
        self.loader = loader
        self.number = number
        self.place = loader, number
        self.phases = [0] * len(PHASES)
        self.turn = 0
        self.began: int | None = None
        self.trained = False
        self.steps = 0  # of optimisers
        self.suspended = self.silent = self.beside = self.over = self.due = False
        self.batch: int | None = None
        self.handed = False
        self.log: list[int] = []
        self.pace = Pace(recording.file.began, number)
        self.device = IdleDevice(device, number)
        self.waiting = False
        self.gone: weakref.ref[Any] | None = None
        self.arrived: Arrival | None = None
        self.waited = [0] * len(WAIT_PARTS)
        self.spans: dict[str, int] = {}
        self._clear()

    def _clear(self) -> None:
        zeros, parts = [0] * len(PHASES), [0] * len(WAIT_PARTS)
        self.pending = LoopSums(self.loader, self.number, first=self.turn, phases_ns=zeros, wait_parts_ns=parts)

    def close(self, now: int) -> None:
        """Ends the current iteration. `due` says afterwards that the sums are to be written."""
        if self.began is None:
            return
        first = self.turn == 0
        if first:
            self.write()
            self.pending.first_wait_ns = self.phases[WAIT]
        else:
            self._count(self.phases[WAIT], sum(self.phases))
        sums = self.pending
        sums.phases_ns = [*map(add, sums.phases_ns, self.phases)]
        while self.spans:
            name, spent = self.spans.popitem()
            sums.spans_ns[name] = sums.spans_ns.get(name, 0) + spent
        if not sums.turns:
            sums.begin = self.began
        sums.turns += 1
        sums.trained += self.trained
        sums.steps += self.steps
        if self.arrived is not None:
            sums.arrivals.append(self.arrived._replace(left=now))
            self.arrived = None
        if self.turn % self.recording.settings.every == 0 and not self.silent:
            self._keep_in_full(self.began, now)
        self.log.clear()
        self.turn += 1
        self.phases = [0] * len(PHASES)
        self.trained = False
        self.steps = 0
        self.due = self.pace.due(now) or first

    def _count(self, wait: int, length: int) -> None:
        """Counts an iteration of this length, after a wait of that length."""
        sums = self.pending
        for buckets, spent in ((sums.waits, wait), (sums.lengths, length)):
            key = bucket(spent)
            buckets[key] = buckets.get(key, 0) + 1
        sums.wait_parts_ns = [*map(add, sums.wait_parts_ns, self.waited)]

    def _keep_in_full(self, began: int, now: int) -> None:
        if self.turn < _KEPT * self.recording.settings.every:
            thread = threading.get_native_id()
            line = IterationInFull(self.loader, self.number, self.turn, began, now, thread, list(self.log))
            self.recording.file.write_in_full(line)

    def write(self) -> None:
        """Writes the sums of the iterations since the last line."""
        self.due = False
        if not self.pending.turns or self.silent:
            return
        self.pending.beside = self.beside
        self.pending.process_cpu_ns = process_time_ns()  # system calls: where a line is written, not each iteration
        self.pending.core_wait_ns = core_wait_ns()
        self.pending.helper_wait_ns = _helpers.look(perf_counter_ns())
        self.pending.idle = self.device.take()
        self.pending.device = self.device.take_placed()
        self.recording.write(self.pending)
        self._clear()
        self._written()

    def finish(self, how: Literal["exhausted", "failed", "left"]) -> None:
        """Writes what is left of the pass, and how it ended: its iterator ended or failed, or recording ended."""
        self.over = True
        if self.recording.pid == self.recording.file.pid and not self.silent:
            self.write()
            self._written()  # also if the last line was written in the present iteration
            self.recording.write(PassEnded(self.loader, how, self.phases[WAIT]))
