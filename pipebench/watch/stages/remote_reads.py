"""Times each read of libraries for remote files, by bucket or host, while a thread fetches a batch.

Each takes a millisecond or more, so a microsecond of ours is little. What they read in threads of their own is not
seen, but for the thread of fsspec's loop: the thread that fetches waits for it.
"""

from __future__ import annotations

import functools
import os
import re
import sys
from collections.abc import Callable
from time import perf_counter_ns
from typing import Any
from urllib.parse import urlsplit

from pipebench.watch.record.exclusive_time import local
from pipebench.watch.record.from_handlers import forgiving
from pipebench.watch.record.patches import HIDDEN, Patches, unseen
from pipebench.watch.record.reads import Place, Reads, Retries, Stream, retries

FILES, LOOP, CLIENT, BODY = "fsspec.spec", "fsspec.asyn", "botocore.client", "botocore.response"
S3FS, GCSFS, PIPES, TRANSFERS = "s3fs.core", "gcsfs.retry", "webdataset.gopen", "boto3.s3.transfer"
_TELLS = {"gs": GCSFS}  # what tells each time that it tries again, and nothing where it does not
# Files that are read here, and file systems that only pass on to others, which are timed.
_PASSING = frozenset({
    "fsspec.implementations." + name
    for name in ("local", "memory", "cached", "dirfs", "zip", "tar", "libarchive", "data", "git", "asyn_wrapper")
} | {"fsspec.generic"})  # fmt: skip
_BY_HOST = frozenset({"ftp", "sftp", "ssh", "smb", "hdfs", "webhdfs", "github", "jupyter", "jlab", "dbfs"})
_WHOLE = frozenset({"_cat_file", "_cat_ranges", "_cat", "_get_file", "_get"})  # that fsspec's loop does for a thread
_FETCHES = ("_fetch_range", "_fetch_all")
_STREAMS = frozenset({"HTTPStreamFile", "HfFileSystemStreamFile"})  # their `read` has no cache
_ASKS = frozenset({"HeadObject", "ListObjects", "ListObjectsV2"})
_URL = re.compile(r"([a-z][a-z0-9+.-]*)://([^\s'\"|&;<>]+)", re.IGNORECASE)
_BUFFERED = "AbstractBufferedFile"


def of_url(url: str) -> Place | None:
    """The bucket or host of an address: of the web its host, of a store the first part."""
    found = _URL.search(url)
    if found is None:
        return None
    protocol = found[1].lower()
    if protocol in ("http", "https"):
        parts = urlsplit(found[0])
        return protocol, f"{parts.hostname or ''}{f':{parts.port}' if parts.port else ''}"
    return protocol, _first(protocol, found[2])


def _first(protocol: str, path: str) -> str:
    """The bucket of a path. On the Hugging Face hub it is a repository: `datasets/user/name`, `user/name`."""
    parts = path.split("/")
    count = 1 if protocol != "hf" else 3 if parts[0] in ("datasets", "spaces", "buckets") else 2
    return "/".join(parts[:count])


def of_system(system: Any, path: Any) -> Place | None:
    """The bucket or host of a path of an fsspec file system; None if it is not timed."""
    if type(system).__module__ in _PASSING:
        return None
    protocol = system.protocol if isinstance(system.protocol, str) else system.protocol[0]
    if isinstance(path, (list, tuple)):
        path = path[0] if path else ""
    elif isinstance(path, dict):
        path = next(iter(path), "")
    path = str(path)
    if protocol in ("http", "https"):
        return of_url(path)
    if protocol in _BY_HOST:
        return protocol, str(getattr(system, "host", "") or "")
    return protocol, _first(protocol, path.partition("://")[2] or path.lstrip("/"))


def _size(found: Any) -> int:
    if isinstance(found, (bytes, bytearray, memoryview)):
        return len(found)
    if isinstance(found, dict):
        return sum(map(_size, found.values()))
    return sum(map(_size, found)) if isinstance(found, list) else 0


def timed_read(
    plain: Callable[..., Any],
    place_of: Callable[..., Place | None],
    size_of: Callable[..., int] = lambda found, *args, **kwargs: _size(found),
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
                size = size_of(found, *args, **kwargs)
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


def _is_ours(function: Any) -> bool:
    return getattr(getattr(function, "__code__", None), "co_filename", "") == HIDDEN


def watch_files(patches: Patches, module: Any) -> None:
    """Times the fetches of each class of fsspec's buffered files, from its first object on, and `open`."""
    base, known = module.AbstractBufferedFile, set()
    plain = base.__init__

    @unseen
    @functools.wraps(plain)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        if type(self) not in known:
            known.add(type(self))
            with forgiving():
                _watch_file(patches, type(self))
        plain(self, *args, **kwargs)

    patches.replace(base, "__init__", __init__)
    system = module.AbstractFileSystem
    patches.replace(system, "open", timed_open(system.open, _opened))


def _watch_file(patches: Patches, kind: type) -> None:
    """Before the first object of a class is made: its cache then holds the method that is timed."""
    for name in (*_FETCHES, *(("read",) if kind.__name__ in _STREAMS else ())):
        owner = next((one for one in kind.__mro__ if name in vars(one)), None)
        if owner is None or owner.__name__ == _BUFFERED or _is_ours(vars(owner)[name]):
            continue
        if callable(vars(owner)[name]):
            before = _size_before if name == "_fetch_all" else None
            patches.replace(owner, name, timed_read(vars(owner)[name], _of_file, *([before] if before else [])))


def _size_before(found: Any, file: Any, **kwargs: Any) -> int:
    """The size of a file that was fetched whole: the method keeps the bytes, and gives none."""
    return int(file.size or 0)


def _of_file(file: Any, *args: Any, **kwargs: Any) -> Place | None:
    return of_system(file.fs, file.path)


def _opened(system: Any, path: Any, mode: str = "rb", *args: Any, **kwargs: Any) -> Place | None:
    return of_system(system, path) if "r" in mode else None


def watch_loop(patches: Patches, module: Any) -> None:
    """Times what a thread waits for in fsspec's loop: objects that are fetched whole, or by their ranges."""
    patches.replace(module, "sync", timed_read(module.sync, _in_loop, _size_in_loop))


def _in_loop(loop: Any, function: Any, *args: Any, **kwargs: Any) -> Place | None:
    if getattr(function, "__name__", "") not in _WHOLE:
        return None
    path = args[0] if args else next((kwargs[name] for name in ("path", "paths", "rpath") if name in kwargs), "")
    return of_system(function.__self__, path)


def _size_in_loop(found: Any, loop: Any, function: Any, *args: Any, **kwargs: Any) -> int:
    if function.__name__ == "_get_file" and len(args) > 1:
        return os.stat(args[1]).st_size
    return _size(found)


def watch_s3fs(patches: Patches, module: Any) -> None:
    """Counts how often s3fs tries again."""
    plain = module._error_wrapper

    @unseen
    @functools.wraps(plain)
    async def _error_wrapper(func: Any, *args: Any, **kwargs: Any) -> Any:
        told = retries.get()
        if told is None:
            return await plain(func, *args, **kwargs)
        tries = 0

        async def tried(*given: Any, **named: Any) -> Any:
            nonlocal tries
            tries += 1
            found = await func(*given, **named)
            told.add(_attempts(found))
            return found

        try:
            return await plain(tried, *args, **kwargs)
        finally:
            told.add(max(0, tries - 1))

    patches.replace(module, "_error_wrapper", _error_wrapper)


def _attempts(answer: Any) -> int:
    """How often botocore tried again, as it says itself."""
    told = answer.get("ResponseMetadata") if isinstance(answer, dict) else None
    count = told.get("RetryAttempts", 0) if isinstance(told, dict) else 0
    return count if isinstance(count, int) else 0


def watch_gcsfs(patches: Patches, module: Any) -> None:
    """Counts how often gcsfs tries again: it asks before each time whether the error is one for that."""
    plain = module.is_retriable

    @unseen
    @functools.wraps(plain)
    def is_retriable(*args: Any, **kwargs: Any) -> Any:
        found, told = plain(*args, **kwargs), retries.get()
        if told is not None:
            told.add(1 if found else 0)
        return found

    patches.replace(module, "is_retriable", is_retriable)


def watch_transfers(patches: Patches, module: Any) -> None:
    """Times boto3's downloads to a file. Their requests run in threads, for which the caller waits."""
    kind = module.S3Transfer
    patches.replace(kind, "download_file", timed_read(kind.download_file, _of_transfer, _size_of_transfer))


def _of_transfer(transfer: Any, bucket: Any = "", *args: Any, **kwargs: Any) -> Place | None:
    return "s3", str(bucket)


def _size_of_transfer(found: Any, *args: Any, **kwargs: Any) -> int:
    return os.stat(args[3] if len(args) > 3 else kwargs["filename"]).st_size


def watch_client(patches: Patches, module: Any) -> None:
    """Times the calls of botocore's clients that get an object, and those that ask for it."""
    kind = module.BaseClient
    plain = kind._make_api_call
    asks = timed_open(plain, _bucket)

    @unseen
    @functools.wraps(plain)
    def _make_api_call(*args: Any, **kwargs: Any) -> Any:
        timer = local.timer
        if timer is None or timer.reads.busy or len(args) != 3 or kwargs:
            return plain(*args, **kwargs)
        if args[1] != "GetObject":
            return (asks if args[1] in _ASKS else plain)(*args)
        return _get(timer.reads, plain, args)

    patches.replace(kind, "_make_api_call", _make_api_call)


def _bucket(client: Any, operation: str, given: Any) -> Place | None:
    return ("s3", str(given["Bucket"])) if isinstance(given, dict) and "Bucket" in given else None


@unseen
def _get(reads: Reads, plain: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    place = None
    with forgiving():
        place = _bucket(*args)
    if place is None:
        return plain(*args)
    reads.busy, began, answer = True, perf_counter_ns(), None
    try:
        answer = plain(*args)
        return answer
    except Exception as error:
        answer = getattr(error, "response", None)
        raise
    finally:
        spent = perf_counter_ns() - began
        reads.busy = False
        with forgiving():
            _got(reads, place, spent, answer)


def _got(reads: Reads, place: Place, spent: int, answer: Any) -> None:
    """Adds the time to an answer. Its body is read by and by, and is a part of the same read."""
    again = Retries()
    if isinstance(answer, dict):
        again.add(_attempts(answer))
    body = answer.get("Body") if isinstance(answer, dict) else None
    if body is None:
        reads.add(place, spent, 0, again)
        return
    reads.part(place, 0, 0, again)
    reads.streams[body] = Stream(reads, place, spent)


def watch_body(patches: Patches, module: Any) -> None:
    """Times the reads of the bodies that botocore's clients give."""
    kind = module.StreamingBody
    for name in ("read", "readinto"):
        if callable(vars(kind).get(name)):
            patches.replace(kind, name, _timed_part(vars(kind)[name]))


def _timed_part(plain: Callable[..., Any]) -> Callable[..., Any]:
    @unseen
    @functools.wraps(plain)
    def read(self: Any, *args: Any, **kwargs: Any) -> Any:
        timer = local.timer
        stream = None if timer is None or timer.reads.busy else timer.reads.streams.get(self)
        if stream is None:
            return plain(self, *args, **kwargs)
        found, began = None, perf_counter_ns()
        try:
            found = plain(self, *args, **kwargs)
            return found
        finally:
            spent = perf_counter_ns() - began
            with forgiving():
                stream.add(spent, found if isinstance(found, int) else _size(found))
                if not found or _is_whole(self):
                    stream.end()

    return read


def _is_whole(body: Any) -> bool:
    whole = getattr(body, "_content_length", None)
    return whole is not None and getattr(body, "_amount_read", 0) >= int(whole)


def watch_pipes(patches: Patches, module: Any) -> None:
    """Times the reads of webdataset's pipes from programs, such as curl. They are many and small, so little is done."""
    kind = module.Pipe
    plain = kind.read

    @unseen
    @functools.wraps(plain)
    def read(self: Any, *args: Any, **kwargs: Any) -> Any:
        timer = local.timer
        if timer is None or timer.reads.busy:
            return plain(self, *args, **kwargs)
        reads = timer.reads
        place = reads.pipes.get(self)
        if place is None:
            place = ("pipe", "")
            with forgiving():
                place = reads.pipes[self] = _of_pipe(self)
        began = perf_counter_ns()
        found = plain(self, *args, **kwargs)
        if type(found) is bytes:
            reads.add(place, perf_counter_ns() - began, len(found))
        return found

    patches.replace(kind, "read", read)


def _of_pipe(pipe: Any) -> Place:
    command = pipe.args[0][0]
    words = command if isinstance(command, list) else [command]
    found = next((place for word in words if (place := of_url(str(word))) is not None), None)
    return found or ("pipe", os.path.basename(str(words[0]).split()[0]))


WATCHED: dict[str, Callable[[Patches, Any], None]] = {
    FILES: watch_files, LOOP: watch_loop, S3FS: watch_s3fs, GCSFS: watch_gcsfs, CLIENT: watch_client, BODY: watch_body,
    TRANSFERS: watch_transfers, PIPES: watch_pipes,
}  # fmt: skip
