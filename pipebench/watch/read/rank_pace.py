"""How fast each rank could go if it had not to wait for the others: what bounds a step of all of them. Pure.

A rank with workers that waits briefly for a batch may do so only because its workers loaded meanwhile: while it waited
for another rank in a collective. So a short wait does not say that the rank could go faster: the pace of its workers
does.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median, median_low, stdev
from typing import Literal

from pipebench.results.costs import LoopCosts
from pipebench.results.ranks import LateInFew, StepOfRank
from pipebench.results.watched import LoaderResult, WatchResult
from pipebench.watch.read.hand_off import explained_s
from pipebench.watch.record.sampling import STEP_BITS, weight

_NS = 1e-9
_BLOCKS = 8  # of neighbouring batches: slow ones come together, so single ones are not independent
_FROM_WORKERS = ("wait-for-worker", "receive")  # the parts of a wait in which the loop's own process does not work
_DIFFER = 0.1  # of a step: waits for batches
_MOST, _FEW = 0.7, 0.02  # of what late ranks cost, and of the steps in which they do
_ALIKE = 0.25  # of what these waits differ by: own parts of a step


@dataclass(frozen=True)
class Pace:
    """What one rank needs for a step, without the others.

    Its workers make the batches of a step every `loads_s` seconds (0: it has none), a mean with the standard error
    `error_s` (None: not known). `own_wait_s` is the part of a mean wait in which the loop's own process works, and
    `idle_s` the part of the waits of a step in which its device was idle too (None: it has none).
    """

    loads_s: float = 0.0
    error_s: float | None = None
    own_wait_s: float = 0.0
    idle_s: float | None = None

    def own_ns(self, step: StepOfRank) -> float:
        """What the rank's own process does in a step. A wait for workers is not in it: their pace has it."""
        wait_ns = step.wait_ns if not self.loads_s else min(float(step.wait_ns), self.own_wait_s / _NS)
        return wait_ns + step.work_ns


def iterations_of_step(found: WatchResult, steps: int) -> float:
    """The iterations for a step of the optimiser in their loop. From the start, so those of the warm-up count.

    Both were counted up to the same moment: see `OwnSteps`.
    """
    return (found.iterations + found.warmup_iterations) / steps if steps else 0.0


def pace(found: WatchResult, steps: int) -> Pace:
    """The pace of a rank that made `steps` steps of the optimiser."""
    loaders = [one for one in found.loaders if one.loader in found.loaders_in_loop and one.workers]
    each = iterations_of_step(found, steps)
    paces = [(_loads_s(found, one) * each, one) for one in loaders]
    loads_s, slowest = max(paces, key=lambda one: one[0], default=(0.0, None))
    idle_s = None if found.device_idle is None else found.device_idle.s_per_iteration * each
    if slowest is None or not loads_s:
        return Pace(idle_s=idle_s)
    costs = found.costs_of(slowest.loader)
    error = None if costs is None else _relative_error(costs)
    return Pace(loads_s, None if error is None else error * loads_s, _own_wait_s(found) * each, idle_s)


def _loads_s(found: WatchResult, loader: LoaderResult) -> float:
    """Seconds in which the workers of a loader make one batch. They take turns, so the slowest decides."""
    workers = [one for one in found.workers if one.loader == loader.loader]
    batches, busy_s = sum(one.batches for one in workers), [one.busy_s for one in workers]
    if not batches or not sum(busy_s):
        return 0.0
    made_s, uneven = sum(busy_s) / batches, max(busy_s) / fmean(busy_s)
    costs = found.costs_of(loader.loader)
    if costs is not None:  # these are without the first batches, in which libraries set themselves up
        made_s = costs.made_s + costs.core_wait_s + costs.between_s
    pickles_s = found.hand_off.serialise_s_per_batch if found.hand_off is not None else 0.0
    return max(made_s * uneven, pickles_s) / len(workers)


def _own_wait_s(found: WatchResult) -> float:
    """The part of a wait that the loop's own process works: the sampler, sending indices, unpickling and the like."""
    parts = {one.part: one.s_per_iteration for one in found.wait_parts}
    own_s = sum(s for part, s in parts.items() if part not in _FROM_WORKERS)
    if found.hand_off is None:
        return own_s
    of_size_s = explained_s(found.hand_off.pipe_bytes_per_batch, found.hand_off.tensors_per_batch or 0.0)
    return own_s + min(parts.get("receive", 0.0), of_size_s)


def _relative_error(costs: LoopCosts) -> float | None:
    """The standard error of the mean time of a batch, as a share of it, from means of blocks of neighbours."""
    made = costs.each_made_s
    each = len(made) // _BLOCKS
    if each < 2 or not sum(made):
        return None
    blocks = [fmean(made[each * block : each * (block + 1)]) for block in range(_BLOCKS)]
    return stdev(blocks) / math.sqrt(_BLOCKS) / fmean(blocks)


@dataclass(frozen=True)
class Costs:
    """What the ranks cost each other, in seconds of a step.

    `all_s` is saved if in each step the last rank is like the median one, and `of_rank_s` divides it among the ranks
    that were last. `alone_s` is what each rank costs: it is saved if that rank alone is like the median of the others.

    `last` has the rank that came last in each step by what its own process did, and `late_ns` by how much later than
    the median one (nanoseconds). If the workers of one rank decide how long a step takes, `slower` is by what share
    they are slower than those of the next rank, and `unsure` the standard error of that share (None: not known).
    """

    all_s: float
    of_rank_s: tuple[float, ...]
    alone_s: tuple[float, ...]
    last: tuple[int, ...] = ()
    late_ns: tuple[float, ...] = ()
    slower: float | None = None
    unsure: float | None = None


def costs(
    paces: Sequence[Pace], own: Sequence[Mapping[int, StepOfRank]], common: Sequence[int], step_s: float
) -> Costs:
    """What the ranks cost each other in the steps `common`. A step lasts `step_s`.

    It takes as long as the rank whose own process needs most, and what follows in all of them (backward and the
    collectives); and no less than the workers of any rank need for its batches. In a step that would be shorter without
    one rank, the workers of the others still need their time.
    """
    spent = [[one.own_ns(its[number]) for number in common] for one, its in zip(paces, own, strict=True)]
    weights = [weight(number, STEP_BITS) for number in common]
    late, first, last = [0.0] * len(own), [0.0] * len(own), []
    late_ns, last_ns = [], 0.0
    for each, times in zip(zip(*spent, strict=True), weights, strict=True):
        place = max(range(len(each)), key=each.__getitem__)
        late_ns.append(each[place] - median_low(each))
        late[place] += late_ns[-1] * times
        first[place] += (each[place] - max(each[:place] + each[place + 1 :])) * times
        last_ns += each[place] * times
        last.append(place)
    late_s, first_s = ([one * _NS / sum(weights) for one in found] for found in (late, first))
    together_s = min(step_s, last_ns * _NS / sum(weights) + _shared_s(own, common, weights, step_s))
    loads = [one.loads_s for one in paces]
    now_s = max(together_s, min(step_s, max(loads)))
    alone = [
        max(0.0, now_s - max(together_s - first_s[place], _largest_but(loads, place))) for place in range(len(loads))
    ]
    found = Costs(
        all_s=max(0.0, now_s - max(together_s - sum(late_s), median_low(loads))),
        of_rank_s=(),
        alone_s=tuple(_beyond_chance(alone)),
        last=tuple(last),
        late_ns=tuple(late_ns),
    )
    if max(loads) <= together_s:
        return replace(found, of_rank_s=tuple(one * found.all_s / (sum(late_s) or 1.0) for one in late_s))
    slowest = loads.index(max(loads))
    divided = tuple(found.all_s if place == slowest else 0.0 for place in range(len(loads)))
    return _with_slower(replace(found, of_rank_s=divided), paces, slowest)


def _with_slower(found: Costs, paces: Sequence[Pace], slowest: int) -> Costs:
    """The same, with how much slower the slowest workers are than those of the next rank."""
    there, others = paces[slowest], [one for place, one in enumerate(paces) if place != slowest]
    following = max(others, key=lambda one: one.loads_s)
    known = there.error_s is not None and (following.error_s is not None or not following.loads_s)
    return replace(
        found,
        slower=(there.loads_s - following.loads_s) / there.loads_s,
        unsure=math.hypot(there.error_s or 0.0, following.error_s or 0.0) / there.loads_s if known else None,
    )


def late_in_few(
    cost: Costs, paces: Sequence[Pace], own: Sequence[Mapping[int, StepOfRank]], common: Sequence[int]
) -> LateInFew | None:
    """The rank whose own process is late in a few of the steps, by its place, if that is most of what the ranks lose.

    None: these are many steps, or of several ranks.
    """
    late: list[tuple[float, int, int, bool]] = []
    for number, place, behind in zip(common, cost.last, cost.late_ns, strict=True):
        step, stands_for = own[place][number], weight(number, STEP_BITS)
        waits = paces[place].own_ns(step) - step.work_ns > step.work_ns
        late.append((behind * stands_for, stands_for, place, waits))
    late.sort(reverse=True)
    whole, found, few = sum(one[0] for one in late), 0.0, 0
    while found < _MOST * whole:
        found += late[few][0]
        few += 1
    steps = sum(one[1] for one in late[:few])
    if not few or steps > max(1.0, _FEW * sum(one[1] for one in late)) or len({one[2] for one in late[:few]}) > 1:
        return None
    waits_ns = sum(one[0] for one in late[:few] if one[3])
    part: Literal["wait", "work"] = "wait" if waits_ns > found / 2 else "work"
    return LateInFew(late[0][2], steps, found * _NS, part)


def costs_by_waits(
    paces: Sequence[Pace], own: Sequence[Mapping[int, StepOfRank]], common: Sequence[int], step_s: float
) -> Costs:
    """The same where the host waits for the others as it waits for its device, so its own work cannot be compared.

    If a rank waits like the others, that saves what it waits longer for batches while its device is idle. The workers
    of the others still need their time.
    """
    idle, loads, ranks = [one.idle_s or 0.0 for one in paces], [one.loads_s for one in paces], range(len(paces))
    slowest, waits = idle.index(max(idle)), [[its[number].wait_ns for its in own] for number in common]
    all_s = max(0.0, min(idle[slowest] - median_low(idle), step_s - median_low(loads)))
    found = Costs(
        all_s=all_s,
        of_rank_s=tuple(all_s * (place == slowest) for place in ranks),
        alone_s=tuple(
            max(0.0, min(idle[place] - _largest_but(idle, place), step_s - _largest_but(loads, place)))
            for place in ranks
        ),
        last=tuple(each.index(max(each)) for each in waits),
    )
    return _with_slower(found, paces, slowest) if loads[slowest] else found


def hides_waits(
    paces: Sequence[Pace], own: Sequence[Mapping[int, StepOfRank]], common: Sequence[int], step_s: float
) -> Literal["device", "work"] | None:
    """Where the own work of a rank holds its waits for the others: see `Ranks.hidden`."""
    if any(one.idle_s is not None for one in paces):
        return "device"
    weights = [weight(number, STEP_BITS) for number in common]
    waits = [fmean([its[number].wait_ns for number in common], weights) for its in own]
    steps = [[its[number].wait_ns + its[number].work_ns for its in own] for number in common]
    differ, apart = max(waits) - min(waits), fmean([max(one) - min(one) for one in steps], weights)
    return "work" if differ * _NS > _DIFFER * step_s and apart < _ALIKE * differ else None


def _shared_s(
    own: Sequence[Mapping[int, StepOfRank]], common: Sequence[int], weights: Sequence[int], step_s: float
) -> float:
    """Seconds of a step after the last rank has come: what all ranks do then takes them about equally long."""
    longest = [max(its[number].wait_ns + its[number].work_ns for its in own) * _NS for number in common]
    return max(0.0, step_s - fmean(longest, weights))


def _largest_but(values: Sequence[float], place: int) -> float:
    return max((one for at, one in enumerate(values) if at != place), default=0.0)


def outside_s(own: Sequence[Mapping[int, StepOfRank]], common: Sequence[int]) -> tuple[list[float], float]:
    """Seconds that each rank spends longer than the others outside the iterations, and what the longest ones take.

    The others wait for a rank only as far as the whole step takes it longer, too. What each rank spends longer by
    chance is taken off.
    """
    longer, longest = [0.0] * len(own), 0
    for number in common:
        outside = [its[number].outside_ns for its in own]
        whole = [its[number].wait_ns + its[number].work_ns + its[number].outside_ns for its in own]
        place = max(range(len(own)), key=outside.__getitem__)
        more = min(each[place] - median_low(each) for each in (outside, whole))
        longer[place] += max(0, more) * _NS
        longest += outside[place]
    return list(_beyond_chance(longer)), longest * _NS


def _beyond_chance(alone: Sequence[float]) -> Iterable[float]:
    """Without what the median of the others would save, too, because each comes last by chance."""
    for place, one in enumerate(alone):
        yield max(0.0, one - median([*alone[:place], *alone[place + 1 :]]))
