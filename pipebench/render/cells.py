"""The building blocks of tables: cells of inert text, speed-ups as text, and the worst of several warnings."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pipebench.stats import Speedup, Summary
from pipebench.units import percent, printable, width

if TYPE_CHECKING:
    from pipebench.results.measurement import Warning

LEAST_CONFIDENCE = 0.75  # the confidence of three windows; the interval of fewer windows says nothing


@dataclass(frozen=True)
class Table:
    """A table of inert text. `numeric` holds the indices of the columns that are aligned right.

    `kept` rows at its end are sums: a page that has no room for all rows has these. `shorten` makes a name fit so many
    columns (None: its middle is left out).
    """

    title: str
    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numeric: frozenset[int]
    notes: tuple[str, ...] = ()
    spare: tuple[int, ...] = ()  # columns that a narrow page can leave out, in the order in which they are left out
    kept: int = 0
    shorten: Callable[[str, int], str] | None = None

    def filled(self) -> Table:
        """The table without the columns that are empty in every row."""
        empty = {index for index in range(len(self.headers)) if not any(row[index] for row in self.rows)}
        if not empty or not self.rows:
            return self
        kept = [index for index in range(len(self.headers)) if index not in empty]
        spare = tuple(kept.index(index) for index in self.spare if index not in empty)
        return replace(self._without(sorted(empty)), spare=spare)

    def narrower(self) -> Iterator[Table]:
        """The table, then the table without its first spare column, without its first two, and so on."""
        for dropped in range(len(self.spare) + 1):
            yield self._without(self.spare[:dropped])

    def narrowest(self) -> Table:
        """The table without its spare columns."""
        return self._without(self.spare)

    def _without(self, columns: Sequence[int]) -> Table:
        kept = [index for index in range(len(self.headers)) if index not in columns]
        return replace(
            self,
            headers=tuple(self.headers[index] for index in kept),
            rows=tuple(tuple(row[index] for index in kept) for row in self.rows),
            numeric=frozenset(place for place, index in enumerate(kept) if index in self.numeric),
            spare=(),
        )


def when(created: str) -> str:
    """The date and time of a report as people write it."""
    shown = printable(created[:16].replace("T", " "))
    return f"{shown} UTC" if created.endswith(("+00:00", "Z")) else shown


def spoken(found: Speedup) -> str:
    """A speed-up with its interval."""
    return f"{_digits(found.speedup)}× ({_digits(found.low)}–{_digits(found.high)})"


def over_live(found: Speedup) -> str:
    """A speed-up over live windows, with its interval if there were windows enough for one."""
    return spoken(found) if found.confidence >= LEAST_CONFIDENCE else f"{_digits(found.speedup)}×"


def rounded(found: Speedup) -> str:
    """A speed-up alone, with the digits that its interval leaves certain, and one at least."""
    half = (found.high - found.low) / 2
    first, least = math.floor(math.log10(found.speedup)), math.floor(math.log10(half)) if half > 0 else -2
    return f"{found.speedup:.{max(0, -first, min(-least, 2 - first))}f}×"


def _digits(times: float) -> str:
    """Three digits, and two of what is smaller than a tenth."""
    if times < 0.1:
        return f"{times:.2g}"
    return f"{times:.{2 if times < 9.995 else 1 if times < 99.95 else 0}f}"


def spread(cost: Summary) -> str:
    """How far the interval of a cost reaches."""
    return width(cost.median_s, cost.low_s, cost.high_s)


def gain(found: Speedup | None) -> str:
    """A speed-up with its interval, or `~` with the smallest detectable change if no difference is measurable.

    It is empty for None, and "1" if the interval has no width (a row beside itself).
    """
    if found is None:
        return ""
    if not found.told:
        return f"~ (±{percent(found.smallest_change)})" if found.low != found.high else "1"
    return spoken(found)


def worst_of(warned: Sequence[tuple[Warning, str]]) -> Iterable[str]:
    """One line for each code of warning: the worst warning, and the number of others with that code."""
    for code in dict.fromkeys(warning.code for warning, _ in warned):
        found = [pair for pair in warned if pair[0].code == code]
        worst, name = max(found, key=lambda pair: pair[0].severity)
        rest = f" and {len(found) - 1} more" if len(found) > 1 else ""
        yield f"{printable(name)}{rest}: {printable(worst.problem)}; {printable(worst.remedy)}"
