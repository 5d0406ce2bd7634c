"""What tables are made of: cells of inert text, ratios in words, and the worst of several warnings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pipebench.results.measurement import Warning
from pipebench.stats import Ratio
from pipebench.units import percent, printable


@dataclass(frozen=True)
class Table:
    """Cells of inert text; `numeric` columns are aligned right."""

    title: str
    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numeric: frozenset[int]
    notes: tuple[str, ...] = ()
    spare: tuple[int, ...] = ()  # columns that a narrow terminal can do without

    def narrowed(self) -> Table:
        """The table without its spare columns."""
        kept = [index for index in range(len(self.headers)) if index not in self.spare]
        return Table(
            self.title,
            tuple(self.headers[index] for index in kept),
            tuple(tuple(row[index] for index in kept) for row in self.rows),
            frozenset(place for place, index in enumerate(kept) if index in self.numeric),
            self.notes,
        )


def gain(ratio: Ratio | None) -> str:
    """How many times as fast as the reference, with its interval; `~` where the readings cannot tell."""
    if ratio is None:
        return ""
    if not ratio.told:
        return f"~ (±{percent(ratio.smallest_change)})" if ratio.low != ratio.high else "1"
    return f"{1 / ratio.ratio:.2f}× ({1 / ratio.high:.2f}–{1 / ratio.low:.2f})"


def worst_of(warned: Sequence[tuple[Warning, str]]) -> Iterable[str]:
    """Of warnings of one kind the worst, with how many more there are."""
    for code in dict.fromkeys(warning.code for warning, _ in warned):
        found = [pair for pair in warned if pair[0].code == code]
        worst, name = max(found, key=lambda pair: pair[0].severity)
        rest = f" and {len(found) - 1} more" if len(found) > 1 else ""
        yield f"{printable(name)}{rest}: {printable(worst.problem)}; {printable(worst.remedy)}"
