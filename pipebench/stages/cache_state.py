"""The page cache in the state that a workload asks for, before each reading of a task that opens files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from pipebench.host import page_cache
from pipebench.task import Unavailable, Workload

COLD_RESIDENCY = 0.02  # share of pages: the read-ahead of a neighbouring file may bring a few back


class Opened(Protocol):
    """What one call opens. `verified` is set when its files were found to be in the page cache."""

    verified: bool

    @property
    def paths(self) -> list[str]: ...


def bring_about(workload: Workload, sources: Sequence[Opened]) -> str | None:
    """Brings the page cache into the workload's state; returns a warning's code where it could not."""
    paths = [path for source in sources for path in source.paths]
    if workload.cache == "cold":
        page_cache.drop(paths)
        resident = page_cache.residency(paths)
        return "not-cold" if resident is None or resident > COLD_RESIDENCY else None
    if sources[0].verified:
        return None
    sources[0].verified = True
    page_cache.fill(paths)
    resident = page_cache.residency(paths)
    return "not-warm" if resident is not None and resident < 1 - COLD_RESIDENCY else None


def must_show(workload: Workload, paths: Sequence[str]) -> None:
    """Raises `Unavailable` where a cold cache is asked for and the kernel cannot show it for these files."""
    if workload.cache == "cold" and page_cache.residency(paths) is None:
        raise Unavailable("kernel", "the page cache of these files cannot be inspected, so that cold cannot be shown")
