"""Predicts changes of a loader that were not tried, or not yet. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache

from pipebench.predict.passports import passport_of, setting_of, simulated
from pipebench.predict.planning import foreseen
from pipebench.results.advice import Advice, Change, Finding
from pipebench.results.costs import Passport
from pipebench.results.watched import WatchResult
from pipebench.stats import Speedup

_NOTHING = 1.05  # the most that a pair brings of what brings nothing
_PROMISED = 1.1  # the least speed-up of which nothing can be missed
_LADDERS = ("num_workers", "prefetch_factor")
Foretell = Callable[[Change], Speedup | None]


def foretelling(watched: WatchResult, loader: int) -> Foretell:
    """The speed-up of a loader's loop by a change of it, as the simulation says. None: it does not know the change."""
    passport = passport_of(watched, loader=loader)
    return _by(passport) if passport is not None else lambda change: None


def with_predictions(advice: Advice, watched: WatchResult) -> Advice:
    """The advice, in which findings have a predicted speed-up, if the simulation knows it. What was tried has one, too.

    A change that was begun and failed has none, nor one that was slower in the only pair that there was time for.
    """
    passport = passport_of(watched, advice)
    if passport is None:
        return advice
    told = _by(passport)

    def of(one: Finding) -> Finding:
        late = one.reason in ("budget", "pass-length") and all(ratio > 1 for ratio in one.ratios)
        known = one.gain is not None or one.change.untried or late
        return replace(one, predicted=told(one.change)) if known else one

    findings = tuple(map(of, advice.findings))
    borne_out = tuple(_borne_out(one, findings) for one in findings)
    present, before = passport.costs.workers, _by(replace(passport, tried=()))
    vain = [one for one in findings if _more(one, present) and _in_vain(one, before(one.change))]
    return replace(advice, findings=tuple(replace(one, belied=_is_belied(one, vain, present)) for one in borne_out))


def _more(found: Finding, present: int) -> bool:
    return found.change.remedy == "num_workers" and int(found.change.settings["num_workers"] or 0) > present


def _in_vain(found: Finding, told: Speedup | None) -> bool:
    """Whether no pair of a trial, if there were only few, brought anything of what was `told` before the trials."""
    if told is None or told.speedup < _PROMISED or not found.ratios or found.outcome == "gain":
        return False
    return max(found.ratios) < min(told.low, _NOTHING)


def _is_belied(found: Finding, vain: Sequence[Finding], present: int) -> bool:
    """Whether more workers are only predicted, and other numbers of more workers were tried in vain."""
    others = [one for one in vain if one.change != found.change]
    return found.gain is None and found.predicted is not None and _more(found, present) and bool(others)


def _borne_out(found: Finding, findings: Sequence[Finding]) -> Finding:
    """The finding, predicted to bring no more than a lower rung of its ladder allows, which was tried.

    What that rung brought less than it was predicted to bring, this one will bring less, too.
    """
    told = found.predicted
    lower = [one for one in findings if _is_lower(one, found)]
    if found.gain is not None or told is None or not lower:
        return found
    nearest = max(lower, key=lambda one: [int(one.change.settings.get(name) or 0) for name in _LADDERS])
    assert nearest.gain is not None and nearest.predicted is not None
    brought = min(1.0, nearest.gain.speedup / max(1e-9, nearest.predicted.speedup))
    less = Speedup(brought * told.speedup, brought * told.low, brought * told.high, told.confidence)
    return replace(found, predicted=less)


def _is_lower(tried: Finding, found: Finding) -> bool:
    """Whether a change was tried that is one rung of a ladder or more below another change of the same remedy."""
    if tried.gain is None or tried.predicted is None or tried.change.remedy != found.change.remedy:
        return False
    pairs = [(tried.change.settings.get(name), found.change.settings.get(name)) for name in _LADDERS]
    return any(below and above and int(below) < int(above) for below, above in pairs)


def _by(passport: Passport) -> Foretell:
    @cache
    def of(workers: int, prefetch_factor: int) -> Speedup:
        return foreseen(passport, workers, prefetch_factor)

    costs, cores = passport.costs, passport.cores
    return lambda change: of(*setting_of(change, costs)) if simulated(change, costs, cores) else None
