"""Batches padded to their longest sample only. A change of the script: predicted from the account, not tried."""

from __future__ import annotations

from collections.abc import Sequence

from pipebench.remedies.seen import WORTH, Seen, without
from pipebench.results.advice import Change, Finding

PLACE = 11
HOW = (
    "In collate_fn, pad to the longest sample of the batch: max(len(one) for one in samples), or",
    "torch.nn.utils.rnn.pad_sequence. Samples of about the same length in one batch save more.",
)


def propose(seen: Seen, tried: Sequence[Finding]) -> Change | None:
    causes = seen.watched.account.causes if seen.watched.account else ()
    found = next((one for one in causes if one.code == "padding" and one.loader == seen.loader.loader), None)
    saved = found.recoverable_s if found is not None else None
    if found is None or not saved or (predicted := without(seen.watched, saved)) < WORTH:
        return None
    return Change(
        "padding", {}, f"saves about {saved:.1f} s", predicted=predicted, title="padding to the longest sample",
        how=HOW, at=seen.at(seen.all_made.get(found.loader or 0)), of_script=True,
    )  # fmt: skip
