"""Says what a phase of training that takes longer and longer took of a run, and what could be saved of it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from pipebench.results.account import Account, AccountRow, Cause
from pipebench.watch.read.gather import NO_LOADER
from pipebench.watch.read.growing import PHASES, Grown
from pipebench.watch.read.of_causes import Seen
from pipebench.watch.record.record_file import OTHER

CODE, REASON = "slower-steps", "less-kept"


def slower_steps(seen: Seen) -> Iterable[Cause]:
    """A phase of training that takes longer and longer, of each loop."""
    for one in seen.in_loop:
        found = seen.grown.get(one.loader)
        if found is None:
            continue
        for row in seen.rows(*(code for code, phase in PHASES.items() if phase == found.phase), loader=one.loader):
            values: dict[str, str | int | float] = {
                "phase": row.code, "early_s": found.early_s, "late_s": found.late_s,
            }  # fmt: skip
            more_s = min(row.s, found.more_s)
            yield Cause(CODE, more_s, more_s, one.loader, values, unsure=not found.sizes_known)


def with_less_kept(account: Account | None, found: Mapping[int, Grown]) -> Account | None:
    """The account, with what a phase of training that grows could save. Of "other", all is said to be saved already."""
    if account is None:
        return None
    return replace(account, rows=tuple(_saved(row, found.get(row.loader or NO_LOADER)) for row in account.rows))


def _saved(row: AccountRow, found: Grown | None) -> AccountRow:
    if found is None or found.phase == OTHER or PHASES.get(row.code) != found.phase:
        return row
    return replace(row, recoverable_s=min(row.s, found.more_s), reason=REASON)
