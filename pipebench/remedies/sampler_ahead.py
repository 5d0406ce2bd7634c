"""The sampler's indices made ahead. A change of the script: predicted from the account, not tried."""

from __future__ import annotations

from collections.abc import Sequence

from pipebench.remedies.seen import WORTH, Seen, account_s, without
from pipebench.results.advice import Change, Finding

PLACE = 12
HOW = "Make the list of indices before the loop: {0}=list({0}), anew for each pass."


def propose(seen: Seen, tried: Sequence[Finding]) -> Change | None:
    spent = sum(found for found, row in account_s(seen, "sampler") if row.loader == seen.loader.loader)
    predicted = without(seen.watched, spent)
    if predicted < WORTH:
        return None
    how = HOW.format("sampler" if seen.settings.get("batch_size") else "batch_sampler")
    return Change(
        "sampler_ahead", {}, f"saves about {spent:.1f} s", predicted=predicted, title="sampler made ahead", how=(how,),
        at=seen.at(seen.made), of_script=True,
    )  # fmt: skip
