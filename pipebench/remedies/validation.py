"""Validation in larger batches, or half as often. A change of the script: predicted from the account, not tried.

Larger batches come first where they are much smaller than in training: they change no result. What they save is not
known, so the figure is that of half as often.
"""

from __future__ import annotations

from collections.abc import Sequence

from pipebench.remedies.seen import WORTH, Seen, account_s, line_of, without
from pipebench.results.advice import Change, Finding, Place
from pipebench.units import called_at, seconds

PLACE = 10
_MUCH = 8  # times as many samples in a batch of training
HOW = ("Run this loop half as often, as in every second pass only, or on a part of its data.",)
LARGER = "Or, first, give its loader a larger batch_size: a batch has {} here, and {} in training."
CHEAPER = "Or do the work besides its model at less cost: it took about {} ({})."
LARGER_FIRST = (
    "Give its loader a larger batch_size: a batch has {} here, and {} in training. What that saves was not measured.",
    "Or run this loop half as often, as in every second pass only, or on a part of its data.",
)


def propose(seen: Seen, tried: Sequence[Finding]) -> Change | None:
    spent, row = max(account_s(seen, "validation"), key=lambda one: one[0], default=(0.0, None))
    predicted = without(seen.watched, spent / 2)
    causes = seen.watched.account.causes if seen.watched.account else ()
    values = next((one.values for one in causes if row and (one.code, one.loader) == ("validation", row.loader)), {})
    if row is None or predicted < WORTH or "kept" in values:  # kept: it may be no validation
        return None
    made = seen.all_made.get(row.loader or 0)
    file, line = seen.place_of(made)
    at = Place("the validation loop", file, line) if file else None
    if "batch" in values and int(values["batch"]) * _MUCH <= int(values["trains"]):
        return Change(
            "validation", {}, f"half saves {spent / 2:.1f} of {spent:.1f} s", predicted=predicted,
            title="validation in larger batches, or half as often", at=at, of_script=True,
            how=tuple(one.format(values["batch"], values["trains"]) for one in LARGER_FIRST),
        )  # fmt: skip
    how = (*HOW, LARGER.format(values["batch"], values["trains"])) if "batch" in values else HOW
    if "apart_s" in values and "line" in values:
        function, by = (str(values.get(name, "")) for name in ("function", "by"))
        told = called_at(function, by, str(values["file"]), int(values["line"]))
        how = (*how, CHEAPER.format(seconds(float(values["apart_s"])), told), *line_of(values))
    return Change(
        "validation", {}, f"saves {spent / 2:.1f} of {spent:.1f} s", predicted=predicted,
        title="validation half as often", how=how, at=at, of_script=True,
    )  # fmt: skip
