"""Less work in the user's function that takes the workers most, where training waits for the cores that they use.

Fewer threads of torch then gain, too, but only as long as the workers need these cores: of that work, nobody needs any
that can be done otherwise. Not tried: `advise` changes no code of the dataset.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from pipebench.remedies import slow_lines
from pipebench.remedies.seen import TRY_FROM, Seen
from pipebench.results.advice import Change, Finding, Place
from pipebench.results.drilled import DrilledLine

PLACE = 12
_MOST = 0.5  # of the time in which batches are made: less is not what training waits for
HOW = (
    "Do it on whole arrays or in one call of a library, once before the training where its result depends on",
    "nothing else, or leave out what later steps throw away. --full shows the lines of this function.",
)


def propose(seen: Seen, tried: Sequence[Finding]) -> Change | None:
    if tried or not seen.training_gains_too or slow_lines.propose(seen, ()) is not None:
        return None
    functions: defaultdict[tuple[str, str, str], list[tuple[float, DrilledLine]]] = defaultdict(list)
    for kind, share, line in seen.lines():
        functions[kind, line.file, line.function].append((share, line))
    shares = {one: sum(share for share, _ in lines) for one, lines in functions.items()}
    most = max(shares, key=shares.__getitem__, default=None)
    if most is None or shares[most] < _MOST:
        return None
    predicted = slow_lines.at_most(seen, shares[most])
    if predicted < TRY_FROM:
        return None
    _, first = max(functions[most], key=lambda one: one[0])
    what = "putting batches together" if most[0] == "collate" else "making samples"
    return Change(
        "less_work", {}, "written by hand", predicted=predicted, title=f"less work in {what}", how=HOW,
        at=Place(first.function, first.file, first.line), of_script=True, about=True, or_more=True, frees=shares[most],
    )  # fmt: skip
