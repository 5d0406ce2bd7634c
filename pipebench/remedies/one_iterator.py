"""One iterator for all steps, in place of a new one for each batch. A change of the script: predicted, not tried."""

from __future__ import annotations

from collections.abc import Sequence

from pipebench.remedies.seen import Seen, of_cause
from pipebench.results.advice import Change, Finding

PLACE = 10
NEW_ITERATORS = "new-iterators"  # of the causes
HOW = (
    "def endless(loader):",
    "    while True:",
    "        yield from loader",
    "Before the loop: batches = endless(loader). In each step: next(batches), not next(iter(loader)).",
)


def propose(seen: Seen, tried: Sequence[Finding]) -> Change | None:
    found = seen.cause(NEW_ITERATORS)
    return of_cause(seen, found, "one_iterator", "one iterator for all steps", HOW, seen.at_loader_of(found))
