"""Workers that live on after a pass. It shows only in whole passes: each begins without the start of workers.

They also keep what they have filled, such as a cache.
"""

from __future__ import annotations

from collections.abc import Sequence

from pipebench.remedies.seen import TRY_FROM, Seen, without, without_share
from pipebench.results.advice import Change, Finding

PLACE = 0
COST = "memory between passes"
KEEPS = ("Workers that live on keep the dataset of the first pass: they see no later change of it.",)


def propose(seen: Seen, tried: Sequence[Finding]) -> Change | None:
    cause = seen.cause("warm-up")
    filled_s = (cause.recoverable_s or 0.0) if cause is not None and cause.loader == seen.loader.loader else 0.0
    starts, fills = (1 - 1 / one for one in (seen.without_start, without(seen.watched, filled_s)))
    faster = without_share(starts + fills)
    if (
        tried
        or not seen.workers
        or seen.loader.remade == "other"
        or seen.loader.others
        or seen.settings.get("persistent_workers")
        or faster < TRY_FROM
    ):
        return None
    return Change(
        "persistent_workers", {"persistent_workers": True}, COST, by_passes=True, predicted=faster, how=KEEPS,
        asked_for=filled_s > 0,
    )  # fmt: skip
