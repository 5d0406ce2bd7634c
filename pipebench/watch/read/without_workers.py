"""The cause of batches that are made inside the loop: no workers, or so many tensors that workers would not help. Pure.

A worker hands each tensor of a batch over by itself, with a descriptor. Where that takes longer than the batch takes to
make, workers slow the loop down, however much is computed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from pipebench.predict.asked import hand_off_s
from pipebench.results.account import IN_VAIN, Account, Cause
from pipebench.results.watched import LoaderResult, WatchResult
from pipebench.watch.read.hand_off import asks_for_each
from pipebench.watch.read.helped import helpers
from pipebench.watch.read.moves import lives_on, next_move, starts_take_longer, threads_beside
from pipebench.watch.read.of_causes import Seen, stage_values
from pipebench.watch.read.reads import read_values

_MANY = 32  # tensors of a batch
_BY_WORKERS = ("make-batch", "start-up", "end-of-pass", "validation")
_MOST = 0.8  # of what workers save
_WORTH = 1.05  # a speed-up that workers may bring: with less, they hardly help


def no_workers(seen: Seen) -> Iterable[Cause]:
    """Batches that are made inside the loop, or by one thread beside it, for which the loop waits."""
    for one in seen.in_loop:
        if not one.workers:
            rows = ("make-batch", "wait-for-worker")
            waits = seen.s(rows[1], loader=one.loader) > seen.s(rows[0], loader=one.loader)
            values = {"usable_cores": seen.result.usable_cores, **stage_values(seen, one)}
            values |= {"made_by": one.made_by} if one.made_by else {}
            values |= {"by_thread": 1} if waits else {"fewest": _fewest(seen, one)}
            values |= {"kept_open": 1} if one.kept_open else {}
            values |= {"own_processes": 1} if one.own_processes else {}
            values |= _besides(seen.result, one) | read_values(seen.result, one)
            values |= helpers(seen.run, one.loader)
            spent, saved = seen.s(*rows, loader=one.loader), seen.saved(*rows, loader=one.loader)
            if not waits and starts_take_longer(one, seen.s(rows[0], loader=one.loader)):
                saved, values["starts"] = spent, 1  # by faster loading
            many = None if waits else _many_tensors(seen.result, one)
            names = [row.name for row in seen.result.stages if row.loader == one.loader]
            if not waits and not many and "starts" not in values and (doubt := _in_vain(seen.result, one)):
                saved = spent  # by cheaper samples, at most
                values |= {IN_VAIN: doubt, "at_once": int(asks_for_each(one, *names))}
            code = "no-workers" if many is None else "many-tensors"
            yield Cause(code, spent, saved, one.loader, values | (many or {}))


def _fewest(seen: Seen, one: LoaderResult) -> int:
    """The fewest workers that save most of what workers can: one works only as long as the loop does something else."""
    beside_s = seen.s(loader=one.loader) - seen.s(*_BY_WORKERS, loader=one.loader)
    return 1 if beside_s >= _MOST * (seen.saved("make-batch", loader=one.loader) or 0.0) else 2


def _in_vain(result: WatchResult, one: LoaderResult) -> str:
    """How workers are no remedy, as the next move says, too: they would "hardly" help, or are "unsure" to; or ""."""
    if one.own_processes:
        return ""
    move = next_move(result, one)
    if move is None:
        return "hardly" if _costs_more_to_hand_over(result, one) else ""
    if move.action != "make-stage-cheaper":
        return ""
    return "hardly" if move.fair is None or move.fair.high < _WORTH else "unsure"


def _costs_more_to_hand_over(result: WatchResult, one: LoaderResult) -> bool:
    """Whether a worker would need longer to hand a batch over than it takes to make it: then none saves anything."""
    costs = result.costs_of(one.loader)
    return costs is not None and (costs.tensors or 0.0) < _MANY and hand_off_s(costs) >= costs.made_s


def _besides(result: WatchResult, one: LoaderResult) -> dict[str, str | int | float]:
    """What is set with first workers, so that they start once, and training does not take their cores."""
    threads = threads_beside(result, one, 1)
    found: dict[str, str | int | float] = {} if threads is None else {"to_threads": threads}
    return found | ({"lives_on": 1} if lives_on(one) else {}) | {"passes": one.passes}


def with_one_tensor(account: Account | None, result: WatchResult) -> Account | None:
    """The account, in which what workers cannot save of making batches may be saved by making one tensor of many."""
    many = {one.loader for one in result.loaders if not one.workers and _many_tensors(result, one) is not None}
    if account is None or not many:
        return account
    rows = (
        replace(one, recoverable_s=one.s, reason="one-tensor")
        if one.code == "make-batch" and one.loader in many
        else one
        for one in account.rows
    )
    return replace(account, rows=tuple(rows))


def _many_tensors(result: WatchResult, one: LoaderResult) -> dict[str, str | int | float] | None:
    """The tensors of a batch, and the seconds that it takes to make it and to hand it over. None: workers can help."""
    costs = result.costs_of(one.loader)
    if costs is None or (costs.tensors or 0.0) < _MANY or hand_off_s(costs) < costs.made_s:
        return None
    return {"tensors": costs.tensors or 0.0, "make_s": costs.made_s, "hand_off_s": hand_off_s(costs)}
