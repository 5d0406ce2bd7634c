"""A stream that each worker divides before it makes samples. A change of the dataset: predicted from the account."""

from __future__ import annotations

from collections.abc import Sequence

from pipebench.remedies.seen import WORTH, Seen, without
from pipebench.results.advice import Change, Finding

PLACE = 13
HOW = (
    "In __iter__, choose the worker's part before decoding and transforming: among the files,",
    "files[info.id :: info.num_workers] with info = torch.utils.data.get_worker_info(),",
    "or by the number of each raw sample.",
)


def propose(seen: Seen, tried: Sequence[Finding]) -> Change | None:
    saved = seen.could_save("each-makes-all")
    predicted = without(seen.watched, saved)
    if predicted < WORTH:
        return None
    return Change(
        "divide_first", {}, f"saves about {saved:.1f} s", predicted=predicted, title="a stream divided first",
        how=HOW, of_script=True,
    )  # fmt: skip
