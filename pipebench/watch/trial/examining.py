"""Looks for sync points in some iterations of the script's loop. No timing includes these iterations.

The modes of torch that find them run the script's operators as before, more slowly. A fault in them would end the
script, so they run only where its weights are worth nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pipebench.results.sync_points import SyncReport
from pipebench.syncpoints.examine import SyncsOfLoop, syncs
from pipebench.watch.record.trial_lines import SyncAt, TrialSyncs


class Examining:
    """Examines `iterations`, each from one batch to the next one of the same pass. `tell` gets what was found."""

    def __init__(
        self, order: int, iterations: int, tell: Callable[[TrialSyncs], object], begin: Callable[[], Any] = syncs
    ) -> None:
        self.order, self.left, self._tell, self._begin = order, iterations, tell, begin
        self._open: SyncsOfLoop | None = None

    def came(self, batch: Any) -> None:
        """The script gets `batch` now."""
        if self._open is not None:
            self._open.step()
            self.left -= 1
            if self.left <= 0:
                return self.end()
        elif self.left > 0:
            found = self._begin()
            found.__enter__()
            self._open = found
            found.came_before(batch)
        return None

    def end(self) -> None:
        """The pass or the examination is over: puts everything back, and tells what was found."""
        found, self._open = self._open, None
        if found is None:
            return
        found.__exit__(None, None, None)
        if self.left <= 0:
            self._tell(_line(self.order, found.report()))


def _line(order: int, report: SyncReport) -> TrialSyncs:
    points = [
        SyncAt(one.path, one.line, one.per_step, [made.name for made in one.operations], one.lost_s)
        for one in report.points
    ]
    return TrialSyncs(order, report.device or "", points)
