"""What a side of a comparison took its code and its data from: the modules that it imported, the files that it opened.

Files are noticed while it imports, sets up, and calls its benchmarks for the first time. This file runs inside a side
(`round_process` reads it by its path) and uses the standard library only. No process that is timed has the audit hook:
it cannot be removed again, and every event of the interpreter would take longer.
"""

from __future__ import annotations

import builtins
import contextlib
import io
import os
import sys
import sysconfig
from collections.abc import Iterator
from typing import Any

INSTALLED = ("site-packages", "dist-packages")
READS = (os.O_RDONLY, os.O_RDWR)


def modules() -> dict[str, str]:
    """Every module that is imported by now, with the file that it came from.

    Left out are modules that were made and not read from a file, such as `torch.ops`, and the standard library.
    """
    library = {os.path.realpath(sysconfig.get_path(name)) + os.sep for name in ("stdlib", "platstdlib")}
    files = {name: getattr(module, "__file__", None) for name, module in list(sys.modules.items())}
    return {
        name: file
        for name, file in files.items()
        if isinstance(file, str) and os.path.isabs(file) and not _of_library(file, library)
    }


def _of_library(file: str, library: set[str]) -> bool:
    installed = any(part in file.split(os.sep) for part in INSTALLED)
    return not installed and os.path.realpath(file).startswith(tuple(library))


class OpenedFiles:
    """The files that this process and those that it forks have opened to read, while it noticed them."""

    def __init__(self) -> None:
        self._seen: set[str] = set()
        self._list = os.memfd_create("pipebench-opened")  # a forked process has the same one, and its end

    @contextlib.contextmanager
    def noticed(self) -> Iterator[None]:
        """Notices what Python's `open` opens within the block. Nothing is left of it afterwards."""
        opens = builtins.open

        def noticing(file: Any, mode: Any = "r", *arguments: Any, **named: Any) -> Any:
            if isinstance(mode, str) and ("r" in mode or "+" in mode):
                self._add(file)
            return opens(file, mode, *arguments, **named)

        builtins.open = io.open = noticing
        try:
            yield
        finally:
            builtins.open = io.open = opens

    def notice_all(self) -> None:
        """From here on, notices whatever Python opens in this process. Not for a process that is timed."""

        def hook(event: str, arguments: tuple[Any, ...]) -> None:
            if event == "open" and isinstance(arguments[2], int) and arguments[2] & os.O_ACCMODE in READS:
                self._add(arguments[0])

        sys.addaudithook(hook)

    def _add(self, file: Any) -> None:
        with contextlib.suppress(Exception):  # whatever is wrong with it, `open` says so
            if isinstance(file, int):
                return
            place = os.path.abspath(os.fsdecode(file))
            if place not in self._seen:
                self._seen.add(place)
                os.write(self._list, os.fsencode(place) + b"\0")

    def inside(self, folder: str) -> list[str]:
        """The files below `folder` that were opened so far, by their real paths relative to it."""
        top = os.path.realpath(folder)
        said = os.pread(self._list, os.fstat(self._list).st_size, 0)
        real = {os.path.realpath(os.fsdecode(one)) for one in said.split(b"\0") if one}
        return sorted(os.path.relpath(one, top) for one in real if one.startswith(top + os.sep) and os.path.isfile(one))
