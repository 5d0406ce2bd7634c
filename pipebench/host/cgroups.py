"""The control groups of this process: what they allow it, and what the kernel counted in them.

Version 2 has one tree; version 1 has one for each controller. A limit of an outer group holds for the inner ones. In a
container the outer groups may be invisible, and the path of the own group may be that of the host; what is not there
is passed over.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

_TREES = Path("sys/fs/cgroup")
ROOT = Path("/")


def files(controller: str, name: str, root: Path = ROOT) -> Iterator[Path]:
    """Every file called `name` in the groups of this process, the innermost first. `root` holds `proc` and `sys`."""
    return (file for folder in _folders(controller, root) if (file := folder / name).is_file())


@functools.cache
def _folders(controller: str, root: Path) -> tuple[Path, ...]:
    """The groups that are there. Looked for once, because their files are read again and again."""
    trees, found = root / _TREES, []
    lines: list[str] = []
    with contextlib.suppress(OSError):
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    for line in [*lines, "0::/", f"1:{controller}:/"]:
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        own = PurePosixPath(path.lstrip("/"))
        for base in _bases(trees, controllers, controller):
            found += [base / one for one in (own, *own.parents) if ".." not in one.parts]
    return tuple(one for one in dict.fromkeys(found) if one.is_dir())


def _bases(trees: Path, controllers: str, controller: str) -> list[Path]:
    if not controllers:  # version 2; `unified` is its tree beside those of version 1
        return [trees, trees / "unified"]
    return [trees / controller, trees / controllers] if controller in controllers.split(",") else []


def cpu_quota(root: Path = ROOT) -> float:
    """The cores that the tightest quota allows (v2 `cpu.max`, v1 `cpu.cfs_quota_us`); infinite if there is none."""
    allowed = [math.inf]
    for file in files("cpu", "cpu.max", root):
        with contextlib.suppress(OSError, ValueError, ZeroDivisionError):
            quota, period = file.read_text().split()
            allowed += [] if quota == "max" else [int(quota) / int(period)]
    for file in files("cpu", "cpu.cfs_quota_us", root):
        with contextlib.suppress(OSError, ValueError, ZeroDivisionError):
            quota_us, period_us = (int(file.with_name(f"cpu.cfs_{one}_us").read_text()) for one in ("quota", "period"))
            allowed += [quota_us / period_us] if quota_us > 0 else []
    return min(allowed)


def memory(root: Path = ROOT) -> tuple[int, int] | None:
    """The tightest limit in bytes, and what can still be had; None if there is no limit.

    Of several groups, a wider one can have less left, because other groups use it too. The cache of files that were not
    used lately can be had: the kernel gives it up before it kills.
    """
    found = [
        *_memory("memory.max", "memory.current", root),
        *_memory("memory.limit_in_bytes", "memory.usage_in_bytes", root),
    ]
    return (min(most for most, _ in found), min(left for _, left in found)) if found else None


def _memory(limit: str, used: str, root: Path) -> Iterator[tuple[int, int]]:
    for file in files("memory", limit, root):
        with contextlib.suppress(OSError, ValueError):  # "max" is no number
            most = int(file.read_text())
            if most < 1 << 60:  # version 1 has no word for "no limit", but this number
                left = most - int(file.with_name(used).read_text()) + _idle_cache(file.with_name("memory.stat"))
                yield most, min(most, max(0, left))


def _idle_cache(file: Path) -> int:
    with contextlib.suppress(OSError, ValueError):
        counted = counts(file.read_text())
        return counted.get("total_inactive_file", counted.get("inactive_file", 0))
    return 0


def counts(text: str) -> dict[str, int]:
    """The names and numbers of a file of counters such as `cpu.stat`. Other lines are left out."""
    found = {}
    for line in text.splitlines():
        name, _, number = line.partition(" ")
        if number.strip().isdigit():
            found[name] = int(number)
    return found
