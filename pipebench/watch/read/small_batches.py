"""What handing batches over could save: no more than their size explains, or fewer and larger batches. Pure.

With gradient accumulation, a batch may be as large as what one step of the optimiser takes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from pipebench.results.account import Account, AccountRow, Cause
from pipebench.results.watched import LoaderResult, WatchResult
from pipebench.watch.read.gather import Run
from pipebench.watch.read.moves import BUSY, longest_hand_off_s
from pipebench.watch.read.of_causes import MATTERS, Seen

_FEW = 4  # samples of a batch
_OF_EACH_BATCH = ("send-indices", "receive", "unpickle", "next")
_HAND_OFF = ("receive", "unpickle")


def batches_of_step(run: Run, loader: int) -> float:
    """How many batches of a loader one step of the optimisers takes; 1 where each batch has a step, or none had."""
    lines = run.turns(loader)
    steps = sum(one.steps for one in lines)
    return max(1.0, sum(one.turns for one in lines) / steps) if steps else 1.0


def _fewer(run: Run, one: LoaderResult) -> float:
    """The share of its batches that larger ones save, if they have a few samples; else 0."""
    samples = one.samples / one.batches if one.batches else 0.0
    return 1 - 1 / batches_of_step(run, one.loader) if one.training and 0 < samples <= _FEW else 0.0


def small_batches(seen: Seen) -> Iterable[Cause]:
    """Batches of a few samples, of which one step takes several. What training would save with larger ones: unknown."""
    for one in seen.in_loop:
        spent = seen.s(*_OF_EACH_BATCH, loader=one.loader)
        saved = _fewer(seen.run, one) * spent
        if saved >= MATTERS * seen.loops_s > 0:
            values = {**of_few_samples(seen), "batches": seen.batches(one)}
            yield Cause("small-batches", spent, saved, one.loader, values)


def of_few_samples(seen: Seen) -> dict[str, str | int | float]:
    """The samples of a batch and the batches of a step, as the values of a cause, if batches are small; else none."""
    found = next((one for one in seen.in_loop if _fewer(seen.run, one) > 0), None)
    if found is None:
        return {}
    of_step = batches_of_step(seen.run, found.loader)
    return {"samples": round(found.samples / found.batches), "of_step": round(of_step)}


def with_hand_off(
    account: Account | None, result: WatchResult, run: Run, busy_shares: Mapping[int, float]
) -> Account | None:
    """The account, in which receiving a batch saves no more than is known to make it take so long.

    What its size does not explain is a wait for a core or for busy workers. Only larger batches wait less often.
    """
    found = result.hand_off
    if account is None or found is None:
        return account
    turns = {one: sum(line.turns for line in run.turns(one)) for one in result.loaders_in_loop}
    fewer = {one.loader: _fewer(run, one) for one in result.loaders}
    spent = {one: sum(row.s for row in account.rows if row.code in _HAND_OFF and row.loader == one) for one in turns}

    def capped(row: AccountRow) -> AccountRow:
        of = row.loader
        if row.code not in _HAND_OFF or of not in turns or row.recoverable_s is None or busy_shares.get(of, 0) >= BUSY:
            return row
        explained = min(1.0, longest_hand_off_s(found) * turns[of] / spent[of]) if spent[of] else 0.0
        return replace(row, recoverable_s=row.recoverable_s * max(explained, fewer.get(of, 0.0)))

    return replace(account, rows=tuple(map(capped, account.rows)))
