"""The result of `compare`: two saved reports of one kind, row by row, and what differs besides their figures.

`Comparison` is another thing: two commits that were measured in turn, in one run. Two reports are of two runs, so what
a machine does differently from run to run is in every ratio here, and in every interval.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from pipebench.results.comparison import (
    FASTER,
    GATE_FAILED,
    GATE_PASSED,
    NO_RESULT,
    NOT_MEASURED,
    NOT_TOLD,
    SLOWER,
    TOO_FEW,
    Judgement,
    exceeding,
)
from pipebench.results.watched import Note
from pipebench.stats import NORMAL

Unit = Literal["s", "per-s", "share", "count", "times"]
Kind = Literal["run", "functions", "watch", "command", "advise", "syncs", "ab", "study", "calibrate"]
MIXED = "some faster, some slower"
FEWER, MORE, SAME = "fewer", "more", "same"  # of an exact count
NO_FLOOR = "run-to-run difference unknown"
CPU = "CPU time"  # the name of the row of what workers compute for a sample
ROW_VERDICTS = (FASTER, SLOWER, NOT_TOLD, NO_FLOOR, TOO_FEW, NOT_MEASURED, FEWER, MORE, SAME)
_BLIND = 1.0  # slower: a gate that does not see that tells nothing
UNJUDGED = (NO_FLOOR, TOO_FEW, NOT_MEASURED)  # of rows
VERDICTS = (FASTER, SLOWER, MIXED, NOT_TOLD, NOT_MEASURED)


@dataclass(frozen=True)
class Side:
    """One of the two reports: its file, when and on which host it was made, by which pipebench, and whether whole."""

    file: str
    created: str | None = None
    host: str | None = None
    pipebench: str | None = None
    partial: bool = False


@dataclass(frozen=True)
class Differing:
    """Something besides the figures in which the reports differ. Empty text: that report does not have it.

    `apart` says that the figures are then of two things (another machine, other data), and are compared only if the
    user insists.
    """

    of: Literal["machine", "versions", "script", "workload", "data", "settings", "report"]
    name: str
    base: str
    head: str
    apart: bool = False


@dataclass(frozen=True)
class Floor:
    """How far two runs of the same may be apart, as the standard deviation of the logarithm of a figure's ratio.

    `source` says what it rests on: "earlier-runs" of that host (`runs` of them), "these-rows" (how far most rows of
    the two reports are apart: `rows` of them), or "plain-runs" (the deviation that `advise` allows for, too).
    `others` is how many times as fast one of two watched runs could have been without other processes, at most. None:
    that is not known of both, so no wall time is judged.
    """

    source: Literal["earlier-runs", "these-rows", "plain-runs"]
    deviation: float
    runs: int = 0
    rows: int = 0
    others: float | None = 1.0

    @property
    def half(self) -> float:
        """Half the width of an interval of 95 %, as a logarithm."""
        return NORMAL * self.deviation


@dataclass(frozen=True)
class Row:
    """One figure that both reports have.

    `unit` is "s" (seconds; fewer is faster), "per-s" (samples per second), "times" (a speed-up), "share" (0 to 1) or
    "count". `judgement` has the speed-up of head over base; None: this figure is shown, and not judged. `gated` says
    that the gate is about it. `verdict` follows from the rest, and is one of `ROW_VERDICTS`.
    """

    group: str
    name: str
    unit: Unit
    base: float
    head: float
    judgement: Judgement | None = None
    gated: bool = False
    verdict: str = field(init=False, default=NOT_MEASURED)

    def __post_init__(self) -> None:
        object.__setattr__(self, "verdict", _verdict(self))

    @property
    def ratio(self) -> float | None:
        """How many times as fast the head is, above 1 is faster. None: it is no figure of speed, or one is 0."""
        if self.judgement is not None:
            return self.judgement.head_over_base.speedup
        if self.unit not in ("s", "per-s", "times") or not (self.base > 0 and self.head > 0):
            return None
        return self.base / self.head if self.unit == "s" else self.head / self.base

    def exceeds(self, limit: float) -> bool:
        """Whether it is more than `limit` slower for certain: its whole interval, or its exact count."""
        if self.unit == "count":
            return self.head > self.base * (1 + limit)
        return self.judgement is not None and self.judgement.exceeds(limit)


def _verdict(row: Row) -> str:
    judged = row.judgement
    if row.unit == "count":
        return SAME if row.head == row.base else FEWER if row.head < row.base else MORE
    if judged is None:
        return NOT_MEASURED
    if not judged.enough:
        return NO_FLOOR
    if not judged.told:
        return NOT_TOLD
    return FASTER if judged.head_over_base.speedup > 1 else SLOWER


@dataclass(frozen=True)
class BeforeAfter:
    """Two reports of one kind: a row for each figure that both have, and the names of those that only one has.

    `differing` is what differs besides: machine, versions, workload, data, settings of the script's loaders. `forced`
    says that the user asked for the comparison although machine or data differ. `lost` are those of `only_base` that a
    gate would be about: the head has no result of them. `failed` are those of `lost` that failed there. `floor` is how
    far two runs of the same may be apart (None: the intervals hold it already, or it is not known).

    Of watched runs: `wait` is the share of the loop's time that it waited for data, in both, and `wait_told` says that
    it changed for certain. `appeared` are the notes that only the head has, `vanished` those that only the base has.

    `fail_above` is the gate: with 0.05, a row fails it whose whole interval is more than 5 % slower. A run that ended
    early has not every row, so nothing passes it. Unless every rate that it is about became faster for certain, it has
    no result either if a row that it is not about is slower for certain (`beside`), or if it would not see a row that
    takes twice as long (`sees`). `verdict`, `gate` and `exceeding` (the names of the rows that fail) follow from the
    rows.
    """

    kind: Kind
    base: Side
    head: Side
    rows: tuple[Row, ...]
    differing: tuple[Differing, ...] = ()
    only_base: tuple[str, ...] = ()
    only_head: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    floor: Floor | None = None
    forced: bool = False
    wait: tuple[float, float] | None = None
    wait_told: bool = False
    appeared: tuple[Note, ...] = ()
    vanished: tuple[Note, ...] = ()
    fail_above: float | None = None
    verdict: str = field(init=False, default=NOT_MEASURED)
    gate: str | None = field(init=False, default=None)
    exceeding: tuple[str, ...] = field(init=False, default=())

    def __post_init__(self) -> None:
        over = [] if self.fail_above is None else _over(self.rows, self.fail_above)
        object.__setattr__(self, "verdict", _of_all(self.rows))
        object.__setattr__(self, "gate", _gate(self.rows, bool(self.lost or self.partial), self.fail_above, over))
        object.__setattr__(self, "exceeding", tuple(f"{one.group}: {one.name}" for one in over))

    @property
    def partial(self) -> tuple[str, ...]:
        """Which of the two runs ended early: "base", "head"."""
        return tuple(name for name in ("base", "head") if getattr(self, name).partial)

    @property
    def beside(self) -> tuple[Row, ...]:
        """The rows that are slower for certain, by more than a gate allows, and that no gate is about."""
        return tuple(_beside(self.rows, self.fail_above or 0.0))

    @property
    def sees(self) -> float | None:
        """How much slower a row must be that the gate sees: of half of the rows that are not known to be faster."""
        return None if self.fail_above is None else _sees(self.rows, self.fail_above)


def _over(rows: Sequence[Row], limit: float) -> list[Row]:
    gated = [one for one in rows if one.gated]
    return [*exceeding(gated, limit), *(one for one in gated if one.unit == "count" and one.exceeds(limit))]


def _beside(rows: Sequence[Row], limit: float) -> list[Row]:
    return [one for one in rows if not one.gated and one.unit in ("s", "per-s") and one.exceeds(limit)]


def _sees(rows: Sequence[Row], limit: float) -> float | None:
    untold = [one.judgement for one in rows if one.gated and one.judgement and one.verdict != FASTER]
    seen = sorted(one.head_over_base.high / one.head_over_base.speedup * (1 + limit) - 1 for one in untold)
    return seen[len(seen) // 2] if seen else None


def _outweighed(gated: Sequence[Row]) -> bool:
    """Whether what is gated tells that a part that became slower does not slow the whole: each rate is faster."""
    rates = [one for one in gated if one.unit == "per-s"]
    return bool(rates) and all(one.verdict == FASTER for one in rates)


def _gate(rows: Sequence[Row], lost: bool, limit: float | None, over: Sequence[Row]) -> str | None:
    """What the gate says. No result: see `BeforeAfter`; also if there is no row, or some are `lost`."""
    if limit is None:
        return None
    if over:
        return GATE_FAILED
    gated = [one for one in rows if one.gated]
    unclear = any(one.verdict in UNJUDGED for one in gated)
    hidden = bool(_beside(rows, limit)) or (_sees(rows, limit) or 0.0) > _BLIND
    unclear |= hidden and not _outweighed(gated)
    return NO_RESULT if unclear or lost or not gated else GATE_PASSED


def _of_all(rows: Sequence[Row]) -> str:
    found = {one.verdict for one in rows if one.gated}
    faster, slower = found & {FASTER, FEWER}, found & {SLOWER, MORE}
    if faster and slower:
        return MIXED
    if faster or slower:
        return FASTER if faster else SLOWER
    return NOT_TOLD if found & {NOT_TOLD, SAME} else NOT_MEASURED
