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
MORE_PARTS = (
    "Write the data in at least as many shards (files, tars) as there are workers, best a multiple of",
    "their number: a worker without a shard makes no batch.",
)
CODES = {"uneven-workers": ("work spread evenly", HOW), "few-parts": ("as many shards as workers", MORE_PARTS)}


def propose(seen: Seen, tried: Sequence[Finding]) -> Change | None:
    found = ((seen.cause(code), *how) for code, how in CODES.items())
    cause, title, how = next((one for one in found if one[0] is not None), (None, "", ()))
    return of_cause(seen, cause, "spread_evenly", title, how)
