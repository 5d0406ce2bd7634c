"""Predicts changes of a loader that were not tried, or not yet. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

from pipebench.predict.passports import passport_of, setting_of, simulated
from pipebench.predict.planning import foreseen
from pipebench.results.advice import Advice, Change, Finding
from pipebench.results.costs import Passport
from pipebench.results.watched import WatchResult
from pipebench.stats import Speedup

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

    return replace(advice, findings=tuple(map(of, advice.findings)))


def _by(passport: Passport) -> Foretell:
    @cache
    def of(workers: int, prefetch_factor: int) -> Speedup:
        return foreseen(passport, workers, prefetch_factor)

    return lambda change: of(*setting_of(change, passport.costs)) if simulated(change) else None
