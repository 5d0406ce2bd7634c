"""Workers that live on after a pass. It shows only in whole passes: each begins without the start of workers."""

from __future__ import annotations

from collections.abc import Sequence

from pipebench.remedies.seen import TRY_FROM, Seen
from pipebench.results.advice import Change, Finding

PLACE = 0
COST = "memory between passes"
KEEPS = ("Workers that live on keep the dataset of the first pass: they see no later change of it.",)


def propose(seen: Seen, tried: Sequence[Finding]) -> Change | None:
    if tried or not seen.workers or seen.settings.get("persistent_workers") or seen.without_start < TRY_FROM:
        return None
    settings = {"persistent_workers": True}
    return Change(
        "persistent_workers", dict(settings), COST, by_passes=True, predicted=seen.without_start, how=KEEPS
    )  # fmt: skip
