"""A FUSE mount whose files answer late, spoken to the kernel without any library. Needs root and /dev/fuse.

    python slow_mount.py FOLDER SECONDS [FILES [BYTES]]

mounts FILES files (`0`, `1`, ...) of BYTES each at FOLDER, until its standard input ends. Each read takes SECONDS; with
a `-` before SECONDS, each open does, and reads are at once.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

KIND = "fuse.late"
_LOOKUP, _FORGET, _GETATTR, _OPEN, _READ, _STATFS, _RELEASE, _FLUSH = 1, 2, 3, 14, 15, 17, 18, 25
_INIT, _OPENDIR, _READDIR, _RELEASEDIR, _INTERRUPT, _BATCH_FORGET = 26, 27, 28, 29, 36, 42
_DETACH = 2
_libc = ctypes.CDLL(None, use_errno=True)


def _attributes(node: int, size: int) -> bytes:
    mode = 0o040755 if node == 1 else 0o100644
    return struct.pack("<6Q10I", node, 0 if node == 1 else size, 1, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)


class Late:
    """Answers the kernel's requests: each in a thread of its own."""

    def __init__(self, point: str, late_s: float, files: int, size: int) -> None:
        self.read_s, self.open_s = (late_s, 0.0) if late_s >= 0 else (0.0, -late_s)
        self.files, self.size = files, size
        self.device = os.open("/dev/fuse", os.O_RDWR)
        how = f"fd={self.device},rootmode=40000,user_id=0,group_id=0,allow_other".encode()
        if _libc.mount(b"late", point.encode(), KIND.encode(), 0, how):
            raise OSError(ctypes.get_errno(), "mount")

    def serve(self) -> None:
        with contextlib.suppress(OSError):  # it was unmounted
            while True:
                given = os.read(self.device, 1 << 20)
                threading.Thread(target=self._answer, args=(given,), daemon=True).start()

    def _answer(self, given: bytes) -> None:
        _, code, unique, node = struct.unpack_from("<IIQQ", given)
        if code in (_FORGET, _BATCH_FORGET, _INTERRUPT):
            return
        found = self._made(code, node, given[40:])
        error, body = (found, b"") if isinstance(found, int) else (0, found)
        with contextlib.suppress(OSError):
            os.write(self.device, struct.pack("<IiQ", 16 + len(body), -error, unique) + body)

    def _made(self, code: int, node: int, given: bytes) -> bytes | int:
        if code == _INIT:
            return struct.pack("<4I2H2I2H8I", 7, 31, 1 << 16, 0, 12, 9, 1 << 16, 1, 0, 0, *[0] * 8)
        if code == _LOOKUP:
            name = given.rstrip(b"\0")
            if not name.isdigit() or int(name) >= self.files:
                return errno.ENOENT
            found = 2 + int(name)
            return struct.pack("<4Q2I", found, 0, 0, 0, 0, 0) + _attributes(found, self.size)
        if code == _GETATTR:
            return struct.pack("<QII", 0, 0, 0) + _attributes(node, self.size)
        if code in (_OPEN, _OPENDIR):
            time.sleep(self.open_s if code == _OPEN else 0)
            return struct.pack("<QII", 0, 1, 0)  # direct: each read comes here
        if code == _READ:
            time.sleep(self.read_s)
            _, offset, size = struct.unpack_from("<QQI", given)
            return bytes(max(0, min(size, self.size - offset)))
        if code == _STATFS:
            return bytes(80)
        return b"" if code in (_READDIR, _RELEASE, _RELEASEDIR, _FLUSH) else errno.ENOSYS


def possible() -> bool:
    return os.geteuid() == 0 and os.access("/dev/fuse", os.R_OK | os.W_OK)


@contextlib.contextmanager
def mounted(point: Path, late_s: float, files: int = 64, size: int = 50_000) -> Iterator[None]:
    """The mount, in a process of its own. Raises OSError where mounting is forbidden."""
    command = [sys.executable, __file__, str(point), str(late_s), str(files), str(size)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        try:
            assert server.stdin is not None and server.stdout is not None
            if server.stdout.readline() != b"mounted\n":
                raise OSError(errno.EPERM, "this machine forbids to mount")
            yield
        finally:
            _libc.umount2(str(point).encode(), _DETACH)
            server.kill()


if __name__ == "__main__":
    late = Late(sys.argv[1], float(sys.argv[2]), *map(int, sys.argv[3:] or ["64", "50000"]))
    threading.Thread(target=late.serve, daemon=True).start()
    os.write(1, b"mounted\n")
    try:
        sys.stdin.read()
    finally:
        _libc.umount2(sys.argv[1].encode(), _DETACH)
