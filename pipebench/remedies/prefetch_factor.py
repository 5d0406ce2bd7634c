"""More batches made ahead. It helps if the cost of batches varies: a store of batches bridges the long ones."""

from __future__ import annotations

from collections.abc import Sequence

from pipebench.remedies.seen import Seen
from pipebench.results.advice import Change, Finding

PLACE = 3
TIMES = 4
_UNEVEN = ("waiting", "uneven-workers")  # the loop waits though workers rest: a larger store bridges such waits
_RUNGS = 2  # where batches come in bursts, and the first rung gained


def propose(seen: Seen, tried: Sequence[Finding]) -> Change | None:
    asked = seen.has_cause("periodic-stalls", *_UNEVEN) or (seen.has_cause("head-of-line") and not seen.any_order)
    goes_on = asked and len(tried) < _RUNGS and all(one.outcome == "gain" for one in tried)
    if (tried and not goes_on) or not seen.workers or not seen.waits:
        return None
    now = seen.prefetch_factor
    found = now * TIMES ** (len(tried) + 1)
    if not seen.has_room(seen.workers, found):
        return None
    cost = f"memory for {seen.workers * (found - now)} batches"
    return Change("prefetch_factor", {"prefetch_factor": found}, cost, predicted=seen.promise, asked_for=asked)
