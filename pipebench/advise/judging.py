"""Judges trials: when a change has been tried enough, what it brought, and which change to follow. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pipebench.remedies.seen import WORTH
from pipebench.results.advice import Change, Finding, Outcome, Value
from pipebench.stats import Speedup, next_run
from pipebench.watch.record.trial_lines import TrialWindow

LEAST_PAIRS = 3
MOST_PAIRS = 7
_HOPELESS = 0.9
_PRECISE = 1.1  # of a gain: the ratio of the interval's ends at which more pairs are not worth their time
_UNCLEAR = 1.15
_NEARLY = 0.95  # of the best gain: then the cheaper change is better
TOGETHER = "together"


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
    """The speed-up with an interval for what another such trial would find. None: fewer than two pairs."""
    if len(found) < 2:
        return None
    interval = next_run(found)
    return Speedup(interval.median, interval.low, interval.high, interval.confidence)


def enough(found: Sequence[float]) -> bool:
    """Whether more pairs would not change the advice, or only make a known gain more precise."""
    if len(found) >= MOST_PAIRS or (len(found) >= 2 and max(found) < _HOPELESS):
        return True
    so_far = gain(found)
    if so_far is None or len(found) < LEAST_PAIRS:
        return False
    return so_far.high < WORTH or (so_far.low > 1.0 and so_far.high / so_far.low < _PRECISE)


def outcome(found: Speedup | None) -> Outcome:
    """What a gain says. It is a gain only if the whole interval is faster, and by as much as an edit is worth."""
    if found is None:
        return "unclear"
    if found.low > 1.0 and found.speedup >= WORTH:
        return "gain"
    if found.high < 1.0:
        return "slower"
    return "unclear" if found.high > _UNCLEAR else "no-gain"


def together(findings: Sequence[Finding]) -> Change | None:
    """The best change of each remedy that gained, in one. None: fewer than two gained, or it was tried."""
    best = best_of_each(findings)
    if len(best) < 2 or any(one.change.remedy == TOGETHER for one in findings):
        return None
    settings: dict[str, Value] = {}
    for one in best:
        settings.update(one.change.settings)
    return Change(
        TOGETHER,
        settings,
        "; ".join(one.change.cost for one in best if one.change.cost != "none"),
        one_thread=any(one.change.one_thread for one in best),
        pools=tuple(pool for one in best for pool in one.change.pools),
        by_passes=any(one.change.by_passes for one in best),
    )


def best_of_each(findings: Sequence[Finding]) -> list[Finding]:
    """For each remedy that gained, the change to prefer: the first (the cheapest) that is nearly the best."""
    found = []
    for remedy in dict.fromkeys(one.change.remedy for one in findings):
        gained = [one for one in findings if one.change.remedy == remedy and one.outcome == "gain"]
        if gained:
            found.append(gained[_nearly_best(gained)])
    return found


def best(findings: Sequence[Finding]) -> int | None:
    """The finding to follow: the simplest that is nearly the best. None: nothing gained.

    Gains by passes and by windows are compared as they are: each is of what the user would wait for.
    """
    chosen = sorted(best_of_each(findings), key=lambda one: one.change.remedy == TOGETHER)
    return findings.index(chosen[_nearly_best(chosen)]) if chosen else None


def _nearly_best(gained: Sequence[Finding]) -> int:
    speedups = [one.gain.speedup if one.gain else 0.0 for one in gained]
    most = max(speedups)
    singles = [place for place, one in enumerate(speedups) if one >= _NEARLY * most]
    return singles[0]
