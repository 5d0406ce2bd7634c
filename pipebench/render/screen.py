"""Makes a report fit a screen: what a short page can do without is left out, and the reader is told. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from pipebench.render import layout
from pipebench.render.cells import Table
from pipebench.render.layout import Line, Part, Spare, Sparing, flat
from pipebench.units import counted

LINES = 30
OF_RUN = 48  # of a watched run, which has its account and the lines of its largest stage
MORE = "Shortened: --full shows every figure."
FEWEST_ROWS = 3  # of a table
LATE = 100  # spare parts of this order or a higher one go only after the notes and rows of tables
_LAST = 4  # parts at the end: what to do next, and what is known of the error
_GAP = "…"


def whole(parts: Iterable[Sparing], width: int) -> list[Part]:
    """All parts. If they are more than a screen, the verdict, which is the bold beginning, is said again at the end."""
    made = flat(parts)
    first = verdict(made)
    return [*made, "", *first] if first and not _fits(made, width, LINES) else made


def verdict(parts: Sequence[Part]) -> list[Part]:
    """The bold lines at the beginning."""
    found: list[Part] = []
    for one in parts:
        if not (isinstance(one, Line) and one.style == "bold" and one.text):
            break
        found.append(one)
    return found


def fitted(parts: Iterable[Sparing], width: int, more: str, most: int = LINES) -> list[Part]:
    """The parts in at most `most` lines of `width` columns. If any are left out, the last line is `more`.

    First the spare parts go, then notes of tables and rows of tables, then what is spared late, and at last the middle
    of the text.
    """
    given = list(parts)
    if _fits(flat(given), width, most):
        return flat(given)
    tail = [Line(more, "dim")] if more else []
    left = given
    for order in sorted({one.order for one in given if isinstance(one, Spare)}):
        if order >= LATE and _fits(_with_rows_of([*flat(left), *tail], FEWEST_ROWS), width, most):
            break
        left = [one for one in left if not (isinstance(one, Spare) and one.order <= order)]
        if _fits([*flat(left), *tail], width, most):
            return [*flat(left), *tail]
    return _with_fewer_rows([*flat(left), *tail], width, most)


def _with_fewer_rows(parts: list[Part], width: int, most: int) -> list[Part]:
    """Without the notes of tables and with as many rows as fit, found by halving; else without the middle."""
    if not _fits(_with_rows_of(parts, FEWEST_ROWS), width, most):
        return _cut(_with_rows_of(parts, FEWEST_ROWS), width, most)
    few, many = FEWEST_ROWS, most
    while few < many:
        middle = (few + many + 1) // 2
        few, many = (middle, many) if _fits(_with_rows_of(parts, middle), width, most) else (few, middle - 1)
    return _with_rows_of(parts, few)


def _with_rows_of(parts: Sequence[Part], most: int) -> list[Part]:
    """The parts, whose tables have no notes and at most so many rows."""
    return [_with_rows(replace(one, notes=()), most) if isinstance(one, Table) else one for one in parts]


def _with_rows(one: Table, most: int) -> Table:
    """The first rows, as many as there is room for, and those at the end that are kept."""
    rest = len(one.rows) - most
    if rest <= 0:
        return one
    last = len(one.rows) - one.kept
    rows = (*one.rows[: most - one.kept], *one.rows[last:])
    return replace(one, rows=rows, notes=(f"and {counted(rest, 'more row')}",))


def _cut(parts: list[Part], width: int, most: int) -> list[Part]:
    """The beginning and the end."""
    last = parts[-_LAST:] if _lines(parts[-_LAST:], width) <= most // 2 else parts[-1:]
    first = parts[: min(len(parts) - len(last), most)]
    while first and not _fits([*first, _GAP, *last], width, most):
        first.pop()
    return [*first, _GAP, *last]


def _fits(parts: Sequence[Part], width: int, most: int) -> bool:
    """Whether the parts fit into so many lines. Most that do not are told without laying them out."""
    least = sum(len(one.rows) if isinstance(one, Table) else 1 for one in parts if one)
    return least <= most and _lines(parts, width) <= most


def _lines(parts: Sequence[Part], width: int) -> int:
    return layout.text(parts, width=width).count("\n")
