"""A stream that drops samples before it decodes them. A change of the script: predicted from the account."""

from __future__ import annotations

from collections.abc import Sequence

from pipebench.remedies.seen import Seen, of_cause
from pipebench.results.advice import Change, Finding

PLACE = 13
HOW = (
    "Put select(...) before decode(...) and map(...), and let it ask what is known then:",
    "in webdataset, decode only what it asks, as in .decode(only='json').select(wanted), and the rest behind it.",
)


def propose(seen: Seen, tried: Sequence[Finding]) -> Change | None:
    return of_cause(seen, seen.cause("made-in-vain"), "select_first", "samples selected before they are decoded", HOW)
