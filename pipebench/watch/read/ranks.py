"""Compares the ranks of one training: who comes last to each step's collective, and what that costs. Pure."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import correlation, fmean, median
from typing import Literal

from pipebench.results.ranks import FEWEST_STEPS, LongerSamples, RankRow, Ranks, SlowStage, StepOfRank
from pipebench.results.watched import StageResult, WatchResult
from pipebench.watch.read.kept_steps import Counted, Places
from pipebench.watch.read.rank_pace import (
    Costs,
    Pace,
    costs,
    costs_by_waits,
    hides_waits,
    iterations_of_step,
    late_in_few,
    outside_s,
    pace,
)
from pipebench.watch.record.sampling import STEP_BITS, weight

_NS = 1e-9
_SURE = 3.0  # standard deviations of the number of times that one of equal ranks would come last
_WORTH_NAMING = 0.02  # of the loop
_MOST = 0.5  # of the cost
_NEARLY_ALL = 0.8  # of what a stage takes longer
_SLOWER = 0.1  # of a sample of the others
_UNEVEN = 1.02  # times the iterations of another rank
_LATE_S = 1.0
_EXPLAINS = 0.25  # of what a rank is behind: a stage that takes so much longer is named

_Key = tuple[int, str, str]
"""Which stage of a rank: the place of its loader among those of the loop, its name and its kind."""


@dataclass(frozen=True)
class Rank:
    """One rank: its number and process, its steps, and the figures of its program, which `ended` so.

    Its call of `init_process_group` took `joined_s` (None: not known).
    """

    rank: int
    pid: int
    steps: Sequence[StepOfRank]
    watched: WatchResult
    ended: str = "ended"
    joined_s: float | None = None


def compared(of: int, ranks: Sequence[Rank]) -> Ranks:
    """The ranks that were seen, of `of`, by the steps after the warm-up."""
    ranks = sorted(ranks, key=lambda one: one.rank)
    known: Places = {}
    own = [_counted(one, known) for one in ranks]
    uneven, common = _uneven(ranks), _common(own)
    if uneven is not None:
        first = min(map(_steps_of_pass, ranks))
        common = [number for number in common if all(its[number].so_far <= first for its in own)]
    stand_for, step_s = [weight(number, STEP_BITS) for number in common], _step_s(ranks)
    every = sum(stand_for)
    paces = [pace(one.watched, _steps(one)) for one in ranks]
    hidden = hides_waits(paces, own, common, step_s) if common and step_s else None
    cost = Costs(0.0, (0.0,) * len(own), (0.0,) * len(own))
    if common and step_s and hidden != "work":
        cost = (costs_by_waits if hidden else costs)(paces, own, common, step_s)
    last = cost.last if hidden == "device" else [_last(own, number) for number in common]
    rows = tuple(
        RankRow(
            rank=one.rank,
            pid=one.pid,
            wait_s=_mean([its[number].wait_ns for number in common], stand_for),
            work_s=_mean([its[number].work_ns for number in common], stand_for),
            last_share=_share([one == place for one in last], stand_for),
            cost_s=cost.of_rank_s[place] * every,
            samples=sum(loader.samples for loader in one.watched.loaders if loader.training),
            tokens=_tokens(one.watched),
            cut=one.ended in ("cut", "running"),
        )
        for place, (one, its) in enumerate(zip(ranks, own, strict=True))
    )
    early = tuple(one.rank for one in ranks if one.ended != "ended")
    found = Ranks(of, rows, len(common), step_s, early=early, uneven=uneven, late=_late(ranks))
    if readers := _readers(rows, len(common)):
        rows = tuple(dataclasses.replace(row, cost_s=0.0) for row in rows)
        return dataclasses.replace(found, rows=rows, readers=readers, uneven=None)
    share = min(1.0, cost.all_s / step_s) if step_s else 0.0
    found = dataclasses.replace(found, cost_s=cost.all_s * every, cost_share=share, hidden=hidden)
    found = _with_outside(found, own, common, every * step_s)
    slow = _straggler(found, cost, last, stand_for)
    if slow is None:
        return _with_few(found, cost, paces, own, common)
    saved_s = cost.alone_s[next(place for place, row in enumerate(rows) if row is slow)]
    found = dataclasses.replace(found, saved_share=min(share, saved_s / step_s))
    return _explained(found, slow, ranks)


def _with_few(
    found: Ranks, cost: Costs, paces: Sequence[Pace], own: Sequence[Mapping[int, StepOfRank]], common: Sequence[int]
) -> Ranks:
    """The same, with the rank that held the others up in a few steps, if one did."""
    if found.hidden or found.steps < FEWEST_STEPS or found.cost_share < _WORTH_NAMING:
        return found
    few = late_in_few(cost, paces, own, common)
    if few is None or few.s < _WORTH_NAMING * found.steps * found.step_s:
        return found
    return dataclasses.replace(found, late_in_few=dataclasses.replace(few, rank=found.rows[few.rank].rank))


def _with_outside(
    found: Ranks, own: Sequence[Mapping[int, StepOfRank]], common: Sequence[int], steps_s: float
) -> Ranks:
    """The same, with what one rank spends longer than the others outside the iterations."""
    longer, longest_s = outside_s(own, common) if common else ([], 0.0)
    most = max(longer, default=0.0)
    if not most or not steps_s:
        return found
    rank = found.rows[longer.index(most)].rank
    return dataclasses.replace(found, outside_rank=rank, outside_s=most, outside_share=most / (steps_s + longest_s))


def _uneven(ranks: Sequence[Rank]) -> tuple[tuple[int, float], tuple[int, float]] | None:
    """The ranks that made the most and the fewest iterations a pass, if these differ and as many make a step on each.

    All have to have reached their end, in as many passes.
    """
    loops = [[its for its in one.watched.loaders if its.loader in one.watched.loaders_in_loop] for one in ranks]
    if any(one.ended != "ended" or len(its) != 1 for one, its in zip(ranks, loops, strict=True)):
        return None
    if len({its.passes for (its,) in loops}) != 1 or not all(map(_steps, ranks)):
        return None
    each = [iterations_of_step(one.watched, _steps(one)) for one in ranks]
    made = [(one.rank, _of_pass(one)) for one in ranks]
    most, fewest = (choose(made, key=lambda one: one[1]) for choose in (max, min))
    if not fewest[1] or most[1] <= _UNEVEN * fewest[1] or max(each) > _UNEVEN * min(each):
        return None
    return most, fewest


def _of_pass(one: Rank) -> float:
    """The iterations that a rank made in a pass, as a mean."""
    passes = max(its.passes for its in one.watched.loaders if its.loader in one.watched.loaders_in_loop)
    return (one.watched.iterations + one.watched.warmup_iterations) / max(1, passes)


def _steps_of_pass(one: Rank) -> float:
    return _of_pass(one) / iterations_of_step(one.watched, _steps(one))


def _late(ranks: Sequence[Rank]) -> tuple[int, float] | None:
    """The rank for which the median of the others waited in `init_process_group`, and for how much longer than it."""
    waited = [one.joined_s for one in ranks if one.joined_s is not None]
    if len(waited) < max(2, len(ranks)):
        return None
    place = waited.index(min(waited))
    late_s = median(waited[:place] + waited[place + 1 :]) - waited[place]
    wall_s = max((one.watched.account.wall_s for one in ranks if one.watched.account is not None), default=0.0)
    return (ranks[place].rank, late_s) if late_s >= max(_LATE_S, _WORTH_NAMING * wall_s) else None


def _readers(rows: Sequence[RankRow], steps: int) -> tuple[int, ...]:
    """The ranks that loaded samples, if others loaded none and made these steps all the same."""
    found = tuple(row.rank for row in rows if row.samples)
    return found if len(found) < len(rows) and steps >= FEWEST_STEPS else ()


def _common(own: Sequence[Mapping[int, StepOfRank]]) -> list[int]:
    """The numbers of the steps that all of several ranks made. One set at a time: there may be hundreds."""
    found = set(own[0]) if len(own) > 1 else set()
    for one in own[1:]:
        found.intersection_update(one)
    return sorted(found)


def _counted(one: Rank, known: Places) -> Mapping[int, StepOfRank]:
    """The steps after the warm-up, by their number. The very first one holds what came before the loop."""
    each = iterations_of_step(one.watched, _steps(one))
    begin = max(1, math.ceil(one.watched.warmup_iterations / each)) if each else 1
    return Counted(one.steps, begin, known)


def _last(own: Sequence[Mapping[int, StepOfRank]], number: int) -> int:
    """The place of the rank that came last in a step."""
    spent = [its[number].wait_ns + its[number].work_ns for its in own]
    return max(range(len(spent)), key=spent.__getitem__)


def _straggler(found: Ranks, cost: Costs, last: Sequence[int], stand_for: Sequence[int]) -> RankRow | None:
    """The rank that causes most of the cost, if that is not what chance makes of equal ranks.

    `last` has the rank that came last in each step by all of its own part. One of two ranks must cost alone most of
    what both cost.
    """
    if found.steps < FEWEST_STEPS or found.cost_share < _WORTH_NAMING:
        return None
    place, even = max(range(len(found.rows)), key=lambda one: found.rows[one].cost_s), 1 / len(found.rows)
    most = found.rows[place]
    if most.cost_s < _MOST * found.cost_s or most.last_share <= even:
        return None
    if len(found.rows) == 2 and cost.alone_s[place] < _MOST * cost.all_s:
        return None
    if cost.slower is None:  # its own process decides
        return most if _more_than_chance([one == place for one in cost.last], stand_for, even) else None
    if cost.unsure is None:  # the batches of its workers were not timed, but it waits for them
        sure = _more_than_chance([one == place for one in last], stand_for, even)
    else:
        sure = cost.slower > _SURE * cost.unsure
    return most if sure and cost.slower > _SLOWER else None


def _more_than_chance(last: Sequence[bool], stand_for: Sequence[int], even: float) -> bool:
    """Whether a rank was last in more steps than one of equal ranks would be, which is last in the share `even`."""
    equal = sum(stand_for) ** 2 / sum(one * one for one in stand_for)  # to so many steps of one weight (Kish 1965)
    by_chance = even + _SURE * math.sqrt(even * (1 - even) / (independent(last) * equal / len(last)))
    return _share(last, stand_for) > by_chance


def independent(outcomes: Sequence[bool]) -> float:
    """To how many independent outcomes these are equal, if each is like the one before it more often than by chance.

    The order of ranks can stay for many steps. n outcomes whose neighbours correlate by r are worth
    n (1 - r) / (1 + r) (Bayley and Hammersley 1946, for a correlation that decays geometrically).
    """
    before, after = outcomes[:-1], outcomes[1:]
    if len(set(before)) < 2 or len(set(after)) < 2:
        return float(len(outcomes))
    likeness = min(0.99, max(0.0, correlation(before, after)))
    return max(1.0, len(outcomes) * (1 - likeness) / (1 + likeness))


def _explained(found: Ranks, slow: RankRow, ranks: Sequence[Rank]) -> Ranks:
    others = [one for one in found.rows if one is not slow]
    wait = slow.wait_s - median(one.wait_s for one in others)
    work = slow.work_s - median(one.work_s for one in others)
    part: Literal["wait", "work"] = "wait" if wait >= work or found.hidden else "work"
    its = {one.rank: one.watched for one in ranks}
    there = its.pop(slow.rank)
    behind_s = wait if part == "wait" else work
    stage = _slow_stage(there, list(its.values())) if part == "wait" else None
    of_worker = _samples_of_worker(there, ranks)
    each_s = behind_s / of_worker if of_worker else 0.0
    if stage is not None and (stage.s - stage.others_s) * of_worker < _EXPLAINS * behind_s:
        stage = None
    return dataclasses.replace(
        found,
        straggler=slow.rank,
        part=part,
        behind_s=behind_s,
        stage=stage,
        longer=_longer(there, list(its.values()), each_s) if part == "wait" else None,
        tokens=_more_tokens(slow, others) if part == "work" else None,
        fewer_cores=_fewer_cores(there, list(its.values())),
        fewer_workers=_fewer_workers(there, list(its.values())) if part == "wait" else None,
    )


def _fewer_workers(slow: WatchResult, others: Sequence[WatchResult]) -> tuple[int, float] | None:
    """The workers of a rank, and those of the median of the others, if these are more."""
    own, theirs = _workers(slow), median(map(_workers, others))
    return (own, theirs) if own < theirs else None


def _workers(found: WatchResult) -> int:
    return sum(one.workers for one in found.loaders if one.loader in found.loaders_in_loop)


def _samples_of_worker(found: WatchResult, ranks: Sequence[Rank]) -> float:
    """The samples that one worker of a rank makes for a step: what a sample takes longer, a step takes so often."""
    steps = next(_steps(one) for one in ranks if one.watched is found)
    samples = max((one.samples for one in _stages(found).values()), default=0)
    each = samples * iterations_of_step(found, steps) / found.iterations if found.iterations else 0.0
    return each / max(1, _workers(found))


def _fewer_cores(slow: WatchResult, others: Sequence[WatchResult]) -> tuple[float, float] | None:
    """The cores that a rank may use, and those of the median of the others, if these are more."""
    theirs = median(one.usable_cores for one in others)
    return (slow.usable_cores, theirs) if slow.usable_cores < theirs else None


def _slow_stage(slow: WatchResult, others: Sequence[WatchResult]) -> SlowStage | None:
    """The stage whose time for a sample differs most from the median of the other ranks, if it is longer."""
    there = [_stages(one) for one in others]
    differ = [
        _of_worker(stage, _beside(stage, median(map(_per_sample(key), there)))) for key, stage in _stages(slow).items()
    ]
    most = max(differ, key=lambda one: one.s - one.others_s, default=None)
    return most if most is not None and most.s > most.others_s else None


def _beside(stage: StageResult, others_s: float) -> SlowStage:
    return SlowStage(stage.name, stage.kind, stage.exclusive_s_per_sample, others_s)


def _per_sample(key: _Key) -> Callable[[Mapping[_Key, StageResult]], float]:
    return lambda stages: stages[key].exclusive_s_per_sample if key in stages else 0.0


def _of_worker(stage: StageResult, found: SlowStage) -> SlowStage:
    """The stage with the worker that causes nearly all of what it takes longer, if one of several does."""
    more = [max(0.0, one - found.others_s) for one in stage.by_worker_s]
    if len(more) < 2 or max(more) < _NEARLY_ALL * sum(more):
        return found
    worker = more.index(max(more))
    return dataclasses.replace(found, worker=worker, worker_s=stage.by_worker_s[worker])


def _stages(found: WatchResult) -> dict[_Key, StageResult]:
    """The stages of the training loaders. The feeder thread works beside the others."""
    places = {loader: place for place, loader in enumerate(found.loaders_in_loop)}
    stages: Iterable[StageResult] = (one for one in found.stages if one.loader in places)
    return {(places[one.loader], one.name, one.kind): one for one in stages if one.kind != "serialise"}


def _more_tokens(slow: RankRow, others: Sequence[RankRow]) -> tuple[float, float] | None:
    """The tokens of a sample on a rank, and on the median of the others, if these are fewer."""
    each = [one.tokens / one.samples for one in (slow, *others) if one.tokens and one.samples]
    if len(each) <= len(others):
        return None
    own, theirs = each[0], median(each[1:])
    return (own, theirs) if own > (1 + _SLOWER) * theirs else None


def _longer(slow: WatchResult, others: Sequence[WatchResult], behind_s: float) -> LongerSamples | None:
    """By what a sample takes the workers of a rank longer than those of the others, if it does.

    It is not told if that is little of the `behind_s` for a sample by which the rank is behind.
    """
    there, theirs = _sample(slow), [found for one in others if (found := _sample(one)) is not None]
    if there is None or not theirs:
        return None
    usual = [median(each) for each in zip(*theirs, strict=True)]
    more = [one - other for one, other in zip(there, usual, strict=True)]
    return LongerSamples(*more) if sum(more) > max(_SLOWER * sum(usual), _EXPLAINS * behind_s) else None


def _sample(found: WatchResult) -> tuple[float, float, float] | None:
    """Seconds of a sample in which a worker computed, had no core, and waited for something else."""
    workers = [one for one in found.workers if one.loader in found.loaders_in_loop]
    samples = sum(one.samples for one in workers)
    if not samples:
        return None
    busy, cpu = sum(one.busy_s for one in workers) / samples, sum(one.cpu_s for one in workers) / samples
    no_core = sum(one.core_wait_s for one in workers) / samples
    return cpu, no_core, max(0.0, busy - cpu - no_core)


def _tokens(found: WatchResult) -> float | None:
    """The tokens that the training loaders handed over."""
    shown = ((one.content, one.batches) for one in found.loaders if one.training)
    return sum(a.tokens * batches for a, batches in shown if a is not None and a.tokens) or None


def _step_s(ranks: Sequence[Rank]) -> float:
    """Seconds from one step of the optimiser to the next. An iteration may have several, or be a part of one.

    The shortest of all ranks: a rank waits in its iterations for what another one does outside of its own.
    """
    each = [
        sum(phase.s_per_iteration for phase in one.watched.loop) * iterations_of_step(one.watched, _steps(one))
        for one in ranks
    ]
    return min((step_s for step_s in each if step_s), default=0.0)


def _steps(one: Rank) -> int:
    return one.steps[-1].so_far if one.steps else 0


def _mean(ns: Sequence[int], stand_for: Sequence[int]) -> float:
    """A mean in seconds. Each kept step counts as often as it stands for others."""
    return fmean(ns, stand_for) * _NS if ns else 0.0


def _share(outcomes: Sequence[bool], stand_for: Sequence[int]) -> float:
    return fmean(outcomes, stand_for) if outcomes else 0.0
