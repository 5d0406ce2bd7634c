"""Which mount a file is on: its mount point and the type of its file system. Standard library only."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import NamedTuple

# File systems of the kernel's own tables and devices: no data is stored there.
NO_STORAGE = frozenset({
    "proc", "sysfs", "cgroup", "cgroup2", "devpts", "devtmpfs", "mqueue", "debugfs", "tracefs", "securityfs", "bpf",
    "fuse.lxcfs",
})  # fmt: skip
_ESCAPED = re.compile(rb"\\([0-7]{3})")  # as mountinfo writes a space


class Mount(NamedTuple):
    """One mount. `number` is the kernel's, `device` as `st_dev`, `kind` the type of its file system."""

    number: int
    device: int
    point: str
    kind: str


def mounts(file: str = "/proc/self/mountinfo") -> list[Mount]:
    """All mounts, later ones over earlier ones at the same place; none where the system does not tell."""
    try:
        with open(file, "rb") as told:
            return [one for one in map(_mount, told) if one is not None]
    except OSError:
        return []


def _mount(line: bytes) -> Mount | None:
    """See proc_pid_mountinfo(5): number, parent, device, root, point, options, ..., "-", type, source, options."""
    before, dash, after = line.partition(b" - ")
    fields, kinds = before.split(), after.split()
    if not dash or len(fields) < 5 or not kinds:
        return None
    try:
        major, minor = map(int, fields[2].split(b":"))
        number = int(fields[0])
    except ValueError:
        return None
    point = _ESCAPED.sub(lambda found: bytes([int(found[1], 8) & 0xFF]), fields[4])
    return Mount(number, os.makedev(major, minor), os.fsdecode(point), os.fsdecode(kinds[0]))


def of_path(found: Sequence[Mount], path: str) -> Mount | None:
    """The mount with the longest point that holds a path without links; the last one of several there."""
    best = None
    for one in found:
        if _holds(one.point, path) and (best is None or len(one.point) >= len(best.point)):
            best = one
    return best


def of_file(found: Sequence[Mount], device: int, path: str) -> Mount | None:
    """The mount of an open file. A device may be mounted at several places, and that of a btrfs is none of a mount."""
    on = [one for one in found if one.device == device]
    return on[0] if len(on) == 1 else of_path(on, path) or of_path(found, path)


def _holds(point: str, path: str) -> bool:
    return point == "/" or path == point or path.startswith(point + "/")
