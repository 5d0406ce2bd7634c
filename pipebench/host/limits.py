"""Checks what a loader needs from the machine before its workers start, and says what is missing."""

from __future__ import annotations

import contextlib
import os
import resource
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pipebench.errors import PipebenchError
from pipebench.host import cgroups
from pipebench.units import printable, size

SHARED_MEMORY = Path("/dev/shm")
_IN_HAND = 2  # batches that a loop holds while it waits for the next: the last one, and the one that is handed over
_TENSORS = 2  # in a batch: images and labels
_PIPES_PER_WORKER = 4  # descriptors: two ends of its index queue, its sentinel, its share of the resource tracker
# Bytes of the path of the folder for temporary files: that of a socket (unix(7)), less what multiprocessing adds.
_LONGEST_SOCKET = 107
LONGEST_TEMPORARY = _LONGEST_SOCKET - len("/pymp-12345678/listener-12345678")
_LEAST_SHARED = 64 << 20  # bytes of shared memory: what docker gives unless told otherwise
_LEAST_DESCRIPTORS = 256
_LEAST_ADDRESSES = 768 << 20  # bytes of address space: with 500 MB, importing decoders ended by SIGSEGV
_MARGIN = 32  # descriptors that remain for everything else


def check_resources(workers: int, prefetch: int, batch_bytes: int) -> None:
    """Raises PipebenchError if the batches on their way need more shared memory or descriptors than there are.

    `prefetch` is per worker. Without workers nothing is checked.
    """
    if workers == 0:
        return
    if problem := no_room_for_sockets():
        raise PipebenchError(problem, SHORTER)
    batches = batches_under_way(workers, prefetch)
    needed, free = batches * batch_bytes, free_bytes(SHARED_MEMORY)
    if free is not None and needed > free:
        raise PipebenchError(
            f"{batches} batches of {size(batch_bytes)} on their way need {size(needed)} of {SHARED_MEMORY}, "
            f"which has {size(free)} free",
            "enlarge it (docker run --shm-size), or use a smaller --batch-size or fewer --workers",
        )
    allowed, wanted = descriptors(), descriptors_needed(workers, prefetch)
    if allowed is not None and wanted > allowed:
        raise PipebenchError(
            f"{batches} batches and {workers} workers need about {wanted} file descriptors; {allowed} are left",
            f"ulimit -n {wanted + 1024}, or use fewer --workers",
        )


def check_address_space() -> None:
    """Raises PipebenchError if this process has not the address space that the import of native libraries needs."""
    allowed = resource.getrlimit(resource.RLIMIT_AS)[0]
    if allowed != resource.RLIM_INFINITY and allowed < _LEAST_ADDRESSES:
        raise PipebenchError(
            f"this process may have {size(allowed)} of address space; decoders need {size(_LEAST_ADDRESSES)} or more",
            "raise its limit: ulimit -v unlimited",
        )


def batches_under_way(workers: int, prefetch: int) -> int:
    """The most batches of a DataLoader that exist at a time: those that are made ahead, and those in the loop."""
    return workers * prefetch + _IN_HAND


def descriptors_needed(workers: int, prefetch: int) -> int:
    """About how many descriptors batches under way take: one for each tensor in shared memory, and the pipes."""
    return batches_under_way(workers, prefetch) * _TENSORS + workers * _PIPES_PER_WORKER + _MARGIN


def descriptor_limit(hard: bool = False) -> int | None:
    """How many descriptors this process may have; None if there is no limit. `hard`: up to which it may raise that."""
    import resource

    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[hard]
    return None if limit == resource.RLIM_INFINITY else limit


SHORTER = "set TMPDIR to a folder with a shorter path, such as TMPDIR=/tmp"


def no_room_for_sockets(folder: str | None = None) -> str:
    """Why workers cannot hand batches over by sockets below the folder for temporary files; empty if they can.

    torch then loses batches, and the loop may wait for ever. Newer Pythons take another folder by themselves.
    """
    folder = tempfile.gettempdir() if folder is None else folder
    length = len(os.fsencode(folder))
    if length <= LONGEST_TEMPORARY:
        return ""
    import multiprocessing.util  # each watched command comes by here, and hardly any needs it

    if hasattr(multiprocessing.util, "_get_base_temp_dir"):
        return ""
    return (
        f"the path of the folder for temporary files has {length} bytes, and workers hand batches over by sockets "
        f"below it, which may have {LONGEST_TEMPORARY} at most: {printable(folder)}"
    )


def sockets_in(folder: str) -> None:
    """Lets this process and its workers keep the sockets of multiprocessing in a folder, if its path is short enough.

    Each process makes a folder of its own for them in that for temporary files, and where one is killed, it stays. The
    place is where `multiprocessing.util.get_temp_dir` remembers it, which forked workers inherit.
    """
    import multiprocessing

    if len(os.fsencode(folder)) + len("/listener-12345678") <= _LONGEST_SOCKET:
        vars(multiprocessing.current_process())["_config"]["tempdir"] = folder


def too_tight_for_workers(shared: Path = SHARED_MEMORY, folder: str | None = None) -> Iterator[str]:
    """What will go wrong, or may, in a loader with workers of which nothing is known yet: one line each."""
    if problem := no_room_for_sockets(folder):
        yield f"{problem}. With workers, batches will be lost: {SHORTER}."
    free, left = free_bytes(shared), descriptors()
    if free is not None and free <= _LEAST_SHARED:
        yield (
            f"{printable(shared)} has {size(free)} free. Workers hand batches over in it, and one that does not fit "
            "ends its worker by SIGBUS. Give it more space (docker run --shm-size)."
        )
    if left is not None and left < _LEAST_DESCRIPTORS:
        yield (
            f"{left} file descriptors are left. Each tensor that workers have handed over holds one. Raise the limit "
            "(ulimit -n 4096)."
        )


def free_bytes(folder: Path) -> int | None:
    """The free bytes of the file system that holds `folder`; None if there is no such folder."""
    with contextlib.suppress(OSError):
        facts = os.statvfs(folder)
        return facts.f_bavail * facts.f_frsize
    return None


def descriptors() -> int | None:
    """How many more file descriptors this process may open; None if there is no limit or the system does not say."""
    limit = descriptor_limit()
    with contextlib.suppress(OSError):
        return None if limit is None else limit - len(os.listdir("/proc/self/fd"))
    return None


def free_memory(root: Path = cgroups.ROOT) -> int | None:
    """The bytes of memory that are available without swapping. The limits of the cgroups may lower them.

    None if the system does not say.
    """
    with contextlib.suppress(OSError, ValueError, StopIteration):
        lines = (root / "proc/meminfo").read_text().splitlines()
        available = next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable"))
        limit = cgroups.memory(root)
        return available if limit is None else min(available, limit[1])
    return None


def oom_kills(root: Path = cgroups.ROOT) -> int | None:
    """How many processes of this cgroup the kernel has killed because memory ran out; None if it does not say.

    It is `oom_kill` in `memory.events` (version 2 of cgroups) or in `memory.oom_control` (version 1).
    """
    for name in ("memory.events", "memory.oom_control"):
        for file in cgroups.files("memory", name, root):
            with contextlib.suppress(OSError, KeyError):
                return cgroups.counts(file.read_text())["oom_kill"]
    return None


def check_picklable(dataset: Any, start_method: str) -> None:
    """Raises PipebenchError if the dataset cannot be sent to a worker. The error names the attribute that prevents it.

    Under `fork` nothing is checked, because nothing is pickled.
    """
    if start_method == "fork":
        return
    found = next(_unpicklable(dataset, type(dataset).__name__), None)
    if found is not None:
        name, error = found
        raise PipebenchError(
            f"under {start_method}, {printable(name)} cannot be sent to a worker: {printable(str(error))[:200]}",
            "make it a function or class at the top of a module, build it in the worker, or use --start-method fork",
        )


def _unpicklable(thing: Any, name: str, depth: int = 6) -> Iterator[tuple[str, Exception]]:
    """The innermost attributes that cannot be pickled: for each, its path and the error. The search is `depth` deep."""
    error = _refusal(thing)
    if error is None:
        return
    deeper = False
    for label, part in _parts(thing) if depth else ():
        for found in _unpicklable(part, name + label, depth - 1):
            deeper = True
            yield found
    if not deeper:
        yield name, error


class _Spawning:
    """Stands for a process that is being started. Locks and queues can be pickled only at that moment."""

    def duplicate_for_child(self, descriptor: int) -> int:
        return descriptor


def _refusal(thing: Any) -> Exception | None:
    from multiprocessing.context import get_spawning_popen, set_spawning_popen
    from multiprocessing.reduction import ForkingPickler

    before = get_spawning_popen()
    set_spawning_popen(_Spawning())  # type: ignore[arg-type]  # it has the only method that pickling calls
    try:
        ForkingPickler.dumps(thing)
    except Exception as error:  # pickling can raise any exception
        return error
    finally:
        set_spawning_popen(before)
    return None


def _parts(thing: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(thing, dict):
        yield from ((f"[{key!r}]", value) for key, value in thing.items())
    elif isinstance(thing, (list, tuple)):
        yield from ((f"[{index}]", value) for index, value in enumerate(thing))
    elif not isinstance(thing, type):
        yield from ((f".{key}", value) for key, value in _state(thing).items())


def _state(thing: Any) -> dict[str, Any]:
    """The attributes that would be sent: those that `__getstate__` returns."""
    try:
        found = thing.__getstate__()
    except Exception:  # this `__getstate__` itself is the cause of the failure
        return {}
    return found if isinstance(found, dict) else {}
