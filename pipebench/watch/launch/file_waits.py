"""Says from outside which mount a process waits for: by the system call that its main thread is in.

A thread that waits for a file of a FUSE mount is asleep, as one that waits for a pipe or a timer is. The call tells
them apart. No file is touched, because that would wait, too: the kernel's own tables tell the mount.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from posixpath import join, normpath

from pipebench.watch.record.mounts import NO_STORAGE, Mount, mounts, of_path
from pipebench.watch.record.reads import OTHERS, Place

# A wait for a file of these is a sleep that no signal ends; a thread that sleeps otherwise in a read waits for a FIFO.
_LOCAL = frozenset({
    "ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "bcachefs", "overlay", "tmpfs", "ramfs", "squashfs", "erofs",
    "iso9660", "vfat", "exfat", "ntfs3",
})  # fmt: skip
# The numbers of calls whose first argument is a descriptor: read, pread64, readv, preadv, preadv2, getdents64, fstat.
_BY_DESCRIPTOR: Mapping[str, frozenset[int]] = {
    "x86_64": frozenset({0, 17, 19, 295, 327, 78, 217, 5}),
    "aarch64": frozenset({63, 67, 65, 69, 286, 61, 80}),
}
# And of calls with a path, each with the argument that it is: openat, newfstatat, statx, faccessat, readlinkat,
# openat2, faccessat2; of x86_64 also open, stat, lstat, access, readlink.
_BY_PATH: Mapping[str, Mapping[int, int]] = {
    "x86_64": {257: 1, 262: 1, 332: 1, 269: 1, 267: 1, 437: 1, 439: 1, 2: 0, 4: 0, 6: 0, 21: 0, 89: 0},
    "aarch64": {56: 1, 79: 1, 291: 1, 48: 1, 78: 1, 437: 1, 439: 1},
}
_MOST_TABLES, _MOST_READS = 16, 64
_LONGEST, _PAGE = 4096, 4096
_HERE = (1 << 32) - 100  # AT_FDCWD as 32 bits
_NO_CALL = -1  # of a thread that is blocked, but in no system call: it waits for a page


class FileWaits:
    """The mounts that processes wait for. `proc` is the folder of the kernel's tables."""

    def __init__(self, proc: str = "/proc", machine: str = "") -> None:
        self._proc = proc
        self._machine = machine or platform.machine()
        self._tables: dict[str, list[Mount]] = {}  # by the namespace of mounts
        self._read = 0

    def at(self, pid: int, asleep: bool) -> Place | None:
        """The type of the file system and the mount point. None: it waits for no file, or the system does not tell.

        `OTHERS`: it waits for a page of a mapped file, of which the mount is not told. `asleep`: a signal would end its
        wait, which a wait for a local disk never allows.
        """
        try:
            number, given = self._call(pid)
            if number == _NO_CALL:
                return OTHERS
            found = self._mount(pid, number, given)
        except (OSError, ValueError, IndexError):  # it is gone, or this kernel tells less
            return None
        if found is None or found.kind in NO_STORAGE or (asleep and found.kind in _LOCAL):
            return None
        return found.kind, found.point

    def _call(self, pid: int) -> tuple[int, list[int]]:
        """The number and the arguments of the system call. Raises ValueError if the thread runs."""
        with open(f"{self._proc}/{pid}/syscall", encoding="ascii") as file:
            number, *given = file.read().split()
        return int(number), [int(one, 16) for one in given[:6]]

    def _mount(self, pid: int, number: int, given: list[int]) -> Mount | None:
        if number in _BY_DESCRIPTOR.get(self._machine, ()):
            return self._of_descriptor(pid, given[0])
        place = _BY_PATH.get(self._machine, {}).get(number)
        return None if place is None else self._of_path(pid, given, place)

    def _of_descriptor(self, pid: int, descriptor: int) -> Mount | None:
        with open(f"{self._proc}/{pid}/fdinfo/{descriptor & 0xFFFFFFFF}", encoding="utf-8", errors="replace") as file:
            told = dict(line.split(":", 1) for line in file if ":" in line)
        number = int(told["mnt_id"]) if "mnt_id" in told else -1
        for anew in (False, True):
            found = next((one for one in self._table(pid, anew) if one.number == number), None)
            if found is not None:
                return found
        return None  # a pipe, or a connection

    def _of_path(self, pid: int, given: list[int], place: int) -> Mount | None:
        """The mount of a path, as it is written. A link may lead from a local folder elsewhere: such is not told."""
        path = self._text(pid, given[place])
        folder = given[0] & 0xFFFFFFFF
        if not path:
            return self._of_descriptor(pid, folder) if place and folder != _HERE else None
        if not path.startswith("/"):
            of = "cwd" if not place or folder == _HERE else f"fd/{folder}"
            path = join(os.readlink(f"{self._proc}/{pid}/{of}"), path)
        found = of_path(self._table(pid, False), normpath(path))
        return None if found is None or found.kind in _LOCAL else found

    def _text(self, pid: int, address: int) -> str:
        """A text in the memory of a process, up to the end of its page."""
        with open(f"{self._proc}/{pid}/mem", "rb", buffering=0) as file:
            file.seek(address)
            found = file.read(min(_LONGEST, _PAGE - address % _PAGE))
        return os.fsdecode(found.partition(b"\0")[0])

    def _table(self, pid: int, anew: bool) -> list[Mount]:
        """The mounts that a process sees. They are read again, a few times, where one of them is not known."""
        space = os.readlink(f"{self._proc}/{pid}/ns/mnt")
        if space in self._tables and not (anew and self._read < _MOST_READS):
            return self._tables[space]
        if len(self._tables) >= _MOST_TABLES:
            self._tables.clear()
        self._read += 1
        found = self._tables[space] = mounts(f"{self._proc}/{pid}/mountinfo")
        return found
