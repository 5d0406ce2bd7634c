"""A study that was run: its rows beside what their author reports, and whether the author's figures hold here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pipebench.stats import Interval, Speedup

Outcome = Literal["holds", "larger", "smaller", "none", "opposite", "open", "not measured"]


@dataclass(frozen=True)
class Author:
    """What the author reports of a step: in words, and as a speed-up over the row called `over` (above 1 is faster).

    Without an `over`, the row before is meant.
    """

    says: str = ""
    speedup: float | None = None
    over: str | None = None


@dataclass(frozen=True)
class StudyRow:
    """What was measured of a step: seconds a unit or a count, and its speed-up over other rows.

    `over_before` is the speed-up over the row before, `over_first` over the baseline, `over_authors` over the row with
    which the author compares it. A row that computes something else has none of them. `agreement` says how the step was
    shown to compute the same; `notes` belong to the row.
    """

    name: str
    what: str
    seconds: Interval | None = None
    count: float | None = None
    over_before: Speedup | None = None
    over_first: Speedup | None = None
    over_authors: Speedup | None = None
    author: Author = Author()
    agreement: str = ""
    gives_up: str | None = None
    skipped: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def outcome(self) -> Outcome | None:
        """What became of the author's figure here; None where the author gives none."""
        if self.author.speedup is None:
            return None
        return judged(self.over_authors, self.author.speedup)


@dataclass(frozen=True)
class StudyResult:
    """A study that was run. `findings` are what it says besides the author's figures, which its rows have."""

    study: str
    title: str
    source: str
    size: str
    unit: str
    setting: str
    rows: tuple[StudyRow, ...]
    findings: tuple[str, ...] = ()


def judged(ours: Speedup | None, theirs: float) -> Outcome:
    """Whether an author's speed-up holds here, by our own interval and by the size that the author states.

    `holds`: the interval has the author's figure and not 1. `larger` or `smaller`: a change of the author's direction,
    whose whole interval lies beyond the author's figure or short of it. `opposite`: a change of the other direction.
    `none`: the interval has 1 and not the author's figure. `open`: it has both, so it supports either. The author's
    figure is compared to two decimals, as it is printed: his own figures have no more.
    """
    if ours is None:
        return "not measured"
    low, stated, high = (round(one, 2) for one in (ours.low, theirs, ours.high))
    inside = low <= stated <= high
    if not ours.told:
        return ("holds" if theirs == 1 else "open") if inside else "none"
    if inside:
        return "holds"
    if theirs == 1 or (ours.speedup > 1) != (theirs > 1):
        return "opposite"
    beyond = low > stated if theirs > 1 else high < stated
    return "larger" if beyond else "smaller"
