"""What tables are made of: cells of inert text, speed-ups in words, and the worst of several warnings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from pipebench.results.measurement import Warning
from pipebench.stats import Speedup
from pipebench.units import percent, printable


@dataclass(frozen=True)
class Table:
    """Cells of inert text; `numeric` columns are aligned right."""

    title: str
    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numeric: frozenset[int]
    notes: tuple[str, ...] = ()
    spare: tuple[int, ...] = ()  # columns that follow from the others; the first is left out first

    def narrower(self) -> Iterator[Table]:
        """The table, then the table without its first spare column, without its first two, and so on."""
        for dropped in range(len(self.spare) + 1):
            yield self._without(self.spare[:dropped])

    def _without(self, columns: Sequence[int]) -> Table:
        kept = [index for index in range(len(self.headers)) if index not in columns]
        return replace(
            self,
            headers=tuple(self.headers[index] for index in kept),
            rows=tuple(tuple(row[index] for index in kept) for row in self.rows),
            numeric=frozenset(place for place, index in enumerate(kept) if index in self.numeric),
            spare=(),
        )


def spoken(found: Speedup) -> str:
    """A speed-up with its interval."""
    return f"{found.speedup:.2f}× ({found.low:.2f}–{found.high:.2f})"


def gain(found: Speedup | None) -> str:
    """A speed-up with its interval; `~` with the smallest detectable change where there is no measurable difference."""
    if found is None:
        return ""
    if not found.told:
        return f"~ (±{percent(found.smallest_change)})" if found.low != found.high else "1"
    return spoken(found)


def worst_of(warned: Sequence[tuple[Warning, str]]) -> Iterable[str]:
    """Of warnings of one kind the worst, with how many more there are."""
    for code in dict.fromkeys(warning.code for warning, _ in warned):
        found = [pair for pair in warned if pair[0].code == code]
        worst, name = max(found, key=lambda pair: pair[0].severity)
        rest = f" and {len(found) - 1} more" if len(found) > 1 else ""
        yield f"{printable(name)}{rest}: {printable(worst.problem)}; {printable(worst.remedy)}"
