"""Forked workers in place of spawned ones: they start without importing everything again."""

from __future__ import annotations

from collections.abc import Sequence

from pipebench.remedies.seen import TRY_FROM, Seen
from pipebench.results.advice import Change, Finding

PLACE = 6
COST = "unsafe beside threads"


def propose(seen: Seen, tried: Sequence[Finding]) -> Change | None:
    if tried or not seen.workers or seen.loader.start_method == "fork" or seen.without_start < TRY_FROM:
        return None
    settings = {"multiprocessing_context": "fork"}
    return Change("start_method", dict(settings), COST, by_passes=True, predicted=seen.without_start)
