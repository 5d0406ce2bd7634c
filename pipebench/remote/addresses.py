"""Which shards some addresses stand for, each as an address that one HTTP request can fetch.

Stores such as S3 are asked through fsspec for what fits a pattern and for signed addresses, which end after an hour. So
the user's credentials are found as any tool of that store finds them, and all bytes come over HTTP.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from glob import has_magic
from typing import Any
from urllib.parse import urlsplit

from pipebench.errors import PipebenchError, UsageError, install, said_by
from pipebench.host.redaction import redacted
from pipebench.units import printable

SIGNED_S = 3600
MOST = 100_000
_GROUP = re.compile(r"\{([^{}]*)\}")
_RANGE = re.compile(r"(-?\d+)\.\.(-?\d+)(?:\.\.-?\d+)?")
_WANTED = "name shards: https://host/train-{000..099}.tar, s3://bucket/train-*.tar"
_EXTRAS = {"s3": "s3", "s3a": "s3", "gs": "gs", "gcs": "gs", "abfs": "abfs", "az": "abfs"}


def resolved(given: Sequence[str], timeout_s: float, retries: int) -> list[str]:
    """The address of each shard, in order. UsageError or PipebenchError where there is none, or a store refuses."""
    _refuse_many(sum(map(_count, given)))  # before they are made: a range may name more than memory holds
    found = [one for text in given for address in _expanded(text) for one in _of(address, timeout_s, retries)]
    _refuse_many(len(found))
    return list(dict.fromkeys(found))


def _refuse_many(count: int) -> None:
    if count > MOST:
        raise UsageError(f"the addresses name more than {MOST:,} shards", "name fewer")


def _count(text: str) -> int:
    """About how many addresses the braces of a text name."""
    ranges = [(_RANGE.fullmatch(one), one.count(",") + 1) for one in _GROUP.findall(text)]
    return math.prod(abs(int(one[2]) - int(one[1])) + 1 if one else listed for one, listed in ranges)


def _expanded(text: str) -> Iterator[str]:
    import braceexpand

    scheme, _, rest = text.partition("://")
    if not rest or not scheme.isalnum() or scheme in ("file", "local", "memory"):
        local = "`pipebench run --stage read --data` measures local shards"
        raise UsageError(f"{printable(redacted(text))} is no address of a server", f"{_WANTED}; {local}")
    try:
        yield from braceexpand.braceexpand(text)
    except ValueError as error:
        raise UsageError(f"{printable(redacted(text))} is not a brace pattern: {error}", _WANTED) from error


def _of(address: str, timeout_s: float, retries: int) -> Iterator[str]:
    scheme = address.partition("://")[0].lower()
    if scheme in ("http", "https"):
        _check(address)
        yield address
    else:
        yield from _of_store(scheme, address, timeout_s, retries)


def _of_store(scheme: str, address: str, timeout_s: float, retries: int) -> Iterator[str]:
    try:
        from fsspec import AbstractFileSystem, get_filesystem_class
        from fsspec.core import url_to_fs

        if get_filesystem_class(scheme).sign is AbstractFileSystem.sign:
            raise UsageError(f"{scheme}:// has no signed addresses", _WANTED)

        options = _of_s3(timeout_s, retries) if scheme in ("s3", "s3a") else {}
        store, path = url_to_fs(address, **options)
    except ValueError as error:
        raise UsageError(f"{scheme}:// cannot be opened: {printable(said_by(error))}", _WANTED) from error
    except ImportError as error:
        remedy = install(_EXTRAS[scheme]) if scheme in _EXTRAS else _WANTED
        raise PipebenchError(f"{scheme}:// cannot be opened: {printable(said_by(error))}", remedy) from error
    try:
        paths = sorted(store.glob(path)) if has_magic(path) else [path]
        if not paths:
            raise PipebenchError(f"nothing fits {printable(redacted(address))}", _WANTED)
        yield from (str(store.sign(one, expiration=SIGNED_S)) for one in paths)
    except PipebenchError:
        raise
    except Exception as error:  # a store has exceptions of its own: no credentials, no such bucket, not connected
        said = printable(redacted(said_by(error)))[:200]
        remedy = "check its credentials, its name and its endpoint (AWS_ENDPOINT_URL), or name https:// addresses"
        raise PipebenchError(f"{printable(redacted(address))}: {type(error).__name__}: {said}", remedy) from error


def _check(address: str) -> None:
    """Raises UsageError for a pattern that is left, for an address without a host, and for a port that is none."""
    if set(address) & set("*{}"):
        problem = f"no web server lists what fits {printable(redacted(address))}"
        raise UsageError(problem, "write a range with both ends: train-{000..099}.tar")
    try:
        parts = urlsplit(address)
        wrong = "" if parts.hostname and parts.port != 0 else "has no host, or the port 0"
    except ValueError as error:
        wrong = f"is no address: {error}"
    if wrong:
        raise UsageError(f"{printable(redacted(address))} {printable(wrong)}", _WANTED)


def _of_s3(timeout_s: float, retries: int) -> dict[str, Any]:
    """Options of s3fs: nothing waits longer than the time-out, and retries are bounded."""
    times = {"connect_timeout": timeout_s, "read_timeout": timeout_s}
    return {"config_kwargs": {**times, "retries": {"max_attempts": retries}}, "skip_instance_cache": True}
