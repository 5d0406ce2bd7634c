"""Reads the memory of a process without stopping it. A wrong address gives an error, never a crash.

See process_vm_readv(2). A process may read its own memory, and the supervisor may read that of the script and its
workers, unless the system forbids it.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import os
import struct


class _Piece(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]


class Memory:
    """The memory of the process `pid`. Every method raises OSError: ESRCH if it ended, EPERM if it is not allowed."""

    def __init__(self, pid: int) -> None:
        call = ctypes.CDLL(None, use_errno=True).process_vm_readv
        call.restype = ctypes.c_ssize_t
        self._here, self._there = _Piece(), _Piece()
        here, there, one = ctypes.byref(self._here), ctypes.byref(self._there), ctypes.c_ulong(1)
        self._read = functools.partial(call, ctypes.c_int(pid), here, one, there, one, ctypes.c_ulong(0))
        self._room = 0
        self._grow(1 << 13)

    def _grow(self, length: int) -> None:
        self._buffer = ctypes.create_string_buffer(length)
        self._here.base, self._room = ctypes.addressof(self._buffer), length

    def bytes(self, address: int, length: int) -> bytes:
        """`length` bytes from `address`, or fewer where the memory ends."""
        if not 0 < address < 1 << 63:
            raise OSError(errno.EFAULT, os.strerror(errno.EFAULT))
        if length > self._room:
            self._grow(length)
        self._here.length = self._there.length = length
        self._there.base = address
        got = self._read()
        if got < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return ctypes.string_at(self._buffer, got)

    def words(self, address: int, count: int) -> tuple[int, ...]:
        """`count` words of eight bytes, or fewer where the memory ends."""
        found = self.bytes(address, 8 * count)
        return struct.unpack_from(f"={len(found) // 8}Q", found)

    def word(self, address: int) -> int:
        found = self.words(address, 1)
        if not found:
            raise OSError(errno.EFAULT, os.strerror(errno.EFAULT))
        return found[0]
