"""The results of a study: its rows, the author's figures beside them, and whether the author's figures hold here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pipebench.stats import Interval, Speedup

Outcome = Literal["holds", "larger", "smaller", "none", "opposite", "open", "not measured"]


@dataclass(frozen=True)
class Author:
    """The author's report of a step: in words, and as a speed-up over the row called `over` (above 1 is faster).

    If `over` is None, the speed-up is over the row before.
    """

    says: str = ""
    speedup: float | None = None
    over: str | None = None


@dataclass(frozen=True)
class StudyRow:
    """The measurement of a step: seconds per unit or a count, and its speed-ups over other rows.

    `over_before` is the speed-up over the last row before that computes the same, `over_first` over the baseline, and
    `over_authors` over the row with which the author compares the step. A row that computes something else has no
    speed-ups. `agreement` says how the step was shown to compute the same result.
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
        """Whether the author's figure holds here (see `judged`); None if the author gives no figure."""
        if self.author.speedup is None:
            return None
        return judged(self.over_authors, self.author.speedup)


@dataclass(frozen=True)
class StudyResult:
    """The results of a study. The author's figures are in `rows`; `findings` are further conclusions in words."""

    study: str
    title: str
    source: str
    size: str
    unit: str
    setting: str
    rows: tuple[StudyRow, ...]
    findings: tuple[str, ...] = ()


def judged(ours: Speedup | None, theirs: float) -> Outcome:
    """Whether an author's speed-up (`theirs`) holds here, judged by the interval of our own speed-up (`ours`).

    - `holds`: the interval contains the author's figure and excludes 1.
    - `larger`, `smaller`: the change has the author's direction, and the whole interval lies above or below its size.
    - `opposite`: the change has the other direction.
    - `none`: the interval contains 1 and excludes the author's figure.
    - `open`: the interval contains both, so it supports either.
    - `not measured`: there is no speed-up of our own.

    If the author reports no change (1), an interval that contains 1 holds and any change is `opposite`. Figures are
    compared after rounding to two decimals, because that is how they are printed and authors give no more.
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
