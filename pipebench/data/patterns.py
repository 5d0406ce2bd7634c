"""What the user's own data is, by its name: a tar, images, or a pattern of either with braces, `*`, `?` and `[…]`."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator
from itertools import islice

from pipebench.data import listing
from pipebench.errors import PipebenchError, SampleError, UsageError
from pipebench.units import printable

MAX_FILES = 100_000  # that a pattern may name
_COMPRESSED = {b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\xfd7zXZ\x00": "xz", b"\x28\xb5\x2f\xfd": "zstd"}


def named(name: str) -> list[str] | None:
    """The paths that a name stands for: itself if there is such a file, else those that fit the pattern, in order.

    Those of a brace pattern come in its order, whether they exist or not; those of `*` by the bytes of their names.
    None if there is no such file and it is no pattern. PipebenchError for a pattern that cannot be used, UsageError
    for one that nothing fits.
    """
    if os.path.lexists(name):
        return [name]
    if "{" not in name and not glob.has_magic(name):
        return None
    found = list(islice(_fitting(name), MAX_FILES + 1))
    if len(found) > MAX_FILES:
        raise PipebenchError(f"{printable(name)} names more than {MAX_FILES:,} files.", "Name fewer, or their folder.")
    if not found:
        raise UsageError(f"No file fits {printable(name)}.", listing.WANTED)
    return found


def _fitting(pattern: str) -> Iterator[str]:
    for one in _expanded(pattern) if "{" in pattern else [pattern]:
        if glob.has_magic(one) and not os.path.lexists(one):
            yield from sorted(islice(glob.iglob(one, recursive=True), MAX_FILES + 1), key=os.fsencode)
        else:
            yield one


def _expanded(pattern: str) -> Iterator[str]:
    import braceexpand

    try:
        yield from braceexpand.braceexpand(pattern)
    except ValueError as error:
        raise PipebenchError(f"{printable(pattern)} is not a brace pattern: {error}.", listing.WANTED) from error


def tars(paths: list[str]) -> list[str]:
    """Returns `paths`; raises `PipebenchError` if one of them cannot be an uncompressed tar in a regular file."""
    for path in paths:
        try:
            with open(listing.open_regular(path), "rb", buffering=0) as file:
                start = file.read(8)
        except SampleError as error:
            raise PipebenchError(f"{printable(path)} cannot be used: {error}.", listing.WANTED) from error
        packed = next((name for magic, name in _COMPRESSED.items() if start.startswith(magic)), None)
        if packed:
            remedy = "Decompress it first: in a compressed tar no member can be found without unpacking all before it."
            raise PipebenchError(f"{printable(path)} is compressed ({packed}).", remedy)
        if not path.lower().endswith(".tar"):
            problem = f"{printable(path)} is neither a folder, an image nor a .tar."
            raise PipebenchError(problem, f"{listing.WANTED}\n{listing.OTHERS}")
    return paths
