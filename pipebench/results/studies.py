"""A study that was run: its rows beside what their author reports."""

from __future__ import annotations

from dataclasses import dataclass

from pipebench.stats import Interval, Ratio


@dataclass(frozen=True)
class Author:
    """What the author reports of a step: in words, and as costs over those of the row called `over` (1 is no change).

    Without an `over`, the row before is meant.
    """

    says: str = ""
    ratio: float | None = None
    over: str | None = None


@dataclass(frozen=True)
class Row:
    """What was measured of a step: seconds a unit, or a count; its cost over the row before and over the first row.

    `agreement` says how it was shown to compute the same; `notes` belong to the row.
    """

    name: str
    what: str
    seconds: Interval | None = None
    count: float | None = None
    ratio: Ratio | None = None
    ratio_to_first: Ratio | None = None
    ratio_to_authors: Ratio | None = None
    author: Author = Author()
    agreement: str = ""
    gives_up: str | None = None
    skipped: str | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Result:
    """A study that was run: its rows, and what they say of the author's claims and of ours."""

    study: str
    title: str
    source: str
    size: str
    unit: str
    setting: str
    rows: tuple[Row, ...]
    findings: tuple[str, ...] = ()
