"""One thread for each library in each worker. Workers whose libraries use many threads compete for the cores.

torch itself already uses one thread in a worker; NumPy's BLAS and OpenCV do not.
"""

from __future__ import annotations

from collections.abc import Sequence

from pipebench.remedies.seen import Seen
from pipebench.results.advice import Change, Finding

PLACE = 1
_COMPETE = 0.5  # of the cores: workers that use less do not compete for them
_WORKED = 0.05  # of the cores that a worker uses: threads that use less did hardly any work
_OWN_THREADS = 2  # of a worker: its main thread and the feeder thread of its queue
# What workers lose to their threads differs so much between processes of one script: the logarithm of an iteration of
# seven runs of tests/advice/scripts/threads.py, 10 to 83 ms (docs/figures/advice.md).
_VARIES = 0.65
_SET_BY_TORCH = ("torch", "OpenMP")


def propose(seen: Seen, tried: Sequence[Finding]) -> Change | None:
    pools = tuple(dict.fromkeys(_pools(seen)))
    if tried or not seen.workers or not pools or seen.cores <= 1 or not _threads(seen):
        return None
    asked = seen.has_cause("threads-over-cores")
    return Change("one_thread", {}, "none", one_thread=True, pools=pools, asked_for=asked, varies=_VARIES)


def _pools(seen: Seen) -> list[str]:
    """The settings of pools with more than one thread. Forked workers have the script's libraries."""
    pools = seen.watched.host.pools if seen.watched.host else ()
    return [one.set_with for one in pools if one.threads > 1 and not one.name.startswith(_SET_BY_TORCH)]


def _threads(seen: Seen) -> bool:
    """Whether threads of libraries worked in workers. If that is not known: whether they had more than they need."""
    host = seen.watched.host
    if host is not None and host.worker_native_threads is not None:
        return host.worker_native_threads > 0
    workers = seen.its_workers
    known = [(one, one.cores) for one in workers if one.cores is not None and one.busy_s > 0]
    used = sum(cores for _, cores in known)
    main = sum(one.busy_share * one.cpu_s / one.busy_s for one, _ in known)
    if known and (used < _COMPETE * seen.cores or used - main < _WORKED * used):
        return False
    counts = [one.threads for one in workers if one.threads]
    return not counts or max(counts) > _OWN_THREADS
