"""More batches made ahead. It helps if the cost of batches varies: a store of batches bridges the long ones.

Where workers rest and the loop waits, the first rung is the lowest that the simulation holds for nearly the best: a
store that does not reach over a long batch gains nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from pipebench.remedies.seen import Seen
from pipebench.results.advice import Change, Finding

PLACE = 3
TIMES = 4
_UNEVEN = ("waiting", "uneven-workers")  # the loop waits though workers rest: a larger store bridges such waits
_LADDER = 4  # of 8, 32, 128 and 512 batches: how far the simulation is asked
_RUNGS = 2  # where batches come in bursts, and the first rung gained


def propose(seen: Seen, tried: Sequence[Finding]) -> Change | None:
    asked = seen.has_cause("periodic-stalls", *_UNEVEN) or (seen.has_cause("head-of-line") and not seen.any_order)
    goes_on = asked and len(tried) < _RUNGS and all(one.outcome == "gain" for one in tried)
    if (tried and not goes_on) or not seen.workers or not seen.waits:
        return None
    now = seen.prefetch_factor
    latest = [int(one.change.settings["prefetch_factor"] or 0) for one in tried]
    found = latest[-1] * TIMES if latest else _first(seen) if asked else now * TIMES
    if not seen.room.holds(seen.workers, found):
        return None
    cost = f"memory for {seen.workers * (found - now)} batches"
    return Change("prefetch_factor", {"prefetch_factor": found}, cost, predicted=seen.promise, asked_for=asked)


def _first(seen: Seen) -> int:
    lowest = seen.prefetch_factor * TIMES
    rungs = [lowest * TIMES**place for place in range(_LADDER)]
    return seen.first_rung(
        "prefetch_factor", [lowest, *(one for one in rungs[1:] if seen.room.holds(seen.workers, one))]
    )
