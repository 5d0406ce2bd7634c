"""A cheaper sampler. A change of the script: predicted from the account, not tried.

The same `__iter__` called before the pass, in the loop's own thread, takes as long there.
"""

from __future__ import annotations

from collections.abc import Sequence

from pipebench.remedies.seen import WORTH, Seen, account_s, line_of, without
from pipebench.results.advice import Change, Finding

PLACE = 12
HOW = (
    "In __iter__ of the {0}, draw all indices of a pass at once, take labels from a table and decode nothing.",
    "Or keep the list of indices, if passes may repeat it.",
    "Or draw the next pass in another process while this one trains.",
)


def propose(seen: Seen, tried: Sequence[Finding]) -> Change | None:
    spent = sum(found for found, row in account_s(seen, "sampler") if row.loader == seen.loader.loader)
    predicted = without(seen.watched, spent)
    if predicted < WORTH:
        return None
    cause = seen.cause("sampler")
    known = line_of(cause.values) if cause is not None and cause.loader == seen.loader.loader else ()
    name = "sampler" if seen.settings.get("batch_size") else "batch_sampler"
    return Change(
        "sampler_ahead", {}, f"saves about {spent:.1f} s", predicted=predicted,
        title="a sampler that takes hardly any time", how=(*known, *(line.format(name) for line in HOW)),
        at=seen.at(seen.made), of_script=True,
    )  # fmt: skip
