"""Times a function that reads from a bucket or a host, while a thread fetches a batch."""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Callable
from time import perf_counter_ns
from typing import Any
from urllib.parse import urlsplit

from pipebench.watch.record.exclusive_time import local
from pipebench.watch.record.from_handlers import forgiving
from pipebench.watch.record.patches import unseen
from pipebench.watch.record.reads import Place, Retries, retries

GCSFS = "gcsfs.retry"
_TELLS = {"gs": GCSFS}  # what tells each time that it tries again, and nothing where it does not
_URL = re.compile(r"([a-z][a-z0-9+.-]*)://([^\s'\"|&;<>]+)", re.IGNORECASE)


def of_url(url: str) -> Place | None:
    """The bucket or host of an address: of the web its host, of a store the first part."""
    found = _URL.search(url)
    if found is None:
        return None
    protocol = found[1].lower()
    if protocol in ("http", "https"):
        parts = urlsplit(found[0])
        return protocol, f"{parts.hostname or ''}{f':{parts.port}' if parts.port else ''}"
    return protocol, first_of(protocol, found[2])


def first_of(protocol: str, path: str) -> str:
    """The bucket of a path. On the Hugging Face hub it is a repository: `datasets/user/name`, `user/name`."""
    parts = path.split("/")
    count = 1 if protocol != "hf" else 3 if parts[0] in ("datasets", "spaces", "buckets") else 2
    return "/".join(parts[:count])


def size_of(found: Any) -> int:
    if isinstance(found, (bytes, bytearray, memoryview)):
        return len(found)
    if isinstance(found, dict):
        return sum(map(size_of, found.values()))
    return sum(map(size_of, found)) if isinstance(found, list) else 0


def attempts(answer: Any) -> int:
    """How often botocore tried again, as it says itself."""
    told = answer.get("ResponseMetadata") if isinstance(answer, dict) else None
    count = told.get("RetryAttempts", 0) if isinstance(told, dict) else 0
    return count if isinstance(count, int) else 0


def timed_read(
    plain: Callable[..., Any],
    place_of: Callable[..., Place | None],
    bytes_of: Callable[..., int] = lambda found, *args, **kwargs: size_of(found),
) -> Callable[..., Any]:
    """Wraps a function that reads from `place_of` its arguments. What it calls is a part of that read."""

    @unseen
    @functools.wraps(plain)
    def read(*args: Any, **kwargs: Any) -> Any:
        timer = local.timer
        if timer is None or timer.reads.busy:
            return plain(*args, **kwargs)
        place = None
        with forgiving():  # a file system of somebody's own
            place = place_of(*args, **kwargs)
        if place is None:
            return plain(*args, **kwargs)
        reads, again, found = timer.reads, Retries(), None
        again.told = _TELLS.get(place[0]) in sys.modules
        reads.busy, before = True, retries.set(again)
        began = perf_counter_ns()
        try:
            found = plain(*args, **kwargs)
            return found
        finally:
            spent, size = perf_counter_ns() - began, 0
            reads.busy = False
            retries.reset(before)
            with forgiving():
                size = bytes_of(found, *args, **kwargs)
            reads.add(place, spent, size, again)

    return read


def timed_open(plain: Callable[..., Any], place_of: Callable[..., Place | None]) -> Callable[..., Any]:
    """Wraps a function that opens a file or asks for it: that time is its place's, without the reads inside."""

    @unseen
    @functools.wraps(plain)
    def opens(*args: Any, **kwargs: Any) -> Any:
        timer = local.timer
        if timer is None or timer.reads.busy or timer.reads.opening:
            return plain(*args, **kwargs)
        place = None
        with forgiving():
            place = place_of(*args, **kwargs)
        if place is None:
            return plain(*args, **kwargs)
        reads = timer.reads
        reads.opening, inside = True, reads.spent_ns
        began = perf_counter_ns()
        try:
            return plain(*args, **kwargs)
        finally:
            spent = perf_counter_ns() - began
            reads.opening = False
            reads.opened(place, spent - (reads.spent_ns - inside))

    return opens
