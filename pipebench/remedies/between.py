"""Less work between the passes, as checkpoints or a validation without a DataLoader. A change of the script.

It is predicted from the account, and not tried.
"""

from __future__ import annotations

from collections.abc import Sequence

from pipebench.remedies.seen import WORTH, Seen, looped_s
from pipebench.results.account import work_between
from pipebench.results.advice import Change, Finding, Place

PLACE = 11
HOW = ("Do it less often, or at less cost; or once, before the passes, if it gives the same each time.",)


def propose(seen: Seen, tried: Sequence[Finding]) -> Change | None:
    causes = seen.watched.account.causes if seen.watched.account else ()
    found = work_between(causes)
    whole = looped_s(seen.watched)
    if found is None or not whole or (predicted := 1 + found.s / whole) < WORTH:
        return None
    at = Place(str(found.values.get("function") or "its place"), str(found.values["file"]), int(found.values["line"]))
    return Change(
        "between", {}, f"saves up to {found.s:.1f} s", predicted=predicted, title="less work between the passes",
        how=HOW, at=at, of_script=True, of_run=True,
    )  # fmt: skip
