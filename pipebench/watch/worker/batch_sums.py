"""Adds up what one process spends on one loader, batch by batch, and writes the sums when they are due."""

from __future__ import annotations

import gc
import heapq
from dataclasses import dataclass
from time import perf_counter_ns, process_time_ns

from pipebench.watch.record import thread_pools
from pipebench.watch.record.exclusive_time import StageTimer, stages
from pipebench.watch.record.kernel_counts import CoreWait, children_cpu_ns, read_bytes
from pipebench.watch.record.last_sample import PresentSample, text_of
from pipebench.watch.record.lines import BatchInFull, FetchSums
from pipebench.watch.record.pace import SINGLE, Pace
from pipebench.watch.record.patches import Patches
from pipebench.watch.record.read_lines import ReadSums
from pipebench.watch.record.record_file import bucket
from pipebench.watch.record.recording import Recording
from pipebench.watch.record.sampling import followed
from pipebench.watch.record.worker_lines import Carried, Collected, Content, LongSample, OneBatch, Shrunk, ToHandOver
from pipebench.watch.stages.held_modules import HeldModules
from pipebench.watch.worker import contents, pickling
from pipebench.watch.worker.file_reads import FileReads
from pipebench.watch.worker.kept_open import Held
from pipebench.watch.worker.line_counts import LinesOfSamples
from pipebench.watch.worker.repeated_calls import RepeatedCalls
from pipebench.watch.worker.split import Split
from pipebench.watch.worker.stack_place import Teller

_SLOWEST = 10
_ASKED = 8  # workers that look at their thread pools: that takes milliseconds
_POOLS_NS = 2_000_000_000  # of making batches, after which they look, besides when they end: they may live on
_WHOLE = 16  # batches in which all tensors and arrays are looked for
_LOOKED, _LOOKED_EACH = 64, 8  # into the first batches, and then each 8th: some take half a millisecond
_FIRST = 2  # batches with a line of their own: in them, libraries set themselves up


@dataclass(frozen=True)
class WorkerPlace:
    """Where batches are made: for which loader (from 1), by which worker, and from which pass on (from 0).

    `worker` is None in the script's own process. `run_began` is when the script's recording began, in nanoseconds.
    """

    loader: int
    worker: int | None
    first_pass: int
    run_began: int


class Sums:
    """What one process spent on one loader since its last `FetchSums` line, and its slowest samples so far."""

    def __init__(self, recording: Recording, place: WorkerPlace) -> None:
        self.recording = recording
        self.place = place
        self.timer = StageTimer()
        self.split = Split(self.timer, recording.settings.every, place.first_pass)
        self.waited = CoreWait()  # of the thread that fetches
        self.teller = Teller(recording, self.timer, place.loader)
        self.pace = Pace(place.run_began, place.first_pass, _FIRST)
        self.room = SINGLE // (1 + place.first_pass)
        self.number = self.created_ns = 0
        self.looks = True
        self.may_be_alike = False  # the batches of all workers: of the first pass over a stream
        self.drew = False  # random numbers, in the last batch
        self.holds = 0  # the number of what is in it
        self.round = place.first_pass - 1
        self.fetched = 0
        self.slow: list[tuple[int, int]] = []
        self.slow_floor = self.slowest = 0
        self.has_slowest = False  # the batch that is made has the slowest sample so far
        self.present: PresentSample | None = None  # of a worker: hears which sample, or which samples, are made
        self.held_open: Held | None = None
        self.modules = HeldModules()  # of a dataset in the script's process
        self.repeated = RepeatedCalls(recording, place.loader, place.first_pass)
        self.line_counts = LinesOfSamples(recording, place.loader, place.first_pass)
        self.file_reads = FileReads(recording, place.loader)
        self.pending: list[RepeatedCalls | LinesOfSamples | FileReads] = []  # each looks into one of the next samples
        recording.before_stop.append(self.write)
        self._asked = place.first_pass == 0 and (place.worker or 0) < _ASKED
        self._pools_in_ns = _POOLS_NS if self._asked else 0
        self._clear()

    def _clear(self) -> None:
        self.samples = self.batches = self.failed = self.busy = self.cpu = self.core_wait = self.began = 0
        self.unused = self.before = 0
        self.held = ToHandOver()
        self.lengths: dict[int, int] = {}
        self.slow_new: list[LongSample] = []
        self.content = Content()
        self.single: list[OneBatch] = []

    def look_into(self, batch: object) -> None:
        """Counts what a batch holds, for some of those batches that are followed. Outside of its fetch."""
        chosen = self.fetched < _LOOKED or self.number % _LOOKED_EACH == 0
        if not (self.looks and chosen and followed(self.number, max(0, self.round))):
            return
        try:
            if self.fetched == _FIRST and self.place.worker == 0 and not self.place.first_pass:
                self._note_carried(batch)
            if (found := contents.content_of(batch)) is not None:
                self.content = Content._make(one + more for one, more in zip(self.content, found, strict=True))
            if self.place.worker is None and self.fetched < _WHOLE:
                self.held = ToHandOver._make(map(sum, zip(self.held, contents.to_hand_over(batch), strict=True)))
        except Exception as error:  # a batch may be an object of any kind
            self.looks = False
            self.recording.fault("counting what a batch holds", error)

    def _note_carried(self, batch: object) -> None:
        if (found := contents.carried(batch)) is not None:
            self.recording.write(Carried(self.place.loader, found.attribute, found.bytes, found.whole))

    def sample(self, began: int, now: int, index: object) -> None:
        """Adds one sample, made from `began` to `now`."""
        spent = now - began
        self.samples += 1
        key = bucket(spent)
        self.lengths[key] = self.lengths.get(key, 0) + 1
        if spent > self.slow_floor:
            self._keep_slow(spent, index)
        self.timer.file = None

    def looking(self, several: bool = False) -> RepeatedCalls | LinesOfSamples | FileReads | None:
        """What looks into the sample that is made now, or into `several` made in one call; None if nothing does."""
        found = next((one for one in self.pending if not several or one is not self.repeated), None)
        if found is None or (found is self.file_reads and self.file_reads.waits()):
            return None
        self.pending.remove(found)
        try:
            lines = several and found is self.line_counts
            return found if (self.line_counts.begins("samples") if lines else found.begins()) else None
        except Exception as error:  # as where `sys.setprofile` is forbidden
            self.recording.fault("looking at the calls of a sample", error)
            return None

    def several(self, samples: int) -> None:
        """Adds several samples that were made in one call. The time of each single sample is unknown."""
        self.samples += samples
        self.file_reads.made(samples)
        self.timer.file = None

    def _keep_slow(self, spent: int, index: object) -> None:
        file = self.timer.file
        name = (
            str(file)
            if isinstance(file, (str, bytes)) and file
            else f"sample {text_of(index) or type(index).__name__}"[:200]
        )
        self.slow_new.append(LongSample(spent, name))
        if spent >= self.slowest:
            self.slowest, self.has_slowest = spent, True
        heapq.heappush(self.slow, (spent, self.fetched))
        if len(self.slow) > _SLOWEST:
            heapq.heappop(self.slow)
            self.slow_floor = self.slow[0][0]

    def batch(self, began: int, now: int, cpu: int, core_wait: int, failed: bool, ended: bool = False) -> None:
        """Adds one fetch, and writes the sums if they are due, or if it is an early one that failed.

        In nanoseconds: `cpu` is the thread's CPU time in the fetch, and `core_wait` the time in which it had no core.
        `ended`: there was no more batch in the dataset.
        """
        made = not (failed or ended)
        self.began = self.began or began
        self.busy += now - began
        if self._pools_in_ns:
            self._pools_in_ns = max(0, self._pools_in_ns - (now - began))
            if not self._pools_in_ns:
                self._tell_pools()
        self.cpu += cpu
        self.core_wait += core_wait
        self.failed += failed
        self.batches += made
        self.file_reads.samples += self.samples - self.before
        looks = [one for one in (self.line_counts, self.repeated, self.file_reads) if one.due(now - began)]
        self.pending += (one for one in looks if one not in self.pending)
        self.unused += 0 if made else self.samples - self.before
        self.before = self.samples
        if self.room and made:
            self.room -= 1
            self.single.append(OneBatch(began, now - began, cpu, core_wait, self.drew, self.holds))
        self.teller.after_batch(self.busy)
        due = self.pace.due(now) or (failed and self.pace.count <= SINGLE)
        if self.has_slowest or self.fetched % self.recording.settings.every == 0:
            self._write_in_full(began, now)
        self.has_slowest = False
        self.fetched += 1
        if due:
            self._sum_up(now)
            self.recording.told_to_stop()

    def _write_in_full(self, began: int, now: int) -> None:
        line = BatchInFull(self.place.loader, self.round, self.number, began, now, list(self.timer.log))
        self.recording.file.write_in_full(line)

    def write(self, last: bool = False) -> None:
        """Writes the sums, if there are any. With `last`, the process ends.

        The feeder thread may then have done more since the last batch, which is written too. A process that started in
        the first pass, one of the first workers, also writes its thread pools.
        """
        if last and self._asked:
            self._tell_pools()
        hidden = self.timer.hidden
        if not (self.batches or self.failed or hidden.errors or (last and pickling.meter.batches)):
            return
        self._sum_up(self.timer.last)

    def _tell_pools(self) -> None:
        self.recording.guarded("looking at thread pools", lambda: self.recording.write(thread_pools.library_threads()))

    def _sum_up(self, now: int) -> None:
        """Writes a line of the sums until `now`, and begins new ones."""
        self.began = self.began or now
        unsplit = self.split.share_out()
        sums, whole, hidden = self.timer.sums, self.timer.whole, self.timer.hidden
        used, calls = ({stage: one[stage] for stage in range(len(stages.known)) if one[stage]} for one in (sums, whole))
        line = FetchSums(
            self.place.loader,
            self.began,
            now,
            batches=self.batches,
            samples=self.samples,
            unsplit=unsplit,
            unused=self.unused,
            failed=self.failed,
            busy_ns=self.busy,
            cpu_ns=self.cpu,
            core_wait_ns=self.core_wait,
            process_cpu_ns=process_time_ns() + children_cpu_ns(),
            read_bytes=read_bytes(),
            stages_ns=used,
            whole_ns=calls,
            left=self.timer.left,
            gave=self.timer.gave,
            fields=self.timer.fields,
            shrunk=self.timer.shrunk,
            lengths=self.lengths,
            slow=self.slow_new,
            gc=collections.take(),
            pickled=pickling.meter.take(),
            handed=pickling.meter.take_handed(),
            content=self.content,
            held=self.held,
            hidden=hidden,
            single=self.single,
        )
        remote = self.timer.reads.take()
        reads = [ReadSums(self.place.loader, self.began, remote)] if remote else []
        self.recording.write(line, *reads, *self.file_reads.take(self.began))
        self.timer.hidden = hidden._replace(errors=0, spent_ns=0)
        self.timer.left, self.timer.gave, self.timer.fields = {}, {}, {}
        self.timer.shrunk = Shrunk()
        for stage in (*used, *calls):
            sums[stage] = whole[stage] = 0
        self._clear()


class _Collections:
    """Counts and times the garbage collections of this process. The interpreter calls it through `gc.callbacks`."""

    def __init__(self) -> None:
        self.began = self.spent = self.count = 0

    def __call__(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self.began = perf_counter_ns()
        else:
            self.spent += perf_counter_ns() - self.began
            self.count += 1

    def take(self) -> Collected:
        taken = Collected(self.spent, self.count)
        self.spent = self.count = 0
        return taken

    def install(self, patches: Patches) -> None:
        if self not in gc.callbacks:
            gc.callbacks.append(self)
            patches.on_undo(lambda: gc.callbacks.remove(self))


collections = _Collections()
