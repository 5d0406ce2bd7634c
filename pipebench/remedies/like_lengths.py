"""Batches of samples of about the same length. A change of the script: predicted from the account, not tried."""

from __future__ import annotations

from collections.abc import Sequence

from pipebench.remedies.seen import Seen, of_cause
from pipebench.results.advice import Change, Finding

PLACE = 11
HOW = (
    "Give the loader a batch_sampler: shuffle all indices, sort each stretch of some 20 batches by",
    "length, cut it into batches, and shuffle these. Other samples then meet in a batch.",
)
OF_STREAM = (
    "In the stream, fill a buffer with the samples of some 20 batches, sort it by length, cut it into",
    "batches, and give these in random order. Other samples then meet in a batch.",
)


def propose(seen: Seen, tried: Sequence[Finding]) -> Change | None:
    found = seen.cause("unequal-lengths")
    streams = {one.loader for one in seen.watched.loaders if one.shards is not None}
    how = OF_STREAM if found is not None and found.loader in streams else HOW
    return of_cause(seen, found, "like_lengths", "batches of like length", how, seen.at_loader_of(found))
