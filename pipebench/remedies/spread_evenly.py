"""Work that is spread evenly among the workers of a stream. A change of the dataset: predicted from the account."""

from __future__ import annotations

from collections.abc import Sequence

from pipebench.remedies.seen import Seen, of_cause
from pipebench.results.advice import Change, Finding

PLACE = 13
HOW = (
    "Give each worker a part of all samples, not some of the shards: in __iter__,",
    "samples[info.id :: info.num_workers] with info = torch.utils.data.get_worker_info(),",
    "or deal the shards by their sizes.",
)


def propose(seen: Seen, tried: Sequence[Finding]) -> Change | None:
    return of_cause(seen, seen.cause("uneven-workers"), "spread_evenly", "work spread evenly", HOW)
