"""Memory: what is free of it, whether it is swapped, and how large its pages are."""

from __future__ import annotations

from mmap import PAGESIZE

from pipebench.doctor.checking import check, fine, hurts, know
from pipebench.doctor.host import OVER_S, Host
from pipebench.host import cgroups
from pipebench.results.examination import Finding
from pipebench.units import size

_TIGHT, _NEARLY = 0.2, 0.05  # of the memory that this process may use
_LEAST = 1 << 30  # bytes: a few workers with torch in each
_SWAPPED = 0.01  # of the memory
HUGE = "sys/kernel/mm/transparent_hugepage/enabled"


def available(host: Host) -> tuple[int, int]:
    """The memory that this process may use, and what of it is available. The control group may lower both."""
    known = _meminfo(host)
    total, free = known["MemTotal"], known["MemAvailable"]
    group = cgroups.memory(host.root)
    return (total, free) if group is None else (min(total, group[0]), min(free, group[1]))


def _meminfo(host: Host) -> dict[str, int]:
    lines = (line.split() for line in host.text("proc/meminfo").splitlines())
    return {words[0].rstrip(":"): int(words[1]) << 10 for words in lines if len(words) == 3}


@check
def memory(host: Host) -> Finding:
    total, free = available(host)
    said = f"{size(free)} of {size(total)} are available"
    matters = "When it runs out, the kernel kills a worker. Before that, the files of the data leave the page cache."
    remedy = "start fewer workers, raise the limit (docker run --memory), or list what is large and end it"
    command = "ps -eo pid,rss,comm --sort=-rss | head"
    if free < max(_NEARLY * total, _LEAST):
        return hurts(said, matters, remedy, command, available=free, total=total)
    if free < _TIGHT * total:
        return know(said, matters, remedy, command, available=free, total=total)
    return fine(said, available=free, total=total)


@check
def swap(host: Host) -> Finding:
    known = _meminfo(host)
    used = known["SwapTotal"] - known["SwapFree"]
    moved = PAGESIZE * (_pages(host.later.get("proc/vmstat", "")) - _pages(host.earlier.get("proc/vmstat", "")))
    remedy = "list what was swapped out, and end it or free some memory"
    command = "grep VmSwap /proc/[0-9]*/status | sort -n -k 2 | tail"
    if moved > 0:
        matters = "A worker whose pages are on a disk waits for each of them."
        found = f"{size(moved)} were swapped within {OVER_S:g} s"
        return hurts(found, matters, remedy, command, moved=moved, used=used)
    if used > _SWAPPED * known["MemTotal"]:
        matters = "What was swapped out is read back when it is used: a stall that a measurement cannot foresee."
        return know(f"{size(used)} are swapped out", matters, remedy, command, used=used)
    return fine(f"{size(used)} are swapped out" if used else "none in use", used=used)


def _pages(vmstat: str) -> int:
    known = cgroups.counts(vmstat)
    return known.get("pswpin", 0) + known.get("pswpout", 0)


@check
def huge_pages(host: Host) -> Finding:
    said = host.text(HUGE)
    chosen = said[said.index("[") + 1 : said.index("]")]
    if chosen == "never":
        return know(
            "transparent huge pages are off",
            "In a loader without workers, collate writes each batch into fresh memory: a fault for every small page.",
            "allow programs to ask for them; torch then asks with THP_MEM_ALLOC_ENABLE=1",
            f"echo madvise | sudo tee /{HUGE}",
        )
    how = ": torch asks for them if THP_MEM_ALLOC_ENABLE=1 is set" if chosen == "madvise" else ""
    return fine(f"{chosen}{how}")
