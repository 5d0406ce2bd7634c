"""Says what a phase of training that takes longer and longer took of a run, and what could be saved of it. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

from pipebench.results.account import Account, AccountRow, Cause
from pipebench.watch.read.gather import NO_LOADER, Run
from pipebench.watch.read.growing import PHASES, Grown
from pipebench.watch.read.of_causes import Seen
from pipebench.watch.record.record_file import FORWARD, OTHER
from pipebench.watch.record.trial_lines import LineLooks

Values = dict[str, str | int | float]
CODE, REASON = "slower-steps", "less-kept"
_LINES = {FORWARD: "forward_lines", OTHER: "besides"}  # looks that found a line in these phases
_LEAST, _SIGMAS, _MOST = 10, 3, 0.6  # looks that came on top; of their scatter; and of all growth


def slower_steps(seen: Seen) -> Iterable[Cause]:
    """A phase of training that takes longer and longer, of each loop."""
    for one in seen.in_loop:
        found = seen.grown.get(one.loader)
        if found is None:
            continue
        for row in seen.rows(*(code for code, phase in PHASES.items() if phase == found.phase), loader=one.loader):
            values: Values = {
                "phase": row.code, "early_s": found.early_s, "late_s": found.late_s,
                **_grown_in(seen.run, one.loader, found.phase),
            }  # fmt: skip
            more_s = min(row.s, found.more_s)
            yield Cause(CODE, more_s, more_s, one.loader, values, unsure=not found.sizes_known)


def _grown_in(run: Run, loader: int, phase: int) -> Values:
    """The function of the user's own in which most of the growth was seen, and its line with most looks.

    Those of the first half of the iterations are compared with the others. None if they are too few, or do not tell it.
    """
    lines = run.looks(loader) if phase in _LINES else []
    half, turns = sum(one.turns for one in lines) / 2, 0
    each: tuple[Counter[tuple[str, str]], ...] = Counter(), Counter()
    sizes, at = [0, 0], Counter[LineLooks]()
    for one in lines:
        late = turns >= half
        turns, sizes[late] = turns + one.turns, sizes[late] + one.turns
        for looked in getattr(one, _LINES[phase]):
            each[late][looked.file, looked.function] += looked.looks
            at[looked._replace(looks=0, calls="")] += looked.looks * late
    early, late_ones = each
    if not all(sizes) or not late_ones:
        return {}
    before = {one: early[one] * sizes[1] / sizes[0] for one in late_ones}  # were it as in the first half
    more = {one: looks - before[one] for one, looks in late_ones.items()}
    first = max(more, key=lambda one: more[one])
    scatter = math.sqrt(late_ones[first] + before[first] * sizes[1] / sizes[0])  # of counts, as Poisson's
    if more[first] < max(_LEAST, _SIGMAS * scatter, _MOST * sum(max(0.0, one) for one in more.values())):
        return {}
    line = max((one for one in at if (one.file, one.function) == first), key=lambda one: at[one])
    place: Values = {"file": line.file, "line": line.line}
    return place | ({"function": line.function} if line.function else {})


def with_less_kept(account: Account | None, found: Mapping[int, Grown]) -> Account | None:
    """The account, with what a phase of training that grows could save. Of "other", all is said to be saved already."""
    if account is None:
        return None
    return replace(account, rows=tuple(_saved(row, found.get(row.loader or NO_LOADER)) for row in account.rows))


def _saved(row: AccountRow, found: Grown | None) -> AccountRow:
    if found is None or found.phase == OTHER or PHASES.get(row.code) != found.phase:
        return row
    return replace(row, recoverable_s=min(row.s, found.more_s), reason=REASON)
