"""Batches in the order in which they are ready, instead of the sampler's (torch 2.6 and later).

It helps if one slow batch holds up finished ones. It changes the order of batches, so it is tried only if the user
allows that.
"""

from __future__ import annotations

from collections.abc import Sequence

from pipebench.remedies.seen import Seen
from pipebench.results.advice import Change, Finding

PLACE = 5
COST = "order of batches varies"


def propose(seen: Seen, tried: Sequence[Finding]) -> Change | None:
    if tried or seen.workers < 2 or not seen.waits or not seen.settings.get("in_order") or not seen.any_order:
        return None
    asked = seen.has_cause("head-of-line", "slow-worker")
    return Change("in_order", {"in_order": False}, COST, predicted=seen.promise, asked_for=asked)
