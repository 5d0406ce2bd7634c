"""A stream that each worker divides before it makes samples. A change of the dataset: predicted from the account."""

from __future__ import annotations

from collections.abc import Sequence

from pipebench.remedies.seen import Seen, of_cause
from pipebench.results.advice import Change, Finding

PLACE = 13
HOW = (
    "In __iter__, choose the worker's part before decoding and transforming: among the files,",
    "files[info.id :: info.num_workers] with info = torch.utils.data.get_worker_info(),",
    "or by the number of each raw sample; in webdataset, split_by_worker right after the list of shards.",
)


def propose(seen: Seen, tried: Sequence[Finding]) -> Change | None:
    return of_cause(seen, seen.cause("each-makes-all"), "divide_first", "a stream divided first", HOW)
