"""Judges trials: when a change has been tried enough, what it brought, and which change to follow. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from statistics import median

from pipebench.remedies.seen import WORTH
from pipebench.results.advice import ANEW, LEAST_PAIRS, TOGETHER, Change, Finding, Outcome, Part, Value
from pipebench.stats import NORMAL, Speedup, next_run
from pipebench.watch.record.trial_lines import TrialWindow

MOST_PAIRS = 7
_MOST_IN_ALL = 4 * MOST_PAIRS  # what is not told by so many is told by no more
_HOPELESS = 0.9
# Of a gain: the ratio of the interval's ends at which more pairs are not worth their time. Runs differ by as much.
_PRECISE = 1.2
_UNCLEAR = 1.15
_ROUGH = 2.0  # the ratio of the ends of a promised interval
# How far the gain of one run is from that of another: the standard deviation of its logarithm. Windows of one process
# cannot show it. A change that gains little, and one of half as much again or more (docs/figures/advice.md).
BETWEEN_RUNS = 0.05
_OF_LARGE_GAINS, _LARGE = 0.10, 1.5
# Of a change of what workers do, or of a loader that has none any more: the median of 41 plain gains differs from what
# was promised by as much as a normal distribution of this deviation has it (the same page).
_OF_CODE = 0.2
_OF_TWO = 1.25  # the least that the low end of a gain must be if it rests on two pairs
_NEARLY = 0.95  # of the best gain: then the cheaper change is better
_TELLING = 1.1  # the least speed-up that is named though it was not shown
_MANY_PAIRS, _OF_MANY = 5, 1.05  # and of what was faster in each of so many pairs


def ratios(windows: Iterable[TrialWindow]) -> list[float]:
    """The speed-up of each pair: iterations per second with the changed loader over those with the present one.

    What only emptied the store of finished batches is not counted: the loop cannot go on at that rate.
    """
    pairs: dict[int, dict[bool, TrialWindow]] = {}
    for one in windows:
        pairs.setdefault(one.pair, {})[one.changed] = one
    return [_rate(one[True]) / _rate(one[False]) for one in pairs.values() if len(one) == 2]


def _rate(window: TrialWindow) -> float:
    return max(1, window.taken - window.drained) / window.seconds


def gain(found: Sequence[float]) -> Speedup | None:
    """The speed-up with an interval for what another such trial in this process finds. None: fewer than two pairs."""
    if len(found) < 2:
        return None
    interval = next_run(found)
    return Speedup(interval.median, interval.low, interval.high, interval.confidence)


def promised(found: Speedup, varies: float = 0.0) -> Speedup:
    """The same speed-up with an interval for another run: what differs between runs adds to it (in quadrature).

    A gain that `varies` more than others takes away a loss that differs from run to run. It can be small, and no less.
    """
    size = min(1.0, abs(math.log(found.speedup)) / math.log(_LARGE))
    usual = BETWEEN_RUNS + size * (_OF_LARGE_GAINS - BETWEEN_RUNS)
    low, high = _wider(found, usual)
    if varies > usual:
        least = min(low, 1.0)
        low, high = _wider(found, varies)
        low = max(low, least)
    return Speedup(found.speedup, low, high, found.confidence)


def varies(change: Change) -> float:
    """How far the gain of this change differs between runs: see `promised`. 0: as far as that of a setting."""
    return max(change.varies, _OF_CODE if change.edits or change.no_workers else 0.0)


def _wider(found: Speedup, deviation: float) -> tuple[float, float]:
    low, high = (math.hypot(math.log(found.speedup / end), NORMAL * deviation) for end in (found.low, found.high))
    return found.speedup * math.exp(-low), found.speedup * math.exp(high)


def enough(found: Sequence[float], most: int = MOST_PAIRS) -> bool:
    """Whether more pairs would not change the advice, or only make a known gain more precise. `most` are enough."""
    if len(found) >= most or (len(found) >= 2 and max(found) < _HOPELESS):
        return True
    so_far = gain(found)
    if so_far is None or len(found) < LEAST_PAIRS:
        return False
    return so_far.high < WORTH or (so_far.low > 1.0 and so_far.high / so_far.low < _PRECISE)


def promises(found: Sequence[float]) -> bool:
    """Whether each of these pairs was faster by what an edit is worth, and the middle one by what is named.

    Once they show a gain, it is not for this trial to make it precise.
    """
    faster = len(found) >= LEAST_PAIRS and min(found) > WORTH and median(found) >= _TELLING
    return faster and outcome(gain(found), len(found)) != "gain"


def outcome(found: Speedup | None, pairs: int = LEAST_PAIRS) -> Outcome:
    """What so many pairs say. It is a gain only if the interval for another run is faster, by what an edit is worth.

    Two pairs must show much more: with one degree of freedom, two ratios that are equal by chance look precise.
    """
    if found is None:
        return "unclear"
    if promised(found).low > (1.0 if pairs >= LEAST_PAIRS else _OF_TWO) and found.speedup >= WORTH:
        return "gain"
    if found.high < 1.0:
        return "slower"
    return "unclear" if found.high > _UNCLEAR else "no-gain"


def unclear(findings: Sequence[Finding]) -> int | None:
    """The finding that is worth more pairs, if there is time left: the largest gain that could not be told.

    None: there is none, or what could not be told would not change the advice. A knock-out is no change to advise, and
    what is not advisable is not the one to follow. A cache, which must be filled first, makes no other change needless.
    If all is told, it is the advice itself, if its gain is only roughly known: trials end as soon as an interval
    excludes 1, so of many noisy ones some do by chance.
    """
    most = max((one.gain.speedup for one in findings if _gains_at_once(one) and one.gain), default=1.0)
    open_ones = [
        (one.gain.speedup, place)
        for place, one in enumerate(findings)
        if one.outcome == "unclear" and one.gain and _has_room(one) and one.advisable and not one.change.knock_out
    ]
    speedup, place = max(open_ones, default=(0.0, 0))
    if speedup >= WORTH * most:
        return place
    chosen = best(advisable(findings))
    return chosen if chosen is not None and _is_rough(findings[chosen]) else None


def _gains_at_once(found: Finding) -> bool:
    return found.outcome == "gain" and not found.fills


def _has_room(found: Finding) -> bool:
    """Whether more pairs of this may be made, and would tell more: what differs between runs they cannot tell."""
    pairs = len(found.ratios)
    return pairs < _MOST_IN_ALL and not enough(found.ratios, pairs + MOST_PAIRS)


def _is_rough(found: Finding) -> bool:
    told = gain(found.ratios)
    usual = promised(told) if told is not None else None
    return usual is not None and usual.high > _ROUGH * usual.low and _has_room(found)


def advisable(findings: Sequence[Finding]) -> list[Finding]:
    """The same findings, of which none counts as a gain that may not be advised."""
    return [one if one.advisable else replace(one, outcome="unclear") for one in findings]


def hopeful(findings: Sequence[Finding]) -> list[Finding]:
    """The same findings, of which each that was faster in every pair counts as a gain: together they may show one."""
    return [
        replace(one, outcome="gain") if _likely(one) and median(one.ratios) >= _TELLING else one for one in findings
    ]


def apart(findings: Sequence[Finding]) -> list[Finding]:
    """The findings without those that one of another remedy, and of their group, has outdone."""

    def outdone(one: Finding) -> bool:
        rivals = [
            other
            for other in findings
            if other.change.group == one.change.group != "" and other.change.remedy != one.change.remedy
        ]
        return any(_speedup(other) > _speedup(one) for other in rivals)

    return [one for one in findings if not outdone(one)]


def _speedup(found: Finding) -> float:
    return found.gain.speedup if found.gain is not None and found.outcome == "gain" else 0.0


def together(findings: Sequence[Finding]) -> Change | None:
    """The best change of each remedy that gained, in one. None: fewer than two gained, or it was tried.

    A loader without workers has no use for the other settings, nor for what workers do otherwise.
    """
    best = [one for one in best_of_each(findings) if one.change.remedy != TOGETHER and not one.change.no_workers]
    settings: dict[str, Value] = {}
    edits: dict[str, dict[str, Value]] = {}
    for one in best:
        settings.update(one.change.settings)
        edits.update(one.change.edits)
    one_thread = any(one.change.one_thread for one in best)
    loop_threads = max(one.change.loop_threads for one in best) if best else 0
    parts = [Part(one.change.how, one.change.at) for one in best if one.change.how]
    tried = [one.change for one in findings if one.change.remedy == TOGETHER]
    whole = (settings, edits, one_thread, loop_threads)
    if len(best) < 2 or whole in [(one.settings, one.edits, one.one_thread, one.loop_threads) for one in tried]:
        return None
    return Change(
        TOGETHER,
        settings,
        "; ".join(one.change.cost for one in best if one.change.cost != "none"),
        one_thread=one_thread,
        pools=tuple(pool for one in best for pool in one.change.pools),
        by_passes=any(one.change.by_passes for one in best),
        title=", ".join(one.change.title for one in best if one.change.title),
        edits=edits,
        discards=any(one.change.discards for one in best),
        varies=max(one.change.varies for one in best),
        rewrites=tuple(rewrite for one in best for rewrite in one.change.rewrites),
        partly=any(_partly(one.change) for one in best),
        parts=tuple(sorted(parts, key=lambda one: one.at is not None)),
        loop_threads=loop_threads,
    )


def _partly(change: Change) -> bool:
    """Whether the settings and rewrites of this part are not all of it."""
    return change.partly or change.one_thread or bool(change.edits and not change.rewrites)


def best_of_each(findings: Sequence[Finding]) -> list[Finding]:
    """For each remedy that gained, the change to prefer: the first (the cheapest) that is nearly the best.

    One that gives the same samples is cheaper than one that gives others.
    """
    found = []
    changes = [one for one in findings if not one.change.knock_out]
    for remedy in dict.fromkeys(one.change.remedy for one in changes):
        gained = [one for one in changes if one.change.remedy == remedy and one.outcome == "gain"]
        gained.sort(key=lambda one: one.change.discards)
        if gained:
            found.append(gained[_nearly_best(gained)])
    return found


def best(findings: Sequence[Finding]) -> int | None:
    """The finding to follow: the simplest that is nearly the best. None: nothing gained.

    More workers cost more than other changes. A cache costs more than they do: it takes memory, unless one result
    serves all samples, and must be filled first: it is compared by what a run of ten passes gains. Several changes cost
    most. Gains by windows and by passes are compared by what they mean for the whole run.
    """
    chosen = sorted(best_of_each(findings), key=_price)
    return findings.index(chosen[_nearly_best(chosen)]) if chosen else None


def _price(found: Finding) -> tuple[bool, bool, int]:
    return found.change.remedy == TOGETHER, found.fills, _workers(found)


def foretold(findings: Sequence[Finding], computing: bool = False) -> int | None:
    """The finding to name where none is known to gain: marked as not shown. None: nothing promises enough.

    First, what was faster in every pair of a trial that was too short, unless its pairs scatter. Else, the best
    prediction of what was not tried, unless the simulation was wrong about something that was tried. More workers are
    no guess where workers are `computing`: what they gain, they may take from other programs. Workers that could live
    on if the loader were made once are a guess, too, and so is what a cause asks for and only a script that is changed
    could show.
    """
    worth = [
        (place, one)
        for place, one in enumerate(findings)
        if not (computing and one.change.remedy == "num_workers" and _workers(one))
    ]
    likely = [(median(one.ratios), place) for place, one in worth if _likely(one) and not one.scattered]
    others = [(one.change.predicted or 0.0, place) for place, one in worth if one.reason == ANEW]
    if not likely and not any(map(_belied, findings)):
        others += [
            (one.predicted.speedup, place)
            for place, one in worth
            if one.gain is None
            and not one.belied
            and one.predicted is not None
            and promising(one.change, one.predicted)
        ]
    others += [(one.if_taken or 0.0, place) for place, one in worth if one.change.asked_for and one.if_taken]
    named = [one for one in likely if one[0] >= (_OF_MANY if len(findings[one[1]].ratios) >= _MANY_PAIRS else _TELLING)]
    named += [one for one in others if one[0] >= _TELLING]
    return max(named, key=lambda one: (one[0], -one[1]))[1] if named else None


def promising(change: Change, told: Speedup) -> bool:
    """Whether the simulation promises a gain. What may be a loss is no promise, whatever speaks for the change."""
    return told.low > 1.0 and told.speedup >= (_TELLING if change.asked_for else WORTH)


def _likely(found: Finding) -> bool:
    """Whether each pair of an unclear trial was faster, and enough of them were there: two, if a cause asks for it."""
    real = found.advisable and not (found.change.knock_out or found.change.of_script)
    pairs = LEAST_PAIRS - 1 if found.change.asked_for else LEAST_PAIRS
    return real and found.outcome == "unclear" and len(found.ratios) >= pairs and min(found.ratios) > WORTH


def _belied(found: Finding) -> bool:
    """Whether a trial showed that the simulation promised too much of this change."""
    return found.gain is not None and found.predicted is not None and found.gain.high < found.predicted.low


def _workers(found: Finding) -> int:
    return int(found.change.settings.get("num_workers") or 0)


def _nearly_best(gained: Sequence[Finding]) -> int:
    speedups = [told.speedup if (told := one.in_run()) else 0.0 for one in gained]
    most = max(speedups)
    singles = [place for place, one in enumerate(speedups) if one >= _NEARLY * most]
    return singles[0]
