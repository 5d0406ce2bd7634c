"""The sample that a worker is at, in a file that the worker maps: it is known however the worker ends.

A note is a few stores to memory, so it may be made at every sample. Standard library only.
"""

from __future__ import annotations

import contextlib
import mmap
import os
from pathlib import Path
from typing import NamedTuple

from pipebench.watch.record.from_handlers import forgiving, from_a_handler
from pipebench.watch.record.record_file import SUFFIX

AT = ".at"
_BYTES = 256
_NUMBER, _TEXT = 1, 2  # what the second word says of the sample
_HEAD = 32  # bytes: whether a batch is made, the kind of the sample's name, the number or the length of the name
_ENTRIES = 100  # of many indices: already these have a longer text than there is room for


def text_of(index: object) -> str | None:
    """An index of the user's own as text, as long as there is room for; None if it cannot be told."""
    with forgiving():  # repr() of a user's object may fail
        if type(index) is list or type(index) is tuple:
            index = index[:_ENTRIES]
        return repr(index)[: _BYTES - _HEAD]
    return None


class PresentSample:
    """What one worker notes beside its record file. If there is no room for the file, nothing is noted."""

    def __init__(self, record_file: str) -> None:
        self._path = record_file.removesuffix(SUFFIX) + AT
        self._words = memoryview(bytearray(_BYTES)).cast("q")
        with contextlib.suppress(OSError):
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            try:
                os.posix_fallocate(descriptor, 0, _BYTES)  # a store to a page that has no room would kill the worker
                self._words = memoryview(mmap.mmap(descriptor, _BYTES)).cast("q")
            finally:
                os.close(descriptor)

    def begin(self) -> None:
        """A batch is being made from now on."""
        self._words[0] = 1

    def end(self) -> None:
        self._words[0] = 0

    def note(self, index: object) -> None:
        """The worker is at this sample from now on: an index of the dataset, or several."""
        try:
            self._words[2] = index  # type: ignore[call-overload]  # raises for what is no number
            self._words[1] = _NUMBER
        except Exception as error:
            if from_a_handler(error):
                raise
            self._note_text(index)

    def _note_text(self, index: object) -> None:
        if (found := text_of(index)) is not None:
            text = found.encode("utf-8", "backslashreplace")[: _BYTES - _HEAD]
            place = self._words.cast("B")
            place[_HEAD : _HEAD + len(text)] = text
            self._words[2] = len(text)
            self._words[1] = _TEXT

    def remove(self) -> None:
        """Forgets the sample, because the worker ends as it should."""
        with contextlib.suppress(OSError):
            os.unlink(self._path)


class LastSample(NamedTuple):
    """The last sample of a worker, by its index. `inside` says that a batch was being made when the worker ended."""

    name: str
    inside: bool


def last_sample(record: Path) -> LastSample | None:
    """The last sample of the worker with this record file; None if it noted none, or ended as it should."""
    try:
        content = record.with_suffix(AT).read_bytes()
    except OSError:
        return None
    words = memoryview(content[:_HEAD]).cast("q") if len(content) == _BYTES else [0] * 4
    if words[1] == _NUMBER:
        return LastSample(str(words[2]), bool(words[0]))
    if words[1] == _TEXT and 0 <= words[2] <= _BYTES - _HEAD:
        return LastSample(content[_HEAD : _HEAD + words[2]].decode("utf-8", "replace"), bool(words[0]))
    return None
