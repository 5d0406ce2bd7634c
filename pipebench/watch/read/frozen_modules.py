"""Tells frozen modules that a training loop runs in each pass, though their outputs could be kept. Pure.

That holds only if their inputs are the same in each pass. Where something is seen to choose at random before them, or
where one pass was seen, nothing is told. On a device, the host's time says nothing of a module's, so no saving is told.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from pipebench.results.account import Account, AccountRow, Cause
from pipebench.results.watched import LoaderResult
from pipebench.watch.read.gather import Run
from pipebench.watch.read.in_loop import enough, words_of
from pipebench.watch.read.of_causes import MATTERS, Seen
from pipebench.watch.read.prepared import FORWARDS, ROW, looks_at_forward
from pipebench.watch.record.trial_lines import LoopLooks, ModuleLooks

CODE, REASON = "frozen-module", "kept-outputs"
_FEWEST = 10  # looks that found it
_AT_RANDOM = (
    "rand", "augment", "jitter", "flip", "mix", "mosaic", "erasing", "noise", "dropout", "shift", "elastic", "cutout",
)  # fmt: skip


class Frozen(NamedTuple):
    """The frozen modules of a forward: the one that takes most, their number, and what all of them take of forward."""

    most: ModuleLooks
    modules: int
    share: float


def frozen_modules(seen: Seen) -> Iterable[Cause]:
    """Frozen modules whose outputs could be kept from the first pass on, of each loop."""
    for one in seen.in_loop:
        found, later = frozen(seen.run, one.loader), _later(seen.run, one.loader)
        loop_s, batches = sum(row.s for row in seen.rows(loader=one.loader)), seen.batches(one)
        if found is None or not batches or _at_random(seen, one):
            continue
        spent = found.share * seen.s(*FORWARDS, ROW, loader=one.loader)
        if spent * later < MATTERS * seen.loops_s:
            continue
        name, kind, _, varies, _ = found.most
        values: dict[str, str | int | float] = {
            "module": f"{name} ({kind})" if name else kind, "modules": found.modules, "turn_s": spent / batches,
            "share": spent / loop_s, "passes": one.passes, **({"varies": varies} if varies else {}),
        }  # fmt: skip
        device = found.most.on_device
        yield Cause(CODE, spent, None if device else spent * later, one.loader, values, on_device=device)


def frozen(run: Run, loader: int) -> Frozen | None:
    """What looks at the loop of a loader say; None if they found no such module, or are too few."""
    of_each = [[line for line in one.of(LoopLooks) if line.loader == loader] for one in run.of_script()]
    modules = [one for lines in of_each if lines for one in lines[-1].frozen]
    lines = run.looks(loader)
    looks, own = looks_at_forward(lines) + sum(one.later_looks for one in lines), sum(one.looks for one in modules)
    if not enough(lines, looks) or own < _FEWEST:
        return None
    return Frozen(max(modules, key=lambda one: one.looks), len(modules), min(1.0, own / looks))


def _later(run: Run, loader: int) -> float:
    """The share of the iterations that come after as many as the longest pass has: those could use what is kept."""
    turns = Counter[int]()
    for line in run.turns(loader):
        turns[line.number_of_pass] += line.turns
    return 1 - max(turns.values()) / turns.total() if turns.total() else 0.0


def _at_random(seen: Seen, one: LoaderResult) -> bool:
    """Whether something chooses at random before the model: in the fetches, or in the loop, as far as that was seen."""
    if any(batch.drew for _, sums in seen.run.sums(one.loader) for batch in sums.single):
        return True
    stages = [stage.name for stage in seen.result.stages if stage.loader == one.loader]
    early = [place for line in seen.run.looks(one.loader) for place in line.places if place.early]
    names = [*stages, *(name for place in early for name in place.functions)]
    return any(word.startswith(_AT_RANDOM) for name in names for word in words_of(name))


def with_outputs_kept(account: Account) -> Account:
    """The account, with what its causes say that kept outputs could save of the rows of forward."""
    found = [one for one in account.causes if one.code == CODE and "varies" not in one.values]
    saved = {one.loader: one.recoverable_s or 0.0 for one in found}
    return replace(account, rows=tuple(_kept(row, saved.get(row.loader, 0.0)) for row in account.rows))


def _kept(row: AccountRow, saved_s: float) -> AccountRow:
    saved_s = min(row.s, saved_s)
    if row.code not in FORWARDS or saved_s <= (row.recoverable_s or 0.0):
        return row
    return replace(row, recoverable_s=saved_s, reason=REASON)
