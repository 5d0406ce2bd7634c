"""Computes the bound of a job from the windows of all its ranks. Pure.

Only what all ranks did together counts: windows that all have at the same iterations and at the same time, and in them
the iterations that count on every rank. So no figure is of a rank that replays while another reads.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean

from pipebench.results.watched import BoundResult, Note
from pipebench.results.windows import LoopWindow, RankBound, throughput
from pipebench.watch.bound.schedule import IDLE, LIVE
from pipebench.watch.read.bound import bound_result
from pipebench.watch.record.bound_lines import BoundEnded, BoundPlan, BoundRoundVoid, BoundWindow, Reason
from pipebench.watch.record.lines import Line

_OVERLAP = 0.5  # of the time that a window of any rank takes; ranks that step together differ by a part of a step
_AGREE = 1.25  # the same iterations take no rank longer than another by more than this factor
Together = Mapping[int, BoundWindow]  # by rank


def bound_of_ranks(of: int, ranks: Mapping[int, Sequence[Line]]) -> BoundResult:
    """The bound of a training on `of` ranks, from the lines of those that were seen."""
    plans = {rank: one for rank, lines in ranks.items() for one in lines if isinstance(one, BoundPlan)}
    ends = {rank: one for rank, lines in ranks.items() for one in lines if isinstance(one, BoundEnded)}
    problems = [end for _, end in sorted(ends.items()) if end.problem is not None]
    lacking = sorted(set(range(of)) - set(plans))
    if lacking:
        if not plans and not ends:
            return bound_result([])
        missing = Note("bound-rank-missing", {"rank": lacking[0], "ranks": of})
        return BoundResult(notes=_once([*bound_result(problems[:1]).notes, missing] if problems else [missing]))
    every = _windows(ranks)
    shared = {key: one for key, one in every.items() if len(one) == of}
    counted = {key: _counted(one) for key, one in shared.items()}
    stepped = {key: one for key, one in counted.items() if _in_step(one)}
    plan = dataclasses.replace(plans[0], swept=any(one.swept for one in plans.values()), notes=_reasons(plans))
    ended = [*problems[:1]] if problems else [BoundEnded(None)] * (len(ends) == of)
    void = [BoundRoundVoid(one.round) for each in ranks.values() for one in each if isinstance(one, BoundRoundVoid)]
    found = bound_result([plan, *void, *(_job(one) for one in stepped.values()), *ended])
    notes = [*_short(every, of), *_apart(len(shared) - len(stepped), len(shared))]
    gone = {one.round for one in void}
    used = [one for key, one in stepped.items() if key[0] not in gone and one[0].iterations]
    return dataclasses.replace(found, notes=_once([*notes, *found.notes]), ranks=tuple(_rows(used)))


def _reasons(plans: Mapping[int, BoundPlan]) -> list[Reason]:
    return list({repr(note): note for _, plan in sorted(plans.items()) for note in plan.notes}.values())


def _once(notes: Sequence[Note]) -> tuple[Note, ...]:
    return tuple({repr(one): one for one in notes}.values())


def _windows(ranks: Mapping[int, Sequence[Line]]) -> dict[tuple[int, str], dict[int, BoundWindow]]:
    """Round and kind -> the windows of the ranks that had it."""
    found: dict[tuple[int, str], dict[int, BoundWindow]] = {}
    for rank, lines in sorted(ranks.items()):
        for one in lines:
            if isinstance(one, BoundWindow):
                found.setdefault((one.round, one.kind), {})[rank] = one
    return found


def _short(every: Mapping[tuple[int, str], Together], of: int) -> Iterator[Note]:
    """A note on the rank with the fewest windows, if others had more."""
    had = {rank: sum(rank in one for one in every.values()) for rank in range(of)}
    least = min(had, key=had.__getitem__)
    if had[least] < len(every):
        yield Note("bound-rank-short", {"rank": least, "windows": had[least], "of": len(every)})


def _apart(windows: int, of: int) -> Iterator[Note]:
    if windows:
        yield Note("bound-not-in-step", {"windows": windows, "of": of})


def _in_step(windows: Together) -> bool:
    """Whether all ranks had this window at the same iterations, mostly at the same time, and took as long for them."""
    its, spent = windows.values(), [one.seconds for one in windows.values()]
    whole = max(one.end for one in its) - min(one.begin for one in its)
    common = min(one.end for one in its) - max(one.begin for one in its)
    return len({one.first for one in its}) == 1 and common > _OVERLAP * whole and max(spent) <= _AGREE * min(spent)


def _counted(windows: Together) -> dict[int, BoundWindow]:
    """The windows with only the iterations that count on all ranks: one that starts its workers holds the others up."""
    numbers = set.intersection(*({each.number for each in one.each} for one in windows.values()))
    found = {}
    for rank, one in windows.items():
        each = [its for its in one.each if its.number in numbers]
        seconds, samples = sum(its.seconds for its in each), sum(its.samples for its in each)
        found[rank] = dataclasses.replace(one, seconds=seconds, samples=samples, iterations=len(each), each=each)
    return found


def _job(windows: Together) -> BoundWindow:
    """The window of the job: the samples of all ranks, in the time that it took one of them."""
    one = next(iter(windows.values()))
    return dataclasses.replace(
        one,
        seconds=fmean(its.seconds for its in windows.values()),
        samples=sum(its.samples for its in windows.values()),
        stayed_on_host=any(its.stayed_on_host for its in windows.values()),
        on_host=fmean(its.on_host for its in windows.values()),
    )


def _rows(windows: Sequence[Together]) -> list[RankBound]:
    rows = []
    for rank in windows[0] if windows else ():
        its = [one[rank] for one in windows]
        live = [one for one in its if one.kind == LIVE]
        ready = [one for one in its if one.kind == IDLE]
        if live and ready:
            waits = [each.waited_s for one in live for each in one.each]
            rows.append(RankBound(rank, _rate(live), _rate(ready), fmean(waits)))
    return rows


def _rate(windows: Sequence[BoundWindow]) -> float:
    return throughput([LoopWindow(one.seconds, one.samples, one.iterations) for one in windows]).samples_per_s
