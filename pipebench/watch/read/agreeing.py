"""Lets the rows of an account say what its causes say could be saved of them. Pure."""

from __future__ import annotations

from dataclasses import replace

from pipebench.results.account import IN_VAIN, Account, AccountRow, Cause


def with_causes(account: Account) -> Account:
    """The account, in which what could be saved of a row is what the cause says that is about this row alone."""
    rows = account.rows
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
