"""The record file. Each process appends lines to a file of its own, and `watch.read` reads them.

`lines` defines every kind of line. The file is opened for each append and closed again. A script that closes every
descriptor therefore does no harm, and a script that is killed can spoil only its last line. No locks, no queues.
"""

from __future__ import annotations

import contextlib
import json
import os
import time

from pipebench.watch.record.lines import BatchInFull, IterationInFull, Line

SUFFIX = ".spans"
STOPPED = ".stopped"
WITHOUT_GRADIENTS = " without gradients"
"""What follows the name of a span in a loop that began while torch recorded no gradients, as in an evaluation."""
_IN_FULL_BYTES = 8_000_000
_encode = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode


def encoded(*lines: Line) -> bytes:
    """The lines as JSON, one a line: each is a list of its class's name and its fields."""
    return "".join([_encode([type(line).__name__, vars(line)]) + "\n" for line in lines]).encode()


class RecordFile:
    """The append-only file of one process. If a write fails, the file is renamed to `*.stopped` and writing ends.

    Renaming needs no space, so the supervisor learns from the name that the disk is full. `earlier` is the number of
    similar processes before this one, because a loader starts new workers for each pass. Later processes keep less in
    full, so the sum is bounded.
    """

    def __init__(self, folder: str, earlier: int = 0) -> None:
        self.pid = os.getpid()
        self.room = _IN_FULL_BYTES // (1 + earlier) ** 2
        self.began = time.perf_counter_ns()
        self.path = os.path.join(folder, f"{self.pid}-{self.began}{SUFFIX}")
        self.in_full_bytes = 0
        self.stopped = False

    def write(self, *lines: Line) -> None:
        if lines and not self.stopped:
            self._append(encoded(*lines))

    def write_in_full(self, line: BatchInFull | IterationInFull) -> None:
        """Writes a line of full detail while there is room. The room is bounded, however long the process runs."""
        if self.stopped or self.in_full_bytes > self.room:
            return
        text = encoded(line)
        self.in_full_bytes += len(text)
        self._append(text)

    def _append(self, line: bytes) -> None:
        try:
            descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                written = os.write(descriptor, line)
            finally:
                os.close(descriptor)
            if written != len(line):
                raise OSError("short write")
        except OSError:
            self.stopped = True
            with contextlib.suppress(OSError):
                os.rename(self.path, self.path.removesuffix(SUFFIX) + STOPPED)


_SUB = 4


def bucket(nanoseconds: int) -> int:
    """The logarithmic bucket of a duration. An octave has 16 buckets, so a percentile read from them is within 6 %."""
    shift = nanoseconds.bit_length() - _SUB - 1
    return nanoseconds if shift <= 0 else (shift << _SUB) + (nanoseconds >> shift)


def bucket_middle(index: int) -> float:
    """The duration, in nanoseconds, in the middle of a bucket."""
    if index < 2 << _SUB:
        return float(index)
    shift = (index >> _SUB) - 1
    return float(((index - (shift << _SUB)) << shift) + (1 << shift) / 2)


PHASES = ("wait", "host-to-device", "forward", "backward", "optimiser", "other", "spans")


WAIT, TRANSFER, FORWARD, BACKWARD, OPTIMISER, OTHER, SPANS = range(len(PHASES))


# "rest" is what no other part of the wait holds: torch's own code, and the recording.
WAIT_PARTS = (
    "rest", "sampler", "send-indices", "wait-for-worker", "receive", "unpickle", "pin", "make-batch", "after-loader",
)  # fmt: skip


SAMPLER, SEND, WORKERS, RECEIVE, UNPICKLE, PIN, MAKE, AFTER = range(1, len(WAIT_PARTS))
