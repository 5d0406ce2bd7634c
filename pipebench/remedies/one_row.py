"""Samples of one array in place of many numbers. A change of the dataset: predicted from the account, not tried."""

from __future__ import annotations

from collections.abc import Sequence

from pipebench.remedies.seen import Seen, of_cause
from pipebench.results.advice import Change, Finding

PLACE = 13
HOW = (
    "Let __getitem__ give all numbers of a sample as one array or tensor, as a row of the table, and not",
    "as a dict or tuple of numbers: collate then makes one tensor of a batch. Take columns by their places.",
)


def propose(seen: Seen, tried: Sequence[Finding]) -> Change | None:
    return of_cause(seen, seen.cause("many-tensors"), "one_row", "samples in one tensor", HOW)
