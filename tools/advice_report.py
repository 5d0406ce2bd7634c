"""The arithmetic of `tools/advice.py`: whether each advice was right, and its tables. Pure.

A line is what `tools/advice.py` appends for one script. `plain` has the seconds of plain runs: "present" as the script
is, "advised" with the advised change, "best" with the best change that is known. The runs were made in turn, so the
first of each kind belong together.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from statistics import median, stdev
from typing import Any

Row = Mapping[str, Any]
NEARLY = 0.9  # of the best gain: then the advice is as good
NOTHING = 1.05  # a best change that brings less leaves nothing to advise
_SLOWER = 0.95  # below it, a change has made the script slower; less is within the scatter of plain runs
_HEADERS = ("script", "first advice or diagnosis", "promised", "plain", "best", "right", "held")


def gains(row: Row, kind: str) -> list[float]:
    """The speed-up of each pair of plain runs with this change, over the script as it is."""
    plain = row["plain"]
    return [before / after for before, after in zip(plain["present"], plain.get(kind, ()), strict=False)]


def gain(row: Row, kind: str) -> float | None:
    found = gains(row, kind)
    return median(found) if found else None


def first(row: Row) -> str:
    """The remedy that was advised; without one, the first diagnosis, or "nothing"."""
    return row["remedy"] or diagnosis(row)


def diagnosis(row: Row) -> str:
    """The code of the first cause, or "nothing" if there is none but training and what is done once."""
    codes = [one["code"] for one in row["diagnosis"]]
    return next((one for one in codes if one not in ("training", "before-loops", "after-loops")), "nothing")


def right(row: Row) -> bool:
    """Whether the advice brought nearly the best gain; without one: whether that and the first diagnosis are right."""
    advised, best = gain(row, "advised"), gain(row, "best")
    if row["remedy"]:
        return advised is not None and best is not None and best > NOTHING and advised >= NEARLY * best
    return not row["remedies"] and diagnosis(row) in row["codes"]


def held(row: Row) -> bool | None:
    """Whether the promised interval holds the gain of the plain runs. None: nothing was promised."""
    advised = gain(row, "advised")
    return None if advised is None or not row["promised"] else row["promised"][1] <= advised <= row["promised"][2]


def within_limit(row: Row) -> bool | None:
    """Whether what the diagnosis could save is no less than what the best change brought. None: there is none."""
    found = next((one["at_most"] for one in row["diagnosis"] if one["code"] == diagnosis(row)), None)
    best = gain(row, "best")
    return None if found is None or best is None or row["remedies"] else bool(best <= found / _SLOWER)


def slower(row: Row) -> bool:
    advised = gain(row, "advised")
    return advised is not None and advised < _SLOWER


def spread(rows: Iterable[Row]) -> float | None:
    """The standard deviation of the logarithm of a plain run's gain, within the scripts. None: too few runs."""
    groups = [[math.log(one) for one in gains(row, kind)] for row in rows for kind in ("advised", "best")]
    squares = [(len(one) - 1, stdev(one) ** 2) for one in groups if len(one) > 1]
    free = sum(count for count, _ in squares)
    return math.sqrt(sum(count * square for count, square in squares) / free) if free else None


def latest(rows: Iterable[Row]) -> list[Row]:
    """The last line of each script, in the order of their first ones."""
    return list({row["name"]: row for row in rows}.values())


def report(rows: Sequence[Row]) -> str:
    """The confusion table, and how often the advice was right, held and slowed down."""
    shown = latest(rows)
    lines = [*_table(shown), "", *_confusion(shown), "", *_counts(shown)]
    if len(rows) > len(shown):
        lines += ["", f"All {len(rows)} lines, also those of earlier rules:", *_counts(rows)]
    return "\n".join(lines) + "\n"


def earliest(rows: Iterable[Row]) -> list[Row]:
    """The first line of each script: of the rules that stood before anybody had read it."""
    found: dict[str, Row] = {}
    for row in rows:
        found.setdefault(row["name"], row)
    return list(found.values())


def sets(lines: Mapping[str, Sequence[Row]]) -> str:
    """How often the advice was right and its interval held, for each set: by the first and by the last lines."""
    heads = ("set", "first run", "right then", "held then", "right in the end", "held in the end")
    found = {name: (earliest(rows), latest(rows)) for name, rows in lines.items()}
    cells = [(name, rows[0]["at"][:10], *_of(found[name][0]), *_of(found[name][1])) for name, rows in lines.items()]
    all_of = [[row for both in found.values() for row in both[nth]] for nth in (0, 1)]
    total = ("all", "", *_of(all_of[0]), *_of(all_of[1]))
    return "\n".join(aligned([heads, *cells, total])) + "\n"


def _of(rows: Sequence[Row]) -> tuple[str, str]:
    """How many are right, and how many intervals hold."""
    told = [one for row in rows if (one := held(row)) is not None]
    return f"{sum(map(right, rows))} of {len(rows)}", f"{sum(told)} of {len(told)}"


def _counts(rows: Sequence[Row]) -> Iterable[str]:
    for what, found in (
        ("first advice or diagnosis right", [right(row) for row in rows]),
        ("promised interval holds the plain gain", [one for row in rows if (one := held(row)) is not None]),
        ("diagnosis: the best change brought no more", [one for row in rows if (one := within_limit(row)) is not None]),
        ("the advice did not make it slower", [not slower(row) for row in rows if row["remedy"]]),
    ):
        yield f"{what}: {sum(found)} of {len(found)}"
    found = spread(rows)
    if found is not None:
        yield f"a plain run's gain scatters by {found:.1%} (standard deviation, within the scripts)"
    yield f"load average: {min(row['load'] for row in rows):.1f} to {max(row['load'] for row in rows):.1f}"


def _table(rows: Sequence[Row]) -> Iterable[str]:
    return aligned([_HEADERS, *(_cells(row) for row in rows)])


def aligned(cells: Sequence[Sequence[str]]) -> Iterable[str]:
    """The lines of a table, with columns of one width."""
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for one in cells:
        yield "  ".join(text.ljust(width) for text, width in zip(one, widths, strict=True)).rstrip()


def _cells(row: Row) -> tuple[str, ...]:
    advised, best = gain(row, "advised"), gain(row, "best")
    promised = row["promised"]
    if promised:
        told = f"{promised[0]:.2f} ({promised[1]:.2f}-{promised[2]:.2f})"
    else:
        limit = next((one["at_most"] for one in row["diagnosis"] if one["code"] == diagnosis(row)), None)
        told = f"about {limit:.2f}" if limit and not row["remedies"] else ""
    return (
        row["name"], row["change"] or diagnosis(row), told, f"{advised:.2f}" if advised else "", f"{best:.2f}",
        "yes" if right(row) else "no", {None: "", True: "yes", False: "no"}[held(row)],
    )  # fmt: skip


def _confusion(rows: Sequence[Row]) -> Iterable[str]:
    """Planted cause by what came first."""
    width = max(len(row["cause"]) for row in rows)
    for (cause, found), count in Counter((row["cause"], first(row)) for row in rows).items():
        yield f"{cause.ljust(width)}  {found}{f' ({count})' if count > 1 else ''}"
