"""The first look at a shard: how many images its bytes hold, and a local copy of its beginning, which is then read."""

from __future__ import annotations

import contextlib
import os
import queue
import tarfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from pipebench.data.listing import is_image
from pipebench.errors import PipebenchError, remedy_of
from pipebench.host import page_cache
from pipebench.remote.fetching import Failed, Fetch, Tally, shard
from pipebench.results.remote import LocalCopy, remedy_for
from pipebench.units import counted, printable, size

LOOK_BYTES = 64 << 20  # of the first shard; more only until there are `FEWEST` images
LOOK_S = 30.0  # a look takes no longer, besides a time-out
FEWEST = 16  # whole images: of fewer, the mean size says little, unless they are all of a shard
LEAST_COPY = 1 << 20  # bytes: of a smaller file, to open it is most of what is measured
_READINGS = 5
_COLD = 0.02  # share of pages that may be in the page cache
_PIECE = 1 << 20
_AHEAD = 64  # pieces that wait to be counted


@dataclass(frozen=True)
class Look:
    """What the beginning of a shard holds: so many whole `images` in `looked_bytes`.

    `came` says that the server gave this beginning in the end. `tally` has what happened to the requests.
    """

    images: int
    looked_bytes: int
    tally: Tally
    came: bool = True


def look(fetch: Fetch, address: str, copy: Path, timeout_s: float, retries: int) -> Look:
    """Counts the images in the beginning of a shard, and writes that beginning to `copy`.

    Raises PipebenchError where the server gives no shard with images, or too few to tell their size, and where the copy
    cannot be written. A thread fetches, so that an interrupt is heard at once whatever it waits for.
    """
    stop, tally, found = threading.Event(), Tally(), list[Any]()
    taking = _Taking(copy, stop)
    thread = threading.Thread(
        target=lambda: found.append(shard(fetch, address, tally, stop, retries, taking.again)), daemon=True
    )
    thread.start()
    latest = time.monotonic() + LOOK_S
    try:
        while thread.is_alive() and time.monotonic() < latest:
            thread.join(0.1)
    finally:
        stopped = thread.is_alive() and not stop.is_set()
        stop.set()
    thread.join(timeout_s)
    counts = taking.counted()
    if (refused := taking.refused) is not None:  # by this machine: the server has nothing to do with it
        remedy = remedy_of(refused, "set TMPDIR to a folder that takes some 64 MB")
        raise PipebenchError(f"cannot write {printable(copy)}: {refused.strerror}", remedy) from refused
    failed = found[0] if found else None
    if counts.whole >= FEWEST or (counts.whole and counts.ended):
        return Look(counts.whole, counts.until, tally, came=failed is None)
    raise _too_few(counts, failed, taking.came, tally, stopped)


def _too_few(counts: Counts, failed: Failed | None, came: int, tally: Tally, stopped: bool) -> PipebenchError:
    """What is missing, and what helps. `came` are the bytes of the last attempt; `stopped`: the look ended it."""
    kind = failed.kind if failed is not None else "timed-out"
    attempts = ", ".join(f"{one} × {count}" for one, count in tally.failures.items()) or kind
    attempts = f"{attempts} in {counted(tally.requests, 'attempt')}"
    helps = remedy_for(kind)
    if not counts.begun and (failed is not None or not tally.bytes_read):
        return PipebenchError(f"the first shard does not come ({attempts})", helps)
    if not counts.begun:
        remedy = "name shards of webdataset: tars with images; others are not counted"
        return PipebenchError("the first shard holds no image", remedy)
    why, remedy = f"in {LOOK_S:.0f} s", "check the server: it is too slow to be measured (curl -o /dev/null)"
    if failed is not None:
        why, remedy = f"({attempts})", helps
    elif not stopped:
        why = "and then it is no tar any more"
        remedy = "check the shard (tar tf): it may be cut; or name another one first"
    held = f"the first {size(came)} of the first shard hold {counted(counts.whole, 'whole image')}, {why}"
    return PipebenchError(f"{held}: no rate of images follows from less than {FEWEST}", remedy)


@dataclass
class Counts:
    """Images of a tar that have `begun`, those that came `whole`, the bytes `until` there, and if the tar `ended`."""

    begun: int = 0
    whole: int = 0
    until: int = 0
    ended: bool = False


class _Taking:
    """Takes the bytes of one attempt after the other: each is written to the copy and counted from its start."""

    def __init__(self, copy: Path, stop: threading.Event) -> None:
        self._copy, self._stop = copy, stop
        self._counting: _Counting | None = None
        self._file: BinaryIO | None = None
        self._written = self.came = 0
        self.refused: OSError | None = None  # why the copy cannot be written

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self.refused = error
            self._stop.set()

    def again(self) -> Callable[[bytes], None]:
        self.counted()
        self._counting = _Counting()
        with self._writing():
            self._file = open(self._copy, "wb")  # noqa: SIM115  # closed by `counted`
        self._written = self.came = 0
        return self._take

    def _take(self, part: bytes) -> None:
        if self._stop.is_set() or self._counting is None or self._file is None:
            return
        self._counting.take(part)
        self.came += len(part)
        if self._written < LOOK_BYTES:
            with self._writing():
                self._file.write(part)
            self._written += len(part)
        elif self._counting.found.whole >= FEWEST:
            self._stop.set()

    def counted(self) -> Counts:
        """The images of the last attempt. Closes the copy."""
        if self._file is not None:
            with self._writing():
                self._file.close()
        return self._counting.result() if self._counting is not None else Counts()


class _Counting:
    """Counts images in a tar while its bytes come: a thread reads them as a stream, which may be compressed."""

    def __init__(self) -> None:
        self._parts: queue.Queue[bytes] = queue.Queue(_AHEAD)
        self._rest, self._taken = b"", 0
        self.found = Counts()
        self._thread = threading.Thread(target=self._count, daemon=True)
        self._thread.start()

    def take(self, part: bytes) -> None:
        while self._thread.is_alive():  # it ends at garbage and at the end of the tar
            with contextlib.suppress(queue.Full):
                return self._parts.put(part, timeout=0.1)

    def result(self) -> Counts:
        self.take(b"")
        self._thread.join()
        return self.found

    def read(self, count: int) -> bytes:
        """What `tarfile` reads: bytes as they come; none after the end."""
        if not self._rest:
            self._rest = self._parts.get()
            if not self._rest:
                self._parts.put(b"")
        part, self._rest = self._rest[:count], self._rest[count:]
        self._taken += len(part)
        return part

    def _count(self) -> None:
        """A member is whole once the header after it, or the end, was read."""
        found = self.found
        with contextlib.suppress(Exception), tarfile.open(fileobj=self, mode="r|*") as tar:  # type: ignore[call-overload]  # hostile headers make it raise more than its own errors
            for member in tar:
                tar.members.clear()  # it keeps every header otherwise
                found.whole, found.until = found.begun, self._taken
                found.begun += member.isreg() and is_image(member.name)
            found.whole, found.until, found.ended = found.begun, self._taken, True


def local(copy: Path) -> LocalCopy | None:
    """Readings of the copy from the page cache, and from storage where the kernel can show that. None: it is small."""
    path, length = str(copy), os.path.getsize(copy)
    if length < LEAST_COPY:
        return None
    cold, warm = [], []
    for _ in range(_READINGS):
        page_cache.drop([path])
        resident = page_cache.residency([path])
        if resident is not None and resident <= _COLD:
            cold.append(length / _seconds(path))
        page_cache.fill([path])
        warm.append(length / _seconds(path))
    return LocalCopy(length, tuple(cold), tuple(warm))


def _seconds(path: str) -> float:
    buffer = bytearray(_PIECE)
    begin = time.perf_counter()
    with open(path, "rb", buffering=0) as file:
        while file.readinto(buffer):
            pass
    return time.perf_counter() - begin
