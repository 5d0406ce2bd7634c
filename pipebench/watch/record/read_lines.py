"""What a process read for the batches of a loader, by place: see `watch/record/reads.py`."""

from __future__ import annotations

from typing import NamedTuple

from pipebench.watch.record.line import line


class PlaceReads(NamedTuple):
    """The reads from one place: a bucket, a host or a mount.

    `kind` is the protocol, or the type of the file system; `name` the bucket or host, or the mount point ("": further
    places). `read_ns` is the time in reads, of which `lengths` has those that are complete, in logarithmic buckets.
    Files were opened, or asked for, `opens` times in `open_ns`. `retries` is None if the library does not tell.
    """

    kind: str
    name: str
    reads: int
    read_ns: int
    read_bytes: int
    opens: int
    open_ns: int
    retries: int | None
    lengths: dict[int, int]


@line
class ReadSums:
    """What one process read for a loader since its last line of this kind; `begin` as in FetchSums.

    `looked`: these are reads of files in so many `samples` only. Else they are all reads of libraries for remote files.
    """

    loader: int
    begin: int
    places: list[PlaceReads]
    looked: bool = False
    samples: int = 0
