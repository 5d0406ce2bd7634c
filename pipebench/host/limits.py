"""What a loader needs of the machine, added up before its workers are started: too little is said, not run into."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from multiprocessing.context import get_spawning_popen, set_spawning_popen
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any

from pipebench.errors import PipebenchError
from pipebench.units import printable, size

SHARED_MEMORY = Path("/dev/shm")
_PIPES_PER_WORKER = 4  # its index queue's two ends, its sentinel, its resource tracker's share
_MARGIN = 32  # descriptors left to everything else


def check_resources(
    workers: int, prefetch: int, batch_bytes: int, tensors: int = 2, *, shared: Path = SHARED_MEMORY
) -> None:
    """Raises PipebenchError where the batches on their way would not fit shared memory or descriptors."""
    if workers == 0:
        return
    batches = workers * prefetch + workers
    needed, free = batches * batch_bytes, free_bytes(shared)
    if free is not None and needed > free:
        raise PipebenchError(
            f"{batches} batches of {size(batch_bytes)} on their way need {size(needed)} of {printable(shared)}, "
            f"which has {size(free)} free",
            "enlarge it (docker run --shm-size), or use a smaller --batch-size or fewer --workers",
        )
    allowed, wanted = descriptors(), batches * tensors + workers * _PIPES_PER_WORKER + _MARGIN
    if allowed is not None and wanted > allowed:
        raise PipebenchError(
            f"{batches} batches and {workers} workers need about {wanted} file descriptors; {allowed} are left",
            f"ulimit -n {wanted + 1024}, or use fewer --workers",
        )


def free_bytes(folder: Path) -> int | None:
    """What is free in a file system; None where there is no such folder."""
    with contextlib.suppress(OSError):
        facts = os.statvfs(folder)
        return facts.f_bavail * facts.f_frsize
    return None


def descriptors() -> int | None:
    """How many more file descriptors this process may open; None where the system does not say."""
    import resource

    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    with contextlib.suppress(OSError):
        return None if limit == resource.RLIM_INFINITY else limit - len(os.listdir("/proc/self/fd"))
    return None


def free_memory() -> int | None:
    """Memory that can be had without swapping, cut by the cgroup's limit; None where the system does not say."""
    with contextlib.suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/meminfo").read_text().splitlines()
        available = next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable"))
        with contextlib.suppress(OSError, ValueError):
            group = Path("/sys/fs/cgroup")
            left = int((group / "memory.max").read_text()) - int((group / "memory.current").read_text())
            return min(available, max(0, left))
        return available
    return None


def check_picklable(dataset: Any, start_method: str) -> None:
    """Raises PipebenchError naming the attribute of a dataset that cannot be sent to a worker."""
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
    """The innermost attributes that do not pickle, by their path."""
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
    """Stands for the process being started, so that what may travel only then (locks, queues) is not refused."""

    def duplicate_for_child(self, descriptor: int) -> int:
        return descriptor


def _refusal(thing: Any) -> Exception | None:
    before = get_spawning_popen()
    set_spawning_popen(_Spawning())  # type: ignore[arg-type]  # it does what pickling asks of it
    try:
        ForkingPickler.dumps(thing)
    except Exception as error:  # pickling raises what it likes
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
    """The attributes that would travel: what `__getstate__` leaves of them."""
    try:
        found = thing.__getstate__()
    except Exception:  # a `__getstate__` that raises is itself the culprit
        return {}
    return found if isinstance(found, dict) else {}
