"""More or fewer workers. A ladder: twice as many as long as it helps, up to and past the usable cores.

Workers that wait for storage or a network need no core, so cores are no limit. Workers that compute take cores from
each other and from the training, so half as many can be better than twice as many. First workers of a loader live on
after a pass, because their start would take a part of the next one, unless passes are long. Where they cannot, because
the script makes the loader anew, whole passes are compared, which hold these starts.

First workers take cores from training, whose threads would wait for one another: see `loop_threads`. So it gets fewer
of them, and all only if that gains nothing.

No workers at all are tried where the weights may be spoiled, and else predicted: a copy of the dataset runs in the
script's own process, and draws the script's random numbers. What it opens there, later workers may share.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from pipebench.predict.ladder import ladder
from pipebench.predict.more_workers import most_workers
from pipebench.predict.room import PREFETCH_FACTOR
from pipebench.remedies.loop_threads import beside, with_threads
from pipebench.remedies.persistent_workers import KEEPS
from pipebench.remedies.seen import TRY_FROM, WORTH, Seen, without
from pipebench.results.advice import Change, Finding, Value

PLACE = 2
OWN_PROCESS = "own-process"
DIVIDE = (
    "First let each worker give its own part of the samples, as by",
    "samples[info.id :: info.num_workers] with info = torch.utils.data.get_worker_info().",
    "As it is, each worker would give all samples.",
)
NO_GUARD = "no-main-guard"
GUARD = (
    "First put what the script runs below `if __name__ == '__main__':`. Workers import the",
    "script, and would run it again.",
)
COPIES = ("Workers copy the dataset when they start: they see no later change of it by the loop.",)
_KEPT = 0.8  # of what the simulation said: a rung that brings less disappoints
_SHORT_PASS_S = 5.0  # the first start of workers that live on takes some tenths of a second, or some seconds
_COMPARED_PASS_S = 20.0  # three pairs of passes take two thirds of the default budget


def propose(seen: Seen, tried: Sequence[Finding]) -> Change | None:
    counts = {int(one.change.settings["num_workers"] or 0): one for one in tried}
    if _costs_more_to_hand_over(seen) and (none := _none(seen, counts)) is not None:
        return none
    compete = seen.has_cause("workers-compete")
    if compete and (down := _down(seen, counts)) is not None:
        return replace(
            _change(seen, down), predicted=without(seen.watched, seen.could_save("workers-compete")), asked_for=True
        )
    told = any(one.outcome == "gain" or one.reason == "workers-compute" for one in tried)
    if seen.waits and not (compete and told) and not seen.has_cause("many-tensors"):
        up = _up(seen, counts)
        if up is not None:
            return _change(seen, up, threads=0 if _needs_all_threads(tried) else None)
        if any(one.outcome == "gain" for workers, one in counts.items() if workers > seen.workers):
            return None
        if _one_is_left(seen, counts):
            return _change(seen, 1)
        if (plain := _with_all_threads(seen, tried)) is not None:
            return plain
    down = _down(seen, counts)
    return _change(seen, down) if down is not None else _none(seen, counts)


def _costs_more_to_hand_over(seen: Seen) -> bool:
    return seen.discards and seen.slow_hand_off


def _none(seen: Seen, counts: dict[int, Finding]) -> Change | None:
    """No workers, if the simulation promises more than TRY_FROM: handing batches over costs more than it gains.

    The simulation does not know all that a hand-off costs. So where that is a cause, no workers are tried in any case.
    """
    if 0 in counts or not seen.workers:
        return None
    settings: dict[str, Value] = {"num_workers": 0}
    told = seen.foretold(Change("num_workers", dict(settings)))
    asked = _costs_more_to_hand_over(seen)
    if not asked and (told is None or told.speedup < TRY_FROM):
        return None
    settings |= {"persistent_workers": False} if seen.settings.get("persistent_workers") else {}
    settings |= {"prefetch_factor": None} if seen.prefetch_factor != PREFETCH_FACTOR else {}
    settings |= {"timeout": 0} if seen.number("timeout") else {}
    return Change(
        "num_workers", settings, seen.processes(-seen.workers), predicted=told.speedup if told and not asked else None,
        asked_for=asked, discards=seen.discards, untried="" if seen.discards else OWN_PROCESS,
    )  # fmt: skip


def _up(seen: Seen, counts: dict[int, Finding]) -> int | None:
    """The next rung. It is worth a trial if the one before it gained, and more than the one before that.

    If the first trial passed over rungs and brought clearly less than the simulation said, as workers do that wait for
    one another, these rungs are climbed from the lowest.
    """
    above = [one for one in counts if one > seen.workers]  # in the order of their trials
    lowest = max(2, 2 * seen.workers)
    begun = above[0] if above else _first(seen, lowest)
    if not above:
        found: int | None = begun
    elif begun > lowest and _disappoints(seen, counts[begun]):
        lower = [one for one in above if one < begun]
        found = _above(seen, counts, lower) if lower else lowest
        found = found if found is not None and found < begun else None
    else:
        found = _above(seen, counts, [one for one in above if one >= begun])
    return found if found is not None and found <= _most(seen) else None


def _above(seen: Seen, counts: dict[int, Finding], tried: list[int]) -> int | None:
    """Twice the last rung, if that one gained, and more than the one before."""
    gains = [_gain(counts[one]) for one in tried]
    before = gains[-2] if len(gains) > 1 else 1.0
    return 2 * tried[-1] if _goes_up(seen, counts[tried[-1]]) and gains[-1] >= before * WORTH else None


def _one_is_left(seen: Seen, counts: dict[int, Finding]) -> bool:
    """Whether first workers gained nothing, and took all cores with the loop: one of them may leave it enough."""
    two = counts.get(2)
    return not seen.workers and 1 not in counts and two is not None and two.gain is not None and seen.cores < 3


def _needs_all_threads(tried: Sequence[Finding]) -> bool:
    """Whether first workers gained with all threads of training, and with fewer not."""
    return any(one.outcome == "gain" and not one.change.loop_threads for one in tried) and any(
        one.outcome != "gain" and one.change.loop_threads for one in tried
    )


def _with_all_threads(seen: Seen, tried: Sequence[Finding]) -> Change | None:
    """First workers, and all threads of training: large operations may need them more than a core of their own."""
    fewer = [one for one in tried if one.change.loop_threads]
    if not fewer or len(fewer) < len(tried) or any(one.outcome == "gain" for one in tried):
        return None
    return _change(seen, int(fewer[0].change.settings["num_workers"] or 0), threads=0)


def _disappoints(seen: Seen, found: Finding) -> bool:
    """Whether a rung brought nothing, or clearly less than the simulation said."""
    told = seen.foretold(found.change)
    return found.outcome != "gain" or (told is not None and _gain(found) < _KEPT * told.speedup)


def _first(seen: Seen, lowest: int) -> int:
    """The rung to begin with: where cores are no limit, not always the lowest. So a short budget suffices."""
    rungs = ladder(lowest, _most(seen))
    return seen.first_rung("num_workers", rungs) if seen.blocked and rungs else lowest


def _goes_up(seen: Seen, last: Finding) -> bool:
    """Whether the last rung was a step up. Of workers that wait, a gain that noise hides shows on the next rung."""
    return last.outcome == "gain" or (last.outcome == "unclear" and seen.has_cause("storage", "workers-blocked"))


def _gain(found: Finding) -> float:
    return found.gain.speedup if found.gain else 0.0


def _most(seen: Seen) -> float:
    most = most_workers(seen.cores)
    while most > seen.workers and not _fits(seen, int(most)):
        most -= 1
    return most


def _fits(seen: Seen, workers: int) -> bool:
    return seen.room.lacks(workers) is None


def _down(seen: Seen, counts: dict[int, Finding]) -> int | None:
    """Fewer workers, if they are more than the cores: then they compete with each other and with the training.

    As many as cores first; then half of that, as long as it gains. Workers that wait need no core, but many of them can
    be too many for a disc or a server: half as many first.
    """
    if seen.workers <= seen.cores:
        return None
    below = sorted(one for one in counts if 0 < one < seen.workers)
    if not below:
        first = max(1, seen.workers // 2 if seen.blocked else int(seen.cores))
        return first if first < seen.workers else None
    gains = [_gain(counts[one]) for one in below]
    before = gains[1] if len(gains) > 1 else 1.0
    if below[0] == 1 or counts[below[0]].outcome != "gain" or gains[0] < before * WORTH:
        return None
    return below[0] // 2


def _change(seen: Seen, workers: int, threads: int | None = None) -> Change:
    """So many workers, and `threads` of torch besides: 0 for as many as now, None for those that workers leave."""
    more = workers - seen.workers
    settings: dict[str, Value] = {"num_workers": workers}
    starts = seen.starts_in_passes(settings)
    live_on = starts and not seen.loader.again  # workers end with their loader
    if live_on:
        settings["persistent_workers"] = True
    predicted = seen.promise if more > 0 else None
    divide = more > 0 and seen.loader.undivided
    unguarded = seen.made is not None and seen.made.unguarded
    copied = KEEPS if live_on else COPIES if workers and not seen.workers else ()
    how = (*(GUARD if unguarded else ()), *(DIVIDE if divide else ()), *copied)
    threads = beside(seen, workers) if threads is None else threads
    change = Change(
        "num_workers",
        settings,
        seen.processes(more),
        by_passes=starts and (seen.pass_s or math.inf) < (_SHORT_PASS_S if live_on else _COMPARED_PASS_S),
        predicted=predicted,
        how=how,
        partly=divide or unguarded,
        untried=NO_GUARD if unguarded else "",
    )
    return with_threads(seen, change, threads) if threads else change
