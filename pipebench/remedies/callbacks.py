"""Logging and callbacks out of the loop. A change of the script: predicted from the account, not tried."""

from __future__ import annotations

from collections.abc import Sequence

from pipebench.remedies.in_workers import LENGTH
from pipebench.remedies.seen import WORTH, Seen, account_s, line_of, without
from pipebench.results.advice import Change, Finding, Place

PLACE = 11
HOW = ("Log every 50th iteration, and move what needs no weights to a thread or to the end of a pass.",)
GROWS = (
    "It takes longer and longer through a pass, as work on all of the pass so far does: do it once at the end of the "
    "pass, or keep sums that each step adds to.",
)


def propose(seen: Seen, tried: Sequence[Finding]) -> Change | None:
    causes = seen.watched.account.causes if seen.watched.account else ()
    if any(one.code == "callbacks" and one.recoverable_s is None for one in causes):
        return None  # with a device: it may be what the loop waits for
    spent = sum(row.recoverable_s or 0.0 for _, row in account_s(seen, "other"))
    predicted = without(seen.watched, spent)
    if predicted < WORTH:
        return None
    values = next((one.values for one in causes if one.code == "callbacks"), {})
    at = (
        Place(str(values.get("function") or "the loop"), str(values["file"]), int(values["line"]))
        if "line" in values
        else None
    )
    unverified = ("Not verified on a GPU.",) if seen.watched.device_idle is not None else ()
    how = (*line_of(values), *(GROWS if "early_s" in values else ()), *HOW, *unverified)
    return Change(
        "callbacks", {}, f"saves about {spent:.1f} s", predicted=predicted, title="callbacks out of the loop",
        how=LENGTH if "length" in values else how, at=at, of_script=True,
    )  # fmt: skip
