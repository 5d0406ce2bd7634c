"""Lets the rows of an account say what its causes say of them. Pure."""

from __future__ import annotations

from dataclasses import replace

from pipebench.results.account import IN_VAIN, Account, AccountRow, Cause

_WAIT, _RECEIVING, _FASTER = "wait-for-worker", ("receive", "unpickle"), "faster-loading"


def with_causes(account: Account) -> Account:
    """The account, in which what could be saved of a row is what the cause says that is about this row alone.

    Where a batch is received late because its worker computes, that is a wait for the worker in the rows, too.
    """
    rows, late = account.rows, {one.loader: one for one in account.causes if _is_late(one)}
    for cause in late.values():
        rows = _with_late(rows, cause)
    for cause in account.causes:
        rows = tuple(_of_cause(row, cause) if row.loader == cause.loader else row for row in rows)
    return replace(account, rows=rows)


def _of_cause(row: AccountRow, cause: Cause) -> AccountRow:
    saved_s = min(row.s, cause.recoverable_s or 0.0)
    if row.code == "make-batch" and cause.code == "no-workers" and "by_thread" not in cause.values:
        cheaper = IN_VAIN in cause.values or "slow_line" in cause.values
        return replace(row, recoverable_s=saved_s, reason="faster-loading" if cheaper else row.reason)
    if row.code == "wait-for-worker" and cause.code == "shared-lock":
        return replace(row, recoverable_s=min(saved_s, row.recoverable_s or 0.0))
    if row.code == "validation" and cause.code == "validation":
        most_s = min(row.s, float(cause.values["waits_s"]))
        return replace(row, recoverable_s=max(most_s, row.recoverable_s or 0.0)) if most_s else row
    return row


def _is_late(cause: Cause) -> bool:
    return "late_s" in cause.values and "busy" in cause.values


def _with_late(rows: tuple[AccountRow, ...], cause: Cause) -> tuple[AccountRow, ...]:
    """The rows, with what was waited for workers while receiving in the row of waits for them."""
    late_s, moved_s = float(cause.values["late_s"]), 0.0
    found = []
    for row in rows:
        if row.loader == cause.loader and row.code in _RECEIVING:
            left_s = row.s - min(row.s, late_s - moved_s)
            moved_s += row.s - left_s
            saved_s = min(row.recoverable_s or 0.0, left_s) or None
            row = replace(row, s=left_s, recoverable_s=saved_s, reason=row.reason if saved_s else None)
        found.append(row)
    waits = next((one for one in found if (one.loader, one.code) == (cause.loader, _WAIT)), None)
    if waits is None:
        place = min((at for at, one in enumerate(found) if one.loader == cause.loader), default=len(found))
        return (*found[:place], AccountRow(_WAIT, moved_s, cause.loader, moved_s, _FASTER), *found[place:])
    more = replace(waits, s=waits.s + moved_s, recoverable_s=(waits.recoverable_s or 0.0) + moved_s, reason=_FASTER)
    return tuple(more if one is waits else one for one in found)
