"""What several connections give at once: windows of a fixed length, by the number of connections, in turn."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pipebench.remote.fetching import MOST_TIMES, Fetch, Tally, shard
from pipebench.results.remote import Connections, Traffic, together

WINDOWS = 4  # of each number of connections
LEAD_IN_S = 2.0  # a window opens when every connection has had a byte, and at the latest after so long
_FLAT = 1.1  # doubling the connections must bring so much, or the server gives no more
_PAUSE_S = 0.2  # of a connection whose shard was given up

Rate = Callable[[float], float]  # bytes per second -> images per second
Opened = Callable[[int], "Window"]


@dataclass(frozen=True)
class Window:
    """One window: its bytes per second, what its connections did, and the cores that this process used."""

    bytes_per_s: float
    traffic: Traffic
    first_byte_s: tuple[float, ...] = ()
    cores: float = 0.0
    size_bytes: dict[str, int] = field(default_factory=dict)
    bytes_read: int = 0


class Server:
    """The shards on a server. `window` streams them with so many connections for `window_s`.

    A shard that the server refuses for good is not asked for again. The last attempt at `doubtful` shards has failed.
    What waits at the end of a window is waited for, at most a time-out and a pause, so that it is counted and does not
    disturb the next.
    """

    def __init__(
        self,
        fetch: Fetch,
        addresses: Sequence[str],
        window_s: float,
        timeout_s: float,
        retries: int,
        doubtful: Iterable[str] = (),
    ) -> None:
        self._fetch, self._addresses = fetch, list(addresses)
        self._window_s, self._timeout_s, self._retries = window_s, timeout_s, retries
        self._doubtful = set(doubtful)
        self._next = 0
        self._lock = threading.Lock()

    def window(self, connections: int) -> Window:
        stop, tally = threading.Event(), Tally(doubtful=self._doubtful)
        threads = [
            threading.Thread(target=self._connection, args=(tally, stop), daemon=True) for _ in range(connections)
        ]
        try:
            for one in threads:
                one.start()
            self._lead_in(tally, threads)
            with tally.lock:
                tally.open = True
            begin, cpu = time.monotonic(), time.process_time()
            self._wait(threads, begin + self._window_s)
            with tally.lock:
                tally.open = False
            took, used = max(1e-9, time.monotonic() - begin), time.process_time() - cpu
        finally:
            stop.set()
        self._wait(threads, time.monotonic() + 2 * self._timeout_s + _PAUSE_S)
        with tally.lock:
            return Window(
                max(0, tally.counted) / took, tally.traffic, tuple(tally.first_byte_s), used / took,
                dict(tally.size_bytes), tally.bytes_read,
            )  # fmt: skip

    def _lead_in(self, tally: Tally, threads: Sequence[threading.Thread]) -> None:
        latest = time.monotonic() + min(LEAD_IN_S, self._timeout_s)
        while time.monotonic() < latest and len(tally.first_byte_s) < len(threads):
            if not any(one.is_alive() for one in threads):
                return
            time.sleep(0.005)

    def _wait(self, threads: Sequence[threading.Thread], until: float) -> None:
        for one in threads:
            one.join(max(0.0, until - time.monotonic()))

    def _connection(self, tally: Tally, stop: threading.Event) -> None:
        while not stop.is_set():
            with self._lock:
                if not self._addresses:
                    return
                address = self._addresses[self._next % len(self._addresses)]
                self._next += 1
            failed = shard(self._fetch, address, tally, stop, self._retries)
            if failed is not None and failed.permanent:
                with self._lock:
                    self._addresses = [one for one in self._addresses if one != address]
            elif failed is not None:
                stop.wait(_PAUSE_S)


def next_count(rates: Mapping[int, float], feed: float | None, most: int) -> int | None:
    """Which number of connections to try next, after those with these images per second. None: none is needed.

    It doubles until the rate to be fed is reached or, without one, until doubling brings little. Then it tries where a
    line between the last two numbers reaches that rate, and a little more than the largest if that alone does: its
    interval may be wide.
    """
    largest = max(rates, default=0)
    if feed is None or not any(rate >= feed for rate in rates.values()):
        if largest >= most or (largest >= 2 and max(rates.values()) <= 0):
            return None
        before = rates.get(largest // 2, 0.0)
        if feed is None and largest >= 2 and rates[largest] < _FLAT * before:
            return None
        return min(most, 2 * largest) if largest else 1
    enough = min(count for count, rate in rates.items() if rate >= feed)
    below = max((count for count in rates if count < enough), default=enough)
    if enough - below >= 2:
        share = (feed - rates[below]) / (rates[enough] - rates[below])
        wanted = below + math.ceil(share * (enough - below))
        if wanted < enough:
            return wanted
    return min(most, enough + max(1, enough // 4)) if enough == largest < most else None


def measure(
    window: Opened,
    feed: float | None,
    most: int,
    rate: Rate,
    windows: int = WINDOWS,
    keep: Callable[[list[Connections]], None] = lambda rows: None,
    progress: Callable[[int, int, str], None] = lambda done, total, what: None,
) -> list[Connections]:
    """Rows by the number of connections. Once the numbers are known, their windows take turns, so that drift cancels.

    `keep` gets the rows so far after every window.
    """
    rows: dict[int, Connections] = {}

    def add(count: int) -> None:
        what = f"{count} connection{'s' if count > 1 else ''}"
        progress(sum(len(one.bytes_per_s) for one in rows.values()), windows * max(1, len(rows)), what)
        rows[count] = _with(rows.get(count), count, window(count))
        keep([rows[one] for one in sorted(rows)])

    while (count := next_count({one: rate(row.bytes_per_s[0]) for one, row in rows.items()}, feed, most)) is not None:
        add(count)
    counts = sorted(rows)
    for number in range(1, windows):
        for count in counts if number % 2 else reversed(counts):
            add(count)
    return [rows[one] for one in counts]


def _with(row: Connections | None, count: int, one: Window) -> Connections:
    """The row with one window more."""
    if row is None:
        return Connections(count, (one.bytes_per_s,), one.first_byte_s[:MOST_TIMES], one.traffic, one.cores)
    done = len(row.bytes_per_s)
    return replace(
        row,
        bytes_per_s=(*row.bytes_per_s, one.bytes_per_s),
        first_byte_s=(*row.first_byte_s, *one.first_byte_s)[:MOST_TIMES],
        traffic=together([row.traffic, one.traffic]),
        cores=(row.cores * done + one.cores) / (done + 1),
    )
