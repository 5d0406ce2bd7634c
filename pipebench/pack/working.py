"""Packs all targets: threads read and pack the members, one thread writes them in order.

The C piece releases the GIL, so threads use all cores. Only so many members are under way that memory stays bounded.
Every file gets its name when it is whole, so a run that was interrupted goes on where it stopped.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from pipebench.data import listing
from pipebench.data.listing import IMAGE_SUFFIXES, Extent
from pipebench.errors import BadSample, PipebenchError, SampleError, remedy_of
from pipebench.host import machine
from pipebench.native import packing
from pipebench.pack import gain
from pipebench.pack.journal import Counts, Entry, Journal
from pipebench.pack.sources import Member, Target
from pipebench.pack.writing import Writer
from pipebench.results.packing import Packing
from pipebench.units import printable

AHEAD = 8  # members under way for each core
TOGETHER = 64  # complete files that wait for the disk together: a disk takes nearly as long for one alone
TOGETHER_BYTES = 1 << 26
_JPEG = b"\xff\xd8\xff"
Progress = Callable[[int, int, str], None]


@dataclass(frozen=True)
class Treated:
    """A member after its turn: packed `data` (None: copy it), what its bytes were, and the CPU seconds it took."""

    data: bytes | None
    counts: Counts
    cpu_s: float = 0.0


@dataclass(frozen=True)
class Step:
    """The next thing to write: a member of `target`, or its end, where there is no member. Or why it has no end."""

    target: Target
    member: Member | None = None
    treated: Future[Treated] | None = None
    error: SampleError | None = None


def treated(member: Member, segment: int, keep_tables: bool) -> Treated:
    """Packs one member if it is a JPEG. Raises `SampleError` if it cannot be read."""
    assert member.extent is not None
    begin = time.thread_time()
    image = member.name.rpartition(".")[2].lower() in IMAGE_SUFFIXES
    if listing.read_extent(Extent(member.extent.path, member.extent.offset, min(3, member.extent.size))) != _JPEG:
        return Treated(None, Counts(unchanged={"not a JPEG": 1}) if image else Counts(others=1))
    data = listing.read_extent(member.extent)
    try:
        packed = packing.pack(data, segment, keep_tables)
    except SampleError as error:
        reason = error.message if error.kind == "unsupported" else error.kind
        return Treated(None, Counts(unchanged={printable(reason): 1}), time.thread_time() - begin)
    counts = Counts(packed=1, packed_before=len(data), packed_after=len(packed))
    return Treated(packed, counts, time.thread_time() - begin)


class Packer:
    """Packs targets into the folder `destination`, of which `journal` says what is finished."""

    def __init__(
        self, destination: Path, journal: Journal, segment: int, keep_tables: bool, progress: Progress
    ) -> None:
        self._destination = destination
        self._journal = journal
        self._options = (segment, keep_tables)
        self._progress = progress
        self._pairs = gain.Pairs()
        self._counts = Counts()  # of all files
        self._failures: list[BadSample] = []
        self._done_bytes = 0
        self._cpu_s = 0.0
        self._packed_now = 0  # bytes before, in this run
        self._writer: Writer | None = None
        self._complete: list[tuple[Writer, Entry]] = []  # not yet named
        self._file = Counts()  # of the file that is being written
        self._samples: list[tuple[Extent, Extent]] = []

    def run(self, targets: Sequence[Target], cores: int | None = None) -> Packing:
        """Packs what is not finished and measures the gain. Raises PipebenchError if a file cannot be written."""
        begin = time.monotonic()
        packing.keep_memory()
        cores = cores or max(1, round(machine.usable_cores()))
        todo = [one for one in targets if not self._is_finished(one)]
        total = sum(one.source_bytes for one in targets)
        with ThreadPoolExecutor(cores) as pool:
            try:
                try:
                    for step in _ahead(self._steps(todo, pool), cores * AHEAD):
                        self._take(step)
                        self._progress(self._done_bytes, total, "packing")
                finally:
                    self._name_complete()
            except OSError as error:
                problem = f"cannot write into {printable(self._destination)}: {error.strerror or error}"
                remedy = remedy_of(error, "mend that")
                raise PipebenchError(problem, f"{remedy}; run again, it goes on where it stopped") from error
            finally:
                pool.shutdown(wait=True, cancel_futures=True)
                for left in (*(one for one, _ in self._complete), *([self._writer] if self._writer else [])):
                    left.discard()
        elapsed = time.monotonic() - begin
        self._progress(total, total, "measuring a crop")
        return Packing(
            destination=printable(self._destination),
            files=len(targets) - len(self._failures),
            packed=self._counts.packed,
            before_bytes=self._counts.packed_before,
            after_bytes=self._counts.packed_after,
            elapsed_s=elapsed,
            unchanged=self._counts.unchanged,
            others=self._counts.others,
            earlier=len(targets) - len(todo),
            rate=self._packed_now / self._cpu_s if self._cpu_s else None,
            failures=tuple(self._failures),
            gain=gain.measured(self._pairs.kept),
        )

    def _is_finished(self, target: Target) -> bool:
        entry = self._journal.finished(target.name, target.signature)
        if entry is None:
            return False
        self._counts.add(entry.counts)
        self._done_bytes += target.source_bytes
        return True

    def _steps(self, todo: Sequence[Target], pool: ThreadPoolExecutor) -> Iterator[Step]:
        for target in todo:
            try:
                for member in target.members():
                    given = pool.submit(treated, member, *self._options) if member.extent else None
                    yield Step(target, member, given)
                yield Step(target)
            except SampleError as error:
                yield Step(target, error=error)

    def _take(self, step: Step) -> None:
        """Writes what `step` brings. A file of which a part cannot be read is left out and recorded."""
        if self._failures and self._failures[-1].sample == printable(step.target.name):
            return
        try:
            if step.error is not None:
                raise step.error
            self._write(step)
        except SampleError as error:
            if self._writer is not None:
                self._writer.discard()
                self._writer = None
            self._failures.append(
                BadSample("pack", printable(step.target.name), None, error.kind, printable(error.message), 0.0)
            )

    def _write(self, step: Step) -> None:
        if self._writer is None:
            self._writer, self._file, self._samples = Writer(self._destination, step.target), Counts(), []
            self._writer.open()
        if step.member is None:
            return self._end(self._writer, step.target)
        given = step.treated.result() if step.treated else Treated(None, Counts())
        place = self._writer.add(step.member, given.data)
        self._file.add(given.counts)
        if given.data is not None and step.member.extent is not None:
            self._samples.append((step.member.extent, place))
            self._cpu_s += given.cpu_s
            self._packed_now += given.counts.packed_before

    def _end(self, writer: Writer, target: Target) -> None:
        size = writer.complete()
        self._complete.append((writer, Entry(target.name, target.signature, size, self._file)))
        self._writer = None
        if len(self._complete) >= TOGETHER or sum(entry.size for _, entry in self._complete) >= TOGETHER_BYTES:
            self._name_complete()
        self._counts.add(self._file)
        self._done_bytes += target.source_bytes
        for pair in self._samples:
            self._pairs.add(*pair)

    def _name_complete(self) -> None:
        """Names the complete files once their bytes, and the journal's lines about them, are on the disk."""
        if not self._complete:
            return
        with ThreadPoolExecutor(16) as pool:
            list(pool.map(lambda one: one[0].sync(), self._complete))
        self._journal.note([entry for _, entry in self._complete])
        while self._complete:
            self._complete[0][0].name()
            del self._complete[0]


def _ahead(steps: Iterator[Step], many: int) -> Iterator[Step]:
    """The same steps, of which up to `many` are begun before the first is taken."""
    waiting: deque[Step] = deque()
    for step in steps:
        waiting.append(step)
        if len(waiting) > many:
            yield waiting.popleft()
    yield from waiting
