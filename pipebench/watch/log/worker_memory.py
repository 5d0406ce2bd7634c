"""The memory of the workers of a loop over time: the sum of what is their own, and how fast it grows."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence

from pipebench.units import in_mb
from pipebench.watch.launch.over_time import Seen
from pipebench.watch.read.over_time import growth_with_interval

_PAGE = os.sysconf("SC_PAGE_SIZE")
_MOST = 128  # moments that are kept: of more, every second one
_HOUR_S = 3600.0
_NS = 1e-9


def own_bytes(pid: int) -> int:
    """Resident memory of a process without files and shared memory, as in `launch.over_time.Seen`; 0 if it is gone."""
    try:
        with open(f"/proc/{pid}/statm", "rb") as file:
            _, resident, shared = map(int, file.read().split()[:3])
    except OSError:
        return 0
    return (resident - shared) * _PAGE


class WorkerMemory:
    """What was seen since the present workers are all there. Other workers begin anew."""

    def __init__(self) -> None:
        self._of: frozenset[int] = frozenset()
        self._seen: list[Seen] = []

    def note(self, now_s: float, sizes: dict[int, int]) -> None:
        """Adds one look: the memory of each worker, by its process id."""
        if self._of != sizes.keys():
            self._of, self._seen = frozenset(sizes), []
        self._seen.append(Seen(now_s, sum(sizes.values())))
        if len(self._seen) > _MOST:
            del self._seen[1::2]

    def series(self, passes: Sequence[int]) -> Iterator[tuple[str, float]]:
        """Memory, and its growth if there were enough looks. `passes` are the moments at which passes began, in ns."""
        if not self._seen:
            return
        yield "worker_memory_mb", in_mb(self._seen[-1].own_bytes)
        growth = growth_with_interval(self._seen)
        if growth is None:
            return
        units = {"hour": _HOUR_S}
        if len(passes) > 1:
            units["pass"] = (passes[-1] - passes[0]) * _NS / (len(passes) - 1)
        for unit, length_s in units.items():
            for end, rate in zip(("", "_low", "_high"), growth, strict=True):
                yield f"worker_memory_growth_mb_per_{unit}{end}", in_mb(rate * length_s)


def present(pids: Collection[int]) -> dict[int, int]:
    """The memory of those of these processes that still run."""
    return {pid: size for pid in pids if (size := own_bytes(pid))}
