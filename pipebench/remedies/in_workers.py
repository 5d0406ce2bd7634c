"""Work on batches, done by the workers and not in the loop. A change of the script: predicted, not tried."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pipebench.remedies.seen import Seen, of_cause
from pipebench.results.advice import Change, Finding, Place

PLACE = 11
WITHOUT_LOADER = ("Make batches in the dataset of a DataLoader with workers: these do it while the loop trains.",)
LENGTH = ("Keep len() of the loader in a variable before the loop: what gives its batches counts them anew each time.",)
HOW = ("Do this work in the dataset's __getitem__, or in collate_fn: then workers do it while the loop trains.",)


def propose(seen: Seen, tried: Sequence[Finding]) -> Change | None:
    found = seen.cause("prepare")
    if found is None:
        return None
    values = found.values
    more = int(values.get("more_workers", 0))
    how: tuple[str, ...] = WITHOUT_LOADER if "no_loader" in values else HOW
    if more and seen.room.holds(more, seen.prefetch_factor):
        how = (*how, f"Set num_workers={more} for it.")
    how = LENGTH if "length" in values else how
    place = Place(str(values.get("function") or "the loop"), str(values["file"]), int(values["line"]))
    found = replace(found, recoverable_s=float(values["workers_s"])) if "workers_s" in values else found
    title = "len() asked once" if "length" in values else "batches prepared in the workers"
    return of_cause(seen, found, "in_workers", title, how, place)
