"""Tells frozen modules that a training loop runs in each pass though their outputs could be kept, and those of which it
computes gradients that nobody uses. Pure.

Outputs can be kept only if the inputs are the same in each pass. Where something is seen to choose at random before
them, or where one pass was seen, nothing is told of it. On a device, the host's time says nothing of a module's, so no
saving is told.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable
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
UNUSED = "unused-gradients"  # the cause, and the reason
_FEWEST = 10  # looks that found it
_AT_RANDOM = (
    "rand", "augment", "jitter", "flip", "mix", "mosaic", "erasing", "noise", "dropout", "shift", "elastic", "cutout",
)  # fmt: skip


class Frozen(NamedTuple):
    """Some modules of a forward: the one that takes most, all of them, and what they take of forward."""

    most: ModuleLooks
    modules: Collection[ModuleLooks]
    share: float

    def values(self) -> dict[str, str | int | float]:
        """The modules, as the values of a cause."""
        name, kind = self.most.name, self.most.kind
        return {"module": f"{name} ({kind})" if name else kind, "modules": len(self.modules)}


def frozen_modules(seen: Seen) -> Iterable[Cause]:
    """Frozen modules whose outputs could be kept from the first pass on, of each loop.

    Those with gradients that nobody uses are of that cause: to end these is right for any inputs.
    """
    for one in seen.in_loop:
        unused = _unused(seen, one)
        if (found := _kept(seen, one, but=() if unused is None else unused.modules)) is not None:
            yield found


def unused_gradients(seen: Seen) -> Iterable[Cause]:
    """Modules of which the backward of a loop computes gradients, and nobody uses them.

    The backward of a layer takes time in proportion to its forward, so their share of the one is taken for that of the
    other. Kept outputs, where they are possible, save their forward, too.
    """
    for one in seen.in_loop:
        if (found := _unused(seen, one)) is None:
            continue
        spent, device, kept = _backward_s(seen, one, found), found.most.on_device, _kept(seen, one, only=found.modules)
        name, of = found.most.name, found.most.of
        values = found.values() | {"share": found.share}
        values |= ({"name": name} if name else {}) | ({"of": of} if of else {})
        if kept is not None and kept.saving_s and not kept.doubtful:
            values["forward_s"] = kept.saving_s
        yield Cause(UNUSED, spent, None if device else spent, one.loader, values, on_device=device)


def _unused(seen: Seen, one: LoaderResult) -> Frozen | None:
    """The modules with gradients that nobody uses, if their backward takes some time that matters."""
    lines = seen.run.looks(one.loader)
    found = _of_looks(seen.run, one.loader, lambda line: line.unused, sum(line.forward_looks for line in lines))
    matters = found is not None and _backward_s(seen, one, found) >= MATTERS * seen.loops_s > 0
    return found if matters else None


def _backward_s(seen: Seen, one: LoaderResult, found: Frozen) -> float:
    return found.share * seen.s("backward", loader=one.loader)


def _kept(
    seen: Seen, one: LoaderResult, but: Collection[ModuleLooks] = (), only: Collection[ModuleLooks] | None = None
) -> Cause | None:
    """What keeping the outputs of these frozen modules of a loop saves, if that matters."""
    found, later = frozen(seen.run, one.loader, but, only), _later(seen.run, one.loader)
    loop_s, batches = sum(row.s for row in seen.rows(loader=one.loader)), seen.batches(one)
    if found is None or not batches or _at_random(seen, one):
        return None
    spent = found.share * seen.forward_s(one.loader, ROW)
    if spent * later < MATTERS * seen.loops_s:
        return None
    varies, device = found.most.varies, found.most.on_device
    values = found.values() | {"turn_s": spent / batches, "share": spent / loop_s, "passes": one.passes}
    values |= {"varies": varies} if varies else {}
    return Cause(CODE, spent, None if device else spent * later, one.loader, values, on_device=device)


def frozen(
    run: Run, loader: int, but: Collection[ModuleLooks] = (), only: Collection[ModuleLooks] | None = None
) -> Frozen | None:
    """What looks at the loop of a loader say of these modules; None if they found none, or are too few."""
    lines = run.looks(loader)
    looks = looks_at_forward(lines) + sum(one.later_looks for one in lines)
    without, within = {_named(one) for one in but}, None if only is None else {_named(one) for one in only}

    def asked(line: LoopLooks) -> list[ModuleLooks]:
        names = [(one, _named(one)) for one in line.frozen]
        return [one for one, name in names if name not in without and (within is None or name in within)]

    return _of_looks(run, loader, asked, looks)


def _named(one: ModuleLooks) -> tuple[str, str, str]:
    return one.name, one.kind, one.of


def _of_looks(run: Run, loader: int, of: Callable[[LoopLooks], Iterable[ModuleLooks]], looks: int) -> Frozen | None:
    """The modules that the last line of each process has, among so many looks."""
    of_each = [[line for line in one.of(LoopLooks) if line.loader == loader] for one in run.of_script()]
    modules = [one for lines in of_each if lines for one in of(lines[-1])]
    own = sum(one.looks for one in modules)
    if not enough(run.looks(loader), looks) or own < _FEWEST:
        return None
    return Frozen(max(modules, key=lambda one: one.looks), modules, min(1.0, own / looks))


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


def with_frozen(account: Account) -> Account:
    """The account, with what its causes say that kept outputs and no unused gradients could save of its rows."""
    found = [one for one in account.causes if one.code in (CODE, UNUSED) and "varies" not in one.values]
    saved = {(one.loader, one.code): one.recoverable_s or 0.0 for one in found}
    return replace(account, rows=tuple(_without(row, saved) for row in account.rows))


def _without(row: AccountRow, saved: dict[tuple[int | None, str], float]) -> AccountRow:
    code, reason = (CODE, REASON) if row.code in FORWARDS else (UNUSED, UNUSED)
    saved_s = min(row.s, saved.get((row.loader, code), 0.0))
    if row.code not in (*FORWARDS, "backward") or saved_s <= (row.recoverable_s or 0.0):
        return row
    return replace(row, recoverable_s=saved_s, reason=reason)
