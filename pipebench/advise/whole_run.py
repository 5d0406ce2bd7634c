"""What a gain of a trial means for the whole run: the part of the run that the trial did not measure stays as it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pipebench.remedies.seen import Seen
from pipebench.results.advice import Value
from pipebench.stats import Speedup

_BESIDE = ("validation", "outside-loops")  # rows of the account that lie between passes


def share(seen: Seen, by: Literal["windows", "passes"], settings: Mapping[str, Value] | None = None) -> float | None:
    """The share of a pass, and of what comes before the next one, that a trial of these settings measures.

    Windows measure the settled iterations; whole passes hold the start and the end of workers, too. What is done once
    in a run (imports, the first import of a library) is not in it. None: not known. That is so if the rest is not as it
    was: first workers start in each pass, which no window holds.
    """
    iterations = seen.turns
    if iterations is None or not seen.iteration_s:
        return None
    if by == "windows" and seen.starts_in_passes(settings or {}):
        return None
    settled_s = iterations * seen.iteration_s
    measured_s = settled_s if by == "windows" else settled_s + seen.between_s
    return measured_s / (settled_s + seen.between_s + _beside_s(seen))


def pass_s(seen: Seen) -> float | None:
    """The seconds of a pass, with what lies between it and the next one. None: not known."""
    return None if seen.pass_s is None else seen.pass_s + _beside_s(seen)


def of_run(gain: Speedup, measured: float | None) -> Speedup | None:
    """The speed-up of a run of which this share becomes faster by `gain` (Amdahl's law)."""
    if measured is None:
        return None

    speedup, low, high = (amdahl(one, measured) for one in (gain.speedup, gain.low, gain.high))
    return Speedup(speedup, low, high, gain.confidence)


def amdahl(speedup: float, share: float) -> float:
    """How many times as fast the whole is, of which this share becomes faster by `speedup`."""
    return 1.0 / (1.0 - share + share / speedup)


def _beside_s(seen: Seen) -> float:
    """The seconds between two passes: other loops, and what is outside of loops."""
    account = seen.watched.account
    if account is None or seen.loader.passes < 2:
        return 0.0
    return sum(one.s for one in account.rows if one.code in _BESIDE) / (seen.loader.passes - 1)
