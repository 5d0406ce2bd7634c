"""The result of `remote`: what shards on a server give, by the number of connections, and what failed on the way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean, median

from pipebench.stats import Interval, next_run

BUSY = 0.8  # of a core: with more, this process may be the limit, and not the server


@dataclass(frozen=True)
class Traffic:
    """What happened to requests. A high number of `retries` means that the rate was bought with waiting.

    `failures` counts attempts that failed, by how: `timed-out` (no byte for the time-out), `reset`, `cut-short` (fewer
    bytes than the server had announced), `not-connected`, `tls`, `not-http`, or the status, such as `http-403`.
    `retries` of them were tried again. `given_up` are shards that were not: it cannot help, or there were too many.
    """

    requests: int = 0
    retries: int = 0
    given_up: int = 0
    failures: dict[str, int] = field(default_factory=dict)

    @property
    def failed(self) -> int:
        return sum(self.failures.values())


def together(found: Sequence[Traffic]) -> Traffic:
    """The sums of several."""
    kinds = dict.fromkeys(kind for one in found for kind in one.failures)
    return Traffic(
        sum(one.requests for one in found),
        sum(one.retries for one in found),
        sum(one.given_up for one in found),
        {kind: sum(one.failures.get(kind, 0) for one in found) for kind in kinds},
    )


@dataclass(frozen=True)
class Connections:
    """The windows that were measured with so many connections, each of which streams one shard after another.

    A window gives its bytes per second, without those of attempts that failed. `first_byte_s` has the time from the
    beginning of a request to the first byte of its answer, connecting included. `cores` is what this process used.
    """

    connections: int
    bytes_per_s: tuple[float, ...]
    first_byte_s: tuple[float, ...]
    traffic: Traffic
    cores: float

    @property
    def first_byte_median_s(self) -> float | None:
        return median(self.first_byte_s) if self.first_byte_s else None


@dataclass(frozen=True)
class LocalCopy:
    """Readings of a copy of the beginning of the first shard, in the folder for temporary files, in bytes per second.

    `cold`: not in this machine's page cache. It has no readings where the kernel cannot show that.
    """

    size_bytes: int
    cold_bytes_per_s: tuple[float, ...]
    warm_bytes_per_s: tuple[float, ...]


@dataclass(frozen=True)
class Remote:
    """What a server gives to so many connections at once, and how many of them feed `feed` images per second.

    Images are derived from bytes: the first shard has `images` in its first `looked_bytes`. `set_bytes` is the size of
    all shards, from those whose size the server said (None: it said none). `read_bytes` is all that was fetched.
    """

    addresses: tuple[str, ...]
    shards: int
    feed: float | None
    images: int
    looked_bytes: int
    set_bytes: float | None
    look: Traffic
    rows: tuple[Connections, ...]
    local: LocalCopy | None
    window_s: float
    timeout_s: float
    most_retries: int
    read_bytes: int

    def images_per_s(self, bytes_per_s: float) -> float:
        return bytes_per_s * self.images / self.looked_bytes

    def rate(self, row: Connections) -> Interval:
        """Images per second of another run, with its interval: from the windows of a row, which has at least one."""
        found = [self.images_per_s(one) for one in row.bytes_per_s]
        if len(found) > 1 and min(found) > 0:
            return next_run(found)
        return Interval(fmean(found), 0.0 if len(found) > 1 else found[0], max(found), 0.0)

    @property
    def may_do(self) -> Connections | None:
        """The fewest connections whose rate is the one to be fed, or more. None: none was asked for, or none does."""
        feed = self.feed
        return None if feed is None else next((one for one in self.rows if self.rate(one).median >= feed), None)

    @property
    def needed(self) -> Connections | None:
        """The fewest connections of whose rate the whole interval is the one to be fed, or more. None: none are."""
        feed, told = self.feed, (one for one in self.rows if self.rate(one).confidence)
        return None if feed is None else next((one for one in told if self.rate(one).low >= feed), None)

    @property
    def gave(self) -> bool:
        """Whether any byte came in a window."""
        return any(any(one.bytes_per_s) for one in self.rows)

    @property
    def best(self) -> Connections:
        """The row with the highest rate."""
        return max(self.rows, key=lambda one: self.rate(one).median)

    @property
    def traffic(self) -> Traffic:
        """All that happened, the first look included."""
        return together([self.look, *(one.traffic for one in self.rows)])
