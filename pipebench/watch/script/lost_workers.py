"""Finds workers that ended before their loader told them to, and how, or that it waited for too long.

Nothing waits for them here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pipebench.host.children import ended
from pipebench.watch.record.recording import Recording
from pipebench.watch.record.worker_lines import TimedOut, WorkerGone

_TIMED_OUT = "DataLoader timed out after "


class LostWorkers:
    """Writes each lost worker of the script once."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._known: set[int] = set()

    def look(self, iterator: Any) -> None:
        """Looks at the workers of an iterator, if its loader has workers and has not yet told them to end."""
        if not getattr(iterator, "_shutdown", True):
            self._write(getattr(iterator, "_workers", ()))

    def failed(self, passes: Mapping[Any, Any], iterator: Any, error: BaseException) -> None:
        """Writes that a loader's iterator gave up waiting, if this error of its `next` says so."""
        if type(error) is not RuntimeError or not str(error).startswith(_TIMED_OUT):
            return
        if (found := passes.get(iterator)) is not None:
            self._recording.write(TimedOut(found.loader, float(getattr(iterator, "_timeout", 0))))

    def _write(self, workers: Iterable[Any]) -> None:
        for worker in workers:
            status = None if worker.pid in self._known else ended(worker)
            if status is not None:
                self._known.add(worker.pid)
                self._recording.write(WorkerGone(worker.pid, status))
