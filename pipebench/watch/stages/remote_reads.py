"""Times each read of libraries for remote files, by bucket or host, while a thread fetches a batch.

Each takes a millisecond or more, so the seven microseconds of ours are little. What they read in threads of their own
is not seen, but for the thread of fsspec's loop: the thread that fetches waits for it.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any

from pipebench.watch.record.from_handlers import forgiving
from pipebench.watch.record.patches import Patches, is_unseen, unseen
from pipebench.watch.record.reads import Place, retries
from pipebench.watch.stages import stored_objects
from pipebench.watch.stages.timed_reads import GCSFS, attempts, first_of, of_url, size_of, timed_open, timed_read

# Files that are read here, and file systems that only pass on to others, which are timed.
_PASSING = frozenset({
    "fsspec.implementations." + name
    for name in ("local", "memory", "cached", "dirfs", "zip", "tar", "libarchive", "data", "git", "asyn_wrapper")
} | {"fsspec.generic"})  # fmt: skip
_BY_HOST = frozenset({"ftp", "sftp", "ssh", "smb", "hdfs", "webhdfs", "github", "jupyter", "jlab", "dbfs"})
_WHOLE = frozenset({"_cat_file", "_cat_ranges", "_cat", "_get_file", "_get"})  # that fsspec's loop does for a thread
_FETCHES = ("_fetch_range", "_fetch_all")
_STREAMS = frozenset({"HTTPStreamFile", "HfFileSystemStreamFile"})  # their `read` has no cache
_BUFFERED = "AbstractBufferedFile"


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
    return protocol, first_of(protocol, path.partition("://")[2] or path.lstrip("/"))


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
        if owner is None or owner.__name__ == _BUFFERED or is_unseen(vars(owner)[name]):
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
    return size_of(found)


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
            told.add(attempts(found))
            return found

        try:
            return await plain(tried, *args, **kwargs)
        finally:
            told.add(max(0, tries - 1))

    patches.replace(module, "_error_wrapper", _error_wrapper)


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


WATCHED: dict[str, Callable[[Patches, Any], None]] = {
    "fsspec.spec": watch_files,
    "fsspec.asyn": watch_loop,
    "s3fs.core": watch_s3fs,
    GCSFS: watch_gcsfs,
    **stored_objects.WATCHED,
}
