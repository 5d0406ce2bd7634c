"""Batches padded to their longest sample only. A change of the script: predicted from the account, not tried."""

from __future__ import annotations

from collections.abc import Sequence

from pipebench.remedies.seen import Seen, of_cause
from pipebench.results.advice import Change, Finding

PLACE = 11
HOW = (
    "In collate_fn, pad to the longest sample of the batch: max(len(one) for one in samples), or",
    "torch.nn.utils.rnn.pad_sequence. Samples of about the same length in one batch save more.",
)


def propose(seen: Seen, tried: Sequence[Finding]) -> Change | None:
    found = seen.cause("padding")
    return of_cause(seen, found, "padding", "padding to the longest sample", HOW, seen.at_loader_of(found))
