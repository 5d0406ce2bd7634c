"""The first look at a shard: how many images its bytes hold, and a local copy of its beginning, which is then read."""

from __future__ import annotations

import contextlib
import os
import queue
import tarfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from pipebench.data.listing import is_image
from pipebench.errors import PipebenchError
from pipebench.host import page_cache
from pipebench.remote.fetching import Fetch, Tally, shard
from pipebench.results.remote import LocalCopy

LOOK_BYTES = 64 << 20  # of the first shard
LOOK_S = 30.0  # a look takes no longer, besides a time-out
_READINGS = 5
_COLD = 0.02  # share of pages that may be in the page cache
_PIECE = 1 << 20
_AHEAD = 64  # pieces that wait to be counted
_REMEDIES = {
    "http-401": "sign in, or use an address that is signed",
    "http-403": "check the credentials, or sign the address again: it may have ended",
    "http-404": "check the address",
    "timed-out": "check that the server can be reached (curl -I), or raise --timeout",
    "not-connected": "check host, port and proxy (curl -I)",
    "tls": "check the certificate of the server (curl -I); SSL_CERT_FILE names others to trust",
    "cut-short": "check the server: it ends its answers before their end",
    "reset": "check the server: it resets connections",
}


@dataclass(frozen=True)
class Look:
    """What the beginning of a shard holds: `images` in `looked_bytes`. `tally` has what happened to the requests."""

    images: int
    looked_bytes: int
    tally: Tally


def look(fetch: Fetch, address: str, copy: Path, timeout_s: float, retries: int) -> Look:
    """Counts the images in the beginning of a shard, and writes that beginning to `copy`.

    Raises PipebenchError where the server gives no shard with images. A thread fetches, so that an interrupt is heard
    at once whatever it waits for.
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
        stop.set()
    thread.join(timeout_s)
    images, looked_bytes = taking.counted()
    failed = found[0] if found else None
    if not images and (failed is not None or not tally.bytes_read):
        kind = failed.kind if failed is not None else "timed-out"
        counts = ", ".join(f"{one} × {count}" for one, count in tally.failures.items()) or kind
        problem = f"the first shard does not come ({counts} in {tally.requests} attempts)"
        raise PipebenchError(problem, _REMEDIES.get(kind, "check the address (curl -I)"))
    if not images:
        raise PipebenchError(
            "the first shard holds no image", "name shards of webdataset: tars with images; others are not counted"
        )
    return Look(images, looked_bytes, tally)


class _Taking:
    """Takes the bytes of one attempt after the other: each is written to the copy and counted from its start."""

    def __init__(self, copy: Path, stop: threading.Event) -> None:
        self._copy, self._stop = copy, stop
        self._counting: _Counting | None = None
        self._file: BinaryIO | None = None
        self._written = 0

    def again(self) -> Callable[[bytes], None]:
        self.counted()
        self._counting = _Counting()
        self._file = open(self._copy, "wb")  # noqa: SIM115  # closed by `counted`
        self._written = 0
        return self._take

    def _take(self, part: bytes) -> None:
        if self._stop.is_set() or self._counting is None or self._file is None:
            return
        self._counting.take(part)
        self._file.write(part)
        self._written += len(part)
        if self._written >= LOOK_BYTES:
            self._stop.set()

    def counted(self) -> tuple[int, int]:
        """The images of the last attempt, and the bytes in which they are. Closes the copy."""
        if self._file is not None:
            self._file.close()
        return self._counting.result() if self._counting is not None else (0, 0)


class _Counting:
    """Counts images in a tar while its bytes come: a thread reads them as a stream, which may be compressed."""

    def __init__(self) -> None:
        self._parts: queue.Queue[bytes] = queue.Queue(_AHEAD)
        self._rest, self._taken = b"", 0
        self._images, self._until = 0, 0
        self._thread = threading.Thread(target=self._count, daemon=True)
        self._thread.start()

    def take(self, part: bytes) -> None:
        while self._thread.is_alive():  # it ends at garbage and at the end of the tar
            with contextlib.suppress(queue.Full):
                return self._parts.put(part, timeout=0.1)

    def result(self) -> tuple[int, int]:
        self.take(b"")
        self._thread.join()
        return self._images, self._until

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
        with contextlib.suppress(Exception), tarfile.open(fileobj=self, mode="r|*") as tar:  # type: ignore[call-overload]  # hostile headers make it raise more than its own errors
            for member in tar:
                tar.members.clear()  # it keeps every header otherwise
                self._images += member.isreg() and is_image(member.name)
                self._until = self._taken


def local(copy: Path) -> LocalCopy | None:
    """Readings of the copy from the page cache, and from storage where the kernel can show that. None: it is empty."""
    path, size = str(copy), os.path.getsize(copy)
    if not size:
        return None
    cold, warm = [], []
    for _ in range(_READINGS):
        page_cache.drop([path])
        resident = page_cache.residency([path])
        if resident is not None and resident <= _COLD:
            cold.append(size / _seconds(path))
        page_cache.fill([path])
        warm.append(size / _seconds(path))
    return LocalCopy(size, tuple(cold), tuple(warm))


def _seconds(path: str) -> float:
    buffer = bytearray(_PIECE)
    begin = time.perf_counter()
    with open(path, "rb", buffering=0) as file:
        while file.readinto(buffer):
            pass
    return time.perf_counter() - begin
