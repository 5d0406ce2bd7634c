"""How far the figures of `watch` can be trusted on this machine: what calibration found, kept beside the cache."""

from __future__ import annotations

import contextlib
import json
import os
import platform
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pipebench.machine import cache_folder
from pipebench.units import percent, seconds

# The goal: an error of at most 2 % of an iteration or 20 µs a sample, whichever is larger.
GOAL_SHARE = 0.02
GOAL_S = 20e-6


@dataclass(frozen=True)
class Row:
    """One stage or phase of one planted run: what its own clock saw, and what `watch` reported.

    Per sample for stages, per iteration for phases (`per`). `error_share` is the error in parts of an iteration.
    """

    run: str
    name: str
    clock: str
    per: str
    truth_s: float
    found_s: float
    error_share: float
    within: bool

    @property
    def error_s(self) -> float:
        return self.found_s - self.truth_s


@dataclass(frozen=True)
class Calibration:
    """The instrument's own error here: the largest of each kind over all planted runs, and what one span costs."""

    host: str
    worst_sample_s: float
    worst_share: float
    span_ns: float
    within: int
    rows: tuple[Row, ...]

    @property
    def foot(self) -> str:
        """The line at the foot of every later report."""
        return (
            f"Calibrated here: attribution is within {seconds(self.worst_sample_s)} a sample and "
            f"{percent(self.worst_share, 1)} of an iteration; a span costs {self.span_ns:.0f} ns"
        )


def _place() -> Path:
    return cache_folder() / "calibration" / f"{platform.node() or 'host'}.json"


def keep(calibration: Calibration) -> Path:
    """Saves it for this host; the newest counts."""
    place = _place()
    place.parent.mkdir(parents=True, exist_ok=True)
    draft = place.with_suffix(f".{os.getpid()}")
    draft.write_text(json.dumps(asdict(calibration), indent=1) + "\n", encoding="utf-8")
    os.replace(draft, place)
    return place


def kept() -> Calibration | None:
    """The calibration of this host; None where there is none, or it cannot be read."""
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
        found: dict[str, Any] = json.loads(_place().read_text(encoding="utf-8"))
        return Calibration(**{**found, "rows": tuple(Row(**row) for row in found["rows"])})
    return None
