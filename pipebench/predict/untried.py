"""Adds predictions to an advice, for settings that its trials could not reach. Pure."""

from __future__ import annotations

from dataclasses import replace

from pipebench.predict.passports import passport_of, setting_of, simulated
from pipebench.predict.planning import foreseen
from pipebench.results.advice import Advice, Finding
from pipebench.results.watched import WatchResult


def with_predictions(advice: Advice, watched: WatchResult) -> Advice:
    """The advice, in which each finding that was not tried has a predicted speed-up, if the simulation knows it.

    A change that was begun and failed has none.
    """
    passport = passport_of(watched, advice)
    if passport is None:
        return advice

    def of(one: Finding) -> Finding:
        if one.gain is not None or one.reason not in ("budget", "pass-length") or not simulated(one.change):
            return one
        return replace(one, predicted=foreseen(passport, *setting_of(one.change, passport.costs)))

    return replace(advice, findings=tuple(map(of, advice.findings)))
