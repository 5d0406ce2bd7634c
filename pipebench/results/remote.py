"""The result of `remote`: what shards on a server give, by the number of connections, and what failed on the way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean, median

from pipebench.stats import Interval, next_run

_REMEDIES = {  # of failures, by their word in `Traffic`
    "http-401": "sign in, or use an address that is signed",
    "http-403": "check the credentials, or sign the address again: it may have ended",
    "http-404": "check the address",
    "timed-out": "check that the server can be reached (curl -I), or raise --timeout",
    "not-connected": "check host, port and proxy (curl -I)",
    "proxy": "name a proxy of HTTP (https_proxy=http://host:port), or except the server from it (no_proxy=host)",
    "tls": "check the certificate of the server (curl -I); SSL_CERT_FILE names others to trust",
    "cut-short": "check the server: it ends its answers before their end",
    "reset": "check the server: it resets connections",
    "empty": "check the address: its answer has no byte",
    "redirected": "check the address: it leads from one to another without an end",
    "http-408": "try it later: the server is busy",
    "http-429": "try it later, or with fewer --connections: the server limits requests",
}
FEWEST_WINDOWS = 3  # with an interval: of two, one difference would say how far windows differ, and it may be 0
BUSY = 0.8  # of a core: with more, this process may be the limit, and not the server


def remedy_for(kind: str) -> str:
    """What helps against a failure."""
    if kind.startswith("http-5"):
        return "try it later: the server is faulty or busy"
    return _REMEDIES.get(kind, "check the address (curl -I)")


@dataclass(frozen=True)
class Traffic:
    """What happened to requests. A high number of `retries` means that the rate was bought with waiting.

    `failures` counts attempts that failed, by how: `timed-out` (no byte for the time-out), `reset`, `cut-short` (fewer
    bytes than the server had announced), `empty` (no byte at all), `redirected` (without an end), `not-connected`,
    `proxy` (the environment names one that is not of HTTP), `tls`, `not-http`, or the status, such as `http-403`.
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

    Images are derived from bytes: the first shard has `images` whole ones in its first `looked_bytes`. `set_bytes` is
    the size of all shards, from those whose size the server said (None: it said none). `read_bytes` is all that was
    fetched. `local` is None where the first shard did not come, or what came of it is too small to be timed.
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
        """Images per second of another run, with its interval: from the windows of a row, which has at least one.

        With fewer than `FEWEST_WINDOWS`, or an empty one, the confidence is 0: the values reach from `low` to `high`.
        """
        found = [self.images_per_s(one) for one in row.bytes_per_s]
        if len(found) >= FEWEST_WINDOWS and min(found) > 0:
            return next_run(found)
        return Interval(fmean(found), min(found), max(found), 0.0)

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
        """Whether any byte came in a window, besides those of attempts that failed."""
        return any(any(one.bytes_per_s) for one in self.rows)

    @property
    def best(self) -> Connections:
        """The row with the highest rate."""
        return max(self.rows, key=lambda one: self.rate(one).median)

    @property
    def traffic(self) -> Traffic:
        """All that happened, the first look included."""
        return together([self.look, *(one.traffic for one in self.rows)])
