"""A stream that decodes only the fields of a sample that it passes on. A change of the script: predicted."""

from __future__ import annotations

from collections.abc import Sequence

from pipebench.remedies.seen import Seen, of_cause
from pipebench.results.advice import Change, Finding

PLACE = 13
HOW = (
    "In webdataset, name the fields that later stages pass on: decode(..., only=[{only}]).",
    "The others stay bytes, and to_tuple(...) leaves them out as before.",
)


def propose(seen: Seen, tried: Sequence[Finding]) -> Change | None:
    cause = seen.cause("fields-in-vain")
    only = str(cause.values.get("only") or "...") if cause is not None else ""
    how = tuple(line.format(only=only) for line in HOW)
    return of_cause(seen, cause, "fewer_fields", "only the fields decoded that are used", how)
