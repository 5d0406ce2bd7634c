"""More batches made ahead. It helps if the cost of batches varies: a store of batches bridges the long ones."""

from __future__ import annotations

from collections.abc import Sequence

from pipebench.remedies.seen import Seen
from pipebench.results.advice import Change, Finding

PLACE = 3
TIMES = 4


def propose(seen: Seen, tried: Sequence[Finding]) -> Change | None:
    if tried or not seen.workers or not seen.waits:
        return None
    now = seen.number("prefetch_factor") or 2
    cost = f"memory for {seen.workers * now * (TIMES - 1)} batches"
    asked = seen.has_cause("periodic-stalls", "head-of-line")
    return Change("prefetch_factor", {"prefetch_factor": TIMES * now}, cost, predicted=seen.promise, asked_for=asked)
