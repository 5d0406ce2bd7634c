"""Work on batches, done by the workers and not in the loop. A change of the script: predicted, not tried."""

from __future__ import annotations

from collections.abc import Sequence

from pipebench.remedies.seen import WORTH, Seen, without
from pipebench.results.advice import Change, Finding, Place

PLACE = 11
HOW = ("Do this work in the dataset's __getitem__, or in collate_fn: then workers do it while the loop trains.",)


def propose(seen: Seen, tried: Sequence[Finding]) -> Change | None:
    causes = seen.watched.account.causes if seen.watched.account else ()
    found = next((one for one in causes if one.code == "prepare" and one.loader == seen.loader.loader), None)
    saved = found.recoverable_s if found is not None else None
    if found is None or not saved or (predicted := without(seen.watched, saved)) < WORTH:
        return None
    place = Place(str(found.values.get("function") or "the loop"), str(found.values["file"]), int(found.values["line"]))
    return Change(
        "in_workers", {}, f"saves about {saved:.1f} s", predicted=predicted, title="batches prepared in the workers",
        how=HOW, at=place, of_script=True,
    )  # fmt: skip
