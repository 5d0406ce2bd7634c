"""Reads the record of the script's process while it runs: each line once."""

from __future__ import annotations

from pathlib import Path

from pipebench.watch.read.decoding import decoded, whole_lines
from pipebench.watch.record.lines import Line, ProcessStarted
from pipebench.watch.record.record_file import SUFFIX


class Tail:
    """The lines of the script's own process in `folder`, as they come."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._path: Path | None = None
        self._read = 0

    def new(self) -> list[Line]:
        """The lines since the last call. A line that is not yet complete comes with a later call."""
        if self._path is None:
            self._path = next((one for one in sorted(self.folder.glob(f"*{SUFFIX}")) if _is_script(one)), None)
        if self._path is None or not self._path.exists():
            return []
        lines, self._read = whole_lines(self._path, self._read)
        return [one for one in map(decoded, lines) if one is not None]


def _is_script(path: Path) -> bool:
    """Whether this is the record of the script's own process. Its stages may be named before its begin."""
    with path.open("rb") as file:
        begun = (line for text in file if isinstance(line := decoded(text), ProcessStarted))
        first = next(begun, None)
    return first is not None and first.role == "script"
