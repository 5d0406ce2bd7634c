"""One iterator for all steps, in place of a new one for each batch. A change of the script: predicted, not tried."""

from __future__ import annotations

from collections.abc import Sequence

from pipebench.remedies.seen import WORTH, Seen, without
from pipebench.results.advice import Change, Finding

PLACE = 10
NEW_ITERATORS = "new-iterators"  # of the causes
HOW = (
    "def endless(loader):",
    "    while True:",
    "        yield from loader",
    "Before the loop: batches = endless(loader). In each step: next(batches), not next(iter(loader)).",
)


def propose(seen: Seen, tried: Sequence[Finding]) -> Change | None:
    causes = seen.watched.account.causes if seen.watched.account else ()
    found = next((one for one in causes if one.code == NEW_ITERATORS), None)
    saved = found.recoverable_s if found is not None else None
    if found is None or not saved or (predicted := without(seen.watched, saved)) < WORTH:
        return None
    return Change(
        "one_iterator", {}, f"saves about {saved:.1f} s", predicted=predicted, title="one iterator for all steps",
        how=HOW, at=seen.at(seen.all_made.get(found.loader or 0)), of_script=True,
    )  # fmt: skip
