"""What the samples of a loader are read from: buckets, hosts and mounts."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ReadPlace:
    """The reads of one loader's samples from one place.

    `place` is a bucket, a host or a mount point, and `kind` the protocol or the type of the file system; both are ""
    for all places behind the first 16 of a process. `remote`: a library for remote files made the reads, and all of
    them are counted. Else they are reads of files in some `samples` that were looked into. `reads` is how many there
    were, and `reads_per_sample` the same per sample. `bytes_per_s` is what came per second of reading. `p50_s`, `p99_s`
    and `longest_s` are of one read, within 6 %; with fewer than 100 reads there is no 99th percentile. `retries` is
    None if the library does not tell. `share` is the time in reads and opens, as a share of the time in which batches
    are made.

    `looks_share` is the share of the looks from outside in which a worker's thread waited for a file there (None: it
    never did). A place that only those saw has no reads. What is not known is None.
    """

    loader: int
    place: str
    kind: str
    remote: bool
    samples: int = 0
    reads: int = 0
    reads_per_sample: float | None = None
    bytes_per_s: float | None = None
    p50_s: float | None = None
    p99_s: float | None = None
    longest_s: float | None = None
    retries: int | None = None
    share: float | None = None
    looks_share: float | None = None
