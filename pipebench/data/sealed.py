"""Folders that pipebench builds for itself: written whole or not at all, and used only if no byte of them changed."""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from pipebench.data import listing
from pipebench.errors import SampleError
from pipebench.host.whole_files import alone

SUMS = "manifest.sha256"
_SEAL = "# sha256 of the lines above: "
_STALE_S = 86_400.0  # a build that is unfinished after a day was interrupted


class Sums:
    """The file of SHA-256 sums while it is written. Without its last line (the seal) the build counts as unfinished."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._digest = hashlib.sha256()

    def add(self, digest: str, path: str) -> None:
        line = f"{digest}  {path}\n".encode()
        self._digest.update(line)
        self._file.write(line)

    def seal(self) -> None:
        self._file.write(f"{_SEAL}{self._digest.hexdigest()}\n".encode())


def verified(folder: Path) -> bool:
    """Whether every built file exists with the bytes that were written."""
    try:
        text = listing.read_file(str(folder / SUMS)).decode()
        lines, found, seal = text.rpartition(_SEAL)
        if not found or hashlib.sha256(lines.encode()).hexdigest() != seal.strip():
            return False
        return all(digest(folder / path) == wanted for wanted, path in _sums(lines))
    except (SampleError, OSError, ValueError):
        return False


def _sums(lines: str) -> Iterator[tuple[str, str]]:
    for line in lines.splitlines():
        wanted, _, path = line.partition("  ")
        yield wanted, path


def digest(path: Path) -> str:
    with open(listing.open_regular(str(path)), "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def build(name: str, folder: Path, write: Callable[[Path], None]) -> None:
    """Lets `write` fill a temporary folder and renames it, so that an interrupted build is never used.

    `write` must end with the file of sums. Raises OSError if the folder cannot be written.
    """
    import tempfile

    folder.parent.mkdir(parents=True, exist_ok=True)
    _sweep(folder.parent)
    building = Path(tempfile.mkdtemp(prefix=f".building-{name}-", dir=folder.parent))
    try:
        write(building)
        building.chmod(0o755)
        _install(building, folder)
    finally:
        shutil.rmtree(building, ignore_errors=True)


def _sweep(parent: Path) -> None:
    """Removes the leftovers of builds that were killed."""
    for left in parent.glob(".building-*"):
        try:
            if time.time() - left.stat().st_mtime > _STALE_S:
                shutil.rmtree(left, ignore_errors=True)
        except OSError:  # its own process has removed it
            continue


def _install(building: Path, folder: Path) -> None:
    """Gives the built folder its final name, unless another process was first. A damaged folder is replaced."""
    import tempfile

    spoilt = Path(tempfile.mkdtemp(prefix=".building-spoilt-", dir=folder.parent))
    try:
        with alone(folder.parent):
            if os.path.lexists(folder):
                if verified(folder):
                    return
                folder.rename(spoilt / folder.name)
            building.rename(folder)
    finally:
        shutil.rmtree(spoilt, ignore_errors=True)
