"""Fetches shards over HTTP as webdataset's pipes do: one request for a shard, streamed on a connection of its own.

Nothing here waits without an end: connecting and each read have a time-out, retries are bounded, and a stop is seen
after every read. Each failure has a word, and is counted.
"""

from __future__ import annotations

import http.client
import os
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import unquote
from urllib.request import getproxies, proxy_bypass

from pipebench.results.remote import Traffic

CHUNK = 1 << 16
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 2.0  # before a retry; each is twice as long as the one before
_AGAIN = (408, 429)  # statuses below 500 that another time may not have
MOST_TIMES = 1000  # times to the first byte that a row keeps


class Failed(Exception):
    """One attempt failed. `kind` is one of the words of `Traffic`; a retry cannot help where it is `permanent`."""

    def __init__(self, kind: str, permanent: bool = False) -> None:
        super().__init__(kind)
        self.kind = kind
        self.permanent = permanent


@dataclass
class Tally:
    """What the connections of one window did, counted by their threads."""

    requests: int = 0
    retries: int = 0
    given_up: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    first_byte_s: list[float] = field(default_factory=list)
    size_bytes: dict[str, int] = field(default_factory=dict)  # of the shards whose size the server said
    bytes_read: int = 0
    counted: int = 0  # bytes that came while the window was open, without those of attempts that failed
    open: bool = False
    doubtful: set[str] = field(default_factory=set)  # addresses whose last attempt failed; windows share it
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def traffic(self) -> Traffic:
        return Traffic(self.requests, self.retries, self.given_up, dict(sorted(self.failures.items())))


class Fetch(Protocol):
    """One attempt to stream one address. Returns if all of it came or `stop` was set; else raises `Failed`."""

    def __call__(self, address: str, tally: Tally, stop: threading.Event, take: Callable[[bytes], None], /) -> None: ...


class Fetcher:
    """Attempts with urllib3. Raises ImportError where it is missing."""

    def __init__(self, timeout_s: float) -> None:
        import urllib3

        self._timeout = urllib3.Timeout(connect=timeout_s, read=timeout_s)
        # No retry of its own, so that each is counted here; redirects are followed.
        self._retry = urllib3.Retry(
            total=None, connect=0, read=0, status=0, other=0, redirect=5, raise_on_redirect=True
        )

    def __call__(self, address: str, tally: Tally, stop: threading.Event, take: Callable[[bytes], None]) -> None:
        import urllib3

        headers = {"Accept-Encoding": "identity", "Connection": "close", "User-Agent": "pipebench"}
        with tally.lock:
            tally.requests += 1
        try:
            with _client(address) as client:
                begin = time.monotonic()
                answer = client.request(
                    "GET", address, preload_content=False, timeout=self._timeout, retries=self._retry, headers=headers
                )
                try:
                    self._stream(answer, address, begin, tally, stop, take)
                finally:
                    answer.close()
        except (urllib3.exceptions.HTTPError, http.client.HTTPException, OSError) as error:
            raise _failed(error) from error

    def _stream(
        self,
        answer: Any,
        address: str,
        begin: float,
        tally: Tally,
        stop: threading.Event,
        take: Callable[[bytes], None],
    ) -> None:
        if answer.status >= 400:
            raise Failed(f"http-{answer.status}", answer.status < 500 and answer.status not in _AGAIN)
        announced = answer.headers.get("Content-Length", "")
        came = 0
        while not stop.is_set():
            part = answer.read1(CHUNK)
            if not part:
                break
            with tally.lock:
                if not came and len(tally.first_byte_s) < MOST_TIMES:
                    tally.first_byte_s.append(time.monotonic() - begin)
                if not came and announced.isdecimal():
                    tally.size_bytes[address] = int(announced)
                tally.bytes_read += len(part)
            came += len(part)
            take(part)
        if announced.isdecimal() and came < int(announced) and not stop.is_set():
            raise Failed("cut-short")
        if not came and not stop.is_set():
            raise Failed("empty", permanent=True)


def _client(address: str) -> Any:
    """A client without connections. It goes by the proxy that the environment names for the scheme of the address.

    A proxy without a scheme is one of HTTP, as for curl. Raises urllib3's ProxySchemeUnknown for one that is not.
    """
    import urllib3

    scheme, _, rest = address.partition("://")
    host = rest.partition("/")[0].rpartition("@")[2]
    proxy = getproxies().get(scheme.lower())
    verify = os.environ.get("SSL_CERT_FILE") or os.environ.get("REQUESTS_CA_BUNDLE")
    options: dict[str, Any] = {"ca_certs": verify} if verify else {}
    if not proxy or proxy_bypass(host):
        return urllib3.PoolManager(**options)
    proxy = proxy if "://" in proxy else f"http://{proxy}"
    if signed_in := urllib3.util.parse_url(proxy).auth:  # in Latin-1, every byte stays as it is
        options["proxy_headers"] = urllib3.make_headers(proxy_basic_auth=unquote(signed_in, "latin-1"))
    return urllib3.ProxyManager(proxy, **options)


def _failed(error: BaseException) -> Failed:
    """What went wrong, from urllib3's exceptions and those that they hold."""
    import urllib3

    of = urllib3.exceptions
    if isinstance(error, of.MaxRetryError) and error.reason is not None:
        return _failed(error.reason)
    words = (  # in this order: some that are not connected are time-outs too
        ("proxy", True, of.ProxySchemeUnknown),
        ("redirected", True, of.ResponseError),
        ("cut-short", False, of.IncompleteRead | http.client.IncompleteRead),
        ("not-connected", False, of.NewConnectionError | of.ProxyError | ConnectionRefusedError),
        ("timed-out", False, of.TimeoutError | TimeoutError),
        ("tls", True, of.SSLError),
    )
    for word, permanent, kinds in words:
        if isinstance(error, kinds):
            return Failed(word, permanent)
    inner = error.args[1] if isinstance(error, of.ProtocolError) and len(error.args) > 1 else None
    if isinstance(inner, BaseException) and inner is not error:
        return _failed(inner)
    if isinstance(error, ConnectionError | http.client.RemoteDisconnected):
        return Failed("reset")
    return Failed("not-http", permanent=True)


def shard(
    fetch: Fetch,
    address: str,
    tally: Tally,
    stop: threading.Event,
    most_retries: int,
    taker: Callable[[], Callable[[bytes], None]] | None = None,
) -> Failed | None:
    """Streams one shard, with at most `most_retries` further attempts. Returns why it was given up; None if it was not.

    An attempt begins with a new `taker()`, because a shard that failed is streamed from its start again, as curl does.
    Of an attempt that fails, no byte counts; nor of one that is stopped, if the one before it failed: it may fail, too.
    """
    for number in range(most_retries + 1):
        if number and stop.wait(min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2 ** (number - 1))):
            return None
        mine = _Counting(tally, taker() if taker else None)
        try:
            fetch(address, tally, stop, mine)
        except Failed as failed:
            last = failed
        else:
            mine.settle(address, whole=not stop.is_set())
            return None
        with tally.lock:
            tally.doubtful.add(address)
            tally.counted -= mine.counted
            tally.failures[last.kind] += 1
            again = number < most_retries and not last.permanent and not stop.is_set()
            tally.retries += again
            tally.given_up += not again and not stop.is_set()
        if not again:
            break
    return last


class _Counting:
    """Takes the bytes of one attempt, counts those that come while the window is open, and hands them on."""

    def __init__(self, tally: Tally, take: Callable[[bytes], None] | None) -> None:
        self._tally, self._take = tally, take
        self.counted = 0

    def settle(self, address: str, whole: bool) -> None:
        with self._tally.lock:
            if whole:
                self._tally.doubtful.discard(address)
            elif address in self._tally.doubtful:
                self._tally.counted -= self.counted

    def __call__(self, part: bytes) -> None:
        with self._tally.lock:
            if self._tally.open:
                self._tally.counted += len(part)
                self.counted += len(part)
        if self._take is not None:
            self._take(part)
