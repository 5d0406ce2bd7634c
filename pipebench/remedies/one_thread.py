"""One thread for each library in each worker. Workers whose libraries use many threads compete for the cores.

torch itself already uses one thread in a worker, unless the script sets more there; NumPy's BLAS, OpenCV and the
OpenMP of other libraries do not.
"""

from __future__ import annotations

from collections.abc import Sequence

from pipebench.remedies.seen import Seen
from pipebench.results.advice import Change, Finding
from pipebench.results.host_use import ThreadPool
from pipebench.results.watched import WorkerResult

PLACE = 1
_COMPETE = 0.5  # of the cores: workers that use less do not compete for them
_WORKED = 0.05  # of the cores that a worker uses: threads that use less did hardly any work
_OWN_THREADS = 2  # of a worker: its main thread and the feeder thread of its queue
# What workers lose to their threads differs so much between processes of one script: the logarithm of an iteration of
# seven runs of tests/advice/scripts/threads.py, 10 to 83 ms (docs/figures/advice.md).
_VARIES = 0.65
_SET_BY_TORCH = ("torch", "OpenMP")


def propose(seen: Seen, tried: Sequence[Finding]) -> Change | None:
    pools = tuple(dict.fromkeys(one.set_with for one in _pools(seen)))
    asked = seen.has_cause("threads-over-cores")
    competes = asked or _compete(seen)
    if tried or not seen.workers or not pools or seen.cores <= 1 or not competes or not _worked(seen):
        return None
    return Change("one_thread", {}, "none", one_thread=True, pools=pools, asked_for=asked, varies=_VARIES)


def _pools(seen: Seen) -> Sequence[ThreadPool]:
    """The workers' pools with more than one thread. Until workers tell: all that the script has, if that may be.

    Forked workers have the script's libraries. torch sets its own to one thread in a worker; the script may set more
    there.
    """
    pools = seen.watched.host.pools if seen.watched.host else ()
    if told := [one for one in pools if one.where == "workers"]:
        return [one for one in told if one.threads > 1]
    return pools if any(one.threads > 1 and not one.name.startswith(_SET_BY_TORCH) for one in pools) else ()


def _compete(seen: Seen) -> bool:
    """Whether workers use enough of the cores for that, as far as is known."""
    used = [cores for _, cores in _of_all_threads(seen)]
    return not used or sum(used) >= _COMPETE * seen.cores


def _of_all_threads(seen: Seen) -> list[tuple[WorkerResult, float]]:
    """The workers of which it is known how many cores all their threads use."""
    return [(one, one.cores) for one in seen.its_workers if one.cores is not None and one.busy_s > 0]


def _worked(seen: Seen) -> bool:
    """Whether threads of libraries worked in workers. If that is not known: whether they had more than they need."""
    host = seen.watched.host
    if host is not None and host.worker_native_threads is not None:
        return host.worker_native_threads > 0
    known = _of_all_threads(seen)
    used = sum(cores for _, cores in known)
    main = sum(one.busy_share * one.cpu_s / one.busy_s for one, _ in known)
    if known and used - main < _WORKED * used:
        return False
    counts = [one.threads for one in seen.its_workers if one.threads]
    return not counts or max(counts) > _OWN_THREADS
