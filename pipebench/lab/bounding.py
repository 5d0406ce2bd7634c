"""Which ceiling bounds a task, and how close each row comes to it. A ceiling that a row exceeds is at fault."""

from __future__ import annotations

from collections.abc import Iterable

from pipebench.lab.checking import Row
from pipebench.results.measurement import Warning, exceeded
from pipebench.stats import CONFIDENCE, Speedup, by_process, compare_processes


def over(ours: Row, theirs: Row) -> Speedup:
    """The speed-up of one call of `ours` over one call of `theirs`, from the turns that both have."""
    return compare_processes(
        by_process(ours.readings, ours.counts), by_process(theirs.readings, theirs.counts), ours.calls / theirs.calls
    )


def chosen(rows: Iterable[Row]) -> Row | None:
    """The fastest of the ceilings that could be measured: the most that this machine was seen to do.

    Their readings were taken in turn. A storage that was not cold has no rate, so it bounds nothing.
    """
    found = [row for row in rows if row.variant.ceiling and row.able and row.readings and "not-cold" not in row.codes]
    return max(found, key=lambda row: over(row, found[0]).speedup, default=None)


class Bound:
    """The ceiling of a task, and the speed of each row beside it. Without a ceiling, no row has a share."""

    def __init__(self, rows: Iterable[Row]) -> None:
        rows = list(rows)
        self.row = chosen(rows)
        beside = [(one.variant.name, self.beside(one)) for one in rows]
        # surely faster: the interval excludes 1, and there are enough readings for an interval
        self.beaten = [(name, one) for name, one in beside if one and one.low > 1 and one.confidence >= CONFIDENCE]

    def beside(self, row: Row) -> Speedup | None:
        """The speed of a row over that of the ceiling; None if the row does less work, or either was not timed."""
        timed = self.row is not None and row.work is not None and bool(row.readings)
        if self.row is None or not timed or row.variant.ceiling or not row.variant.does_all:
            return None
        if row.keys != self.row.keys:  # other samples: a decoder of JPEGs is the ceiling of no PNG
            return None
        return over(row, self.row)

    def slower(self, row: Row) -> Speedup | None:
        """The speed of another ceiling over that of the one that bounds; None if either was not timed."""
        timed = self.row is not None and row.work is not None and bool(row.readings)
        return over(row, self.row) if self.row is not None and timed and row is not self.row else None

    def share(self, row: Row) -> float | None:
        """The share of the ceiling that a row reaches. No row has one if any row measurably exceeds the ceiling."""
        found = self.beside(row)
        return found.speedup if found and not self.beaten else None

    def name(self, row: Row) -> str | None:
        """The name of the ceiling that a row was held against."""
        return self.row.variant.name if self.row is not None and self.beside(row) else None

    def faults(self, row: Row) -> tuple[Warning, ...]:
        """The fault of the ceiling, as a warning on the rows that exceed it and on the ceiling itself."""
        if self.row is None:
            return ()
        if row is self.row:
            return tuple(exceeded(f"{name} is faster", speedup) for name, speedup in self.beaten)
        said = f"faster than the ceiling ({self.row.variant.name})"
        return tuple(exceeded(said, speedup) for name, speedup in self.beaten if name == row.variant.name)
