"""The arithmetic of `tools/advice.py`: whether each advice was right, and its tables. Pure.

A line is what `tools/advice.py` appends for one script. `plain` has the seconds of plain runs: "present" as the script
is, "advised" with the advised change, "best" with the best change that is known. The runs were made in turn, so the
first of each kind belong together. `by_hand` says that "advised" ran with what the author of the script wrote, and not
with what `advise` printed. `of_script` is the remedy that the verdict begins with, if it is a change of the script, and
`besides` what it advises after that; the plain runs with it alone are "besides", too (not in earlier lines).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from statistics import median, stdev
from typing import Any

from advice_planted import Planted

Row = Mapping[str, Any]
NEARLY = 0.9  # of the best gain: then the advice is as good
NOTHING = 1.05  # a best change that brings less leaves nothing to advise
_SLOWER = 0.95  # below it, a change has made the script slower; less is within the scatter of plain runs
# A change of the script -> the cause that it removes. Others name a line, and no cause: there the diagnosis counts.
_CAUSES = {
    "sampler_ahead": "sampler", "callbacks": "callbacks", "between": "outside-loops", "validation": "validation",
    "in_workers": "prepare",
    "padding": "padding", "like_lengths": "unequal-lengths", "divide_first": "each-makes-all",
    "select_first": "made-in-vain",
    "one_row": "many-tensors", "spread_evenly": "uneven-workers", "one_iterator": "new-iterators",
}  # fmt: skip
# The words of verdicts in lines that do not have `of_script`.
_SAID = re.compile(r"(.*?) could make the loops (?:about|up to|at most) \S+× as fast \(predicted, not tried\)\. (.*)")
_TITLES = {
    "Sampler made ahead": "sampler_ahead", "Callbacks out of the loop": "callbacks",
    "Validation every 2nd pass": "validation", "Validation half as often": "validation",
    "Validation in larger batches, or half as often": "validation",
    "Batches prepared in the workers": "in_workers", "Padding to the longest sample": "padding",
    "A stream divided first": "divide_first", "Work spread evenly": "spread_evenly",
    "One iterator for all steps": "one_iterator",
}  # fmt: skip
_HEADERS = ("script", "first advice or diagnosis", "promised", "plain", "best", "right", "held")


def gains(row: Row, kind: str) -> list[float]:
    """The speed-up of each pair of plain runs with this change, over the script as it is."""
    plain = row["plain"]
    return [before / after for before, after in zip(plain["present"], plain.get(kind, ()), strict=False)]


def gain(row: Row, kind: str) -> float | None:
    found = gains(row, kind)
    return median(found) if found else None


def marked(rows: Iterable[Row], known: Iterable[Planted]) -> list[Row]:
    """The same lines, of which each says whether its advised change was written by hand: earlier ones do not."""
    by_hand = {one.name: one.written_by_hand for one in known}
    return [row if "by_hand" in row else {"by_hand": by_hand[row["name"]](row["remedy"]), **row} for row in rows]


def first(row: Row) -> str:
    """The remedy that was advised; without one, the cause that came first."""
    return row["remedy"] or cause(row)


def cause(row: Row) -> str:
    """The cause that the verdict's change of the script removes; where it names none, the first diagnosis."""
    return _CAUSES.get(_of_script(row), "") or diagnosis(row)


def _of_script(row: Row) -> str:
    if "of_script" in row:
        return str(row["of_script"])
    said = _SAID.match(row.get("said", ""))
    return _TITLES.get(said[1], "") if said is not None else ""


def _besides(row: Row) -> bool:
    """Whether a change of the loader was advised, too, after one of the script."""
    if "besides" in row:
        return bool(row["besides"])
    said = _SAID.match(row.get("said", ""))
    return said is not None and not said[2].startswith(("No ", "Nothing "))


def diagnosis(row: Row) -> str:
    """The code of the first cause, or "nothing" if there is none but training and what is done once.

    What is done once counts where it is what was planted.
    """
    codes = [one["code"] for one in row["diagnosis"]]
    once = {"training", "before-loops", "after-loops"} - set(row["codes"])
    return next((one for one in codes if one not in once), "nothing")


def right(row: Row) -> bool:
    """Whether the advice brought nearly the best gain; without one: whether none helps, and the cause is right.

    What is advised besides a change of the script must bring something by itself.
    """
    advised, best = gain(row, "advised"), gain(row, "best")
    if row["remedy"]:
        return None not in (advised, best) and max(advised, best) > NOTHING and advised >= NEARLY * best
    useless = _besides(row) and (gain(row, "besides") or 0.0) < NOTHING
    return not row["remedies"] and cause(row) in row["codes"] and not useless


def held(row: Row) -> bool | None:
    """Whether the promised interval holds the gain of the plain runs. None: nothing was promised."""
    advised = gain(row, "advised")
    return None if advised is None or not row["promised"] else row["promised"][1] <= advised <= row["promised"][2]


def within_limit(row: Row) -> bool | None:
    """Whether what the first cause could save is no less than what the best change brought. None: there is none."""
    found = _limit(row)
    best = gain(row, "best")
    return None if found is None or best is None or row["remedies"] else bool(best <= found / _SLOWER)


def _limit(row: Row) -> float | None:
    return next((one["at_most"] for one in row["diagnosis"] if one["code"] == cause(row)), None)


def slower(row: Row) -> bool | None:
    """Whether the advised change made the script slower. None: it never ran as it was printed."""
    found = [one for kind in ("advised", "besides") if (one := gain(row, kind)) is not None]
    return None if not found or row.get("by_hand") else min(found) < _SLOWER


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
    """How many are right, in brackets by hand, and how many intervals hold."""
    told = [one for row in rows if (one := held(row)) is not None]
    good, hand = _how_many_right(rows)
    return good + (f" ({hand})" if hand else ""), f"{sum(told)} of {len(told)}"


def _counts(rows: Sequence[Row]) -> Iterable[str]:
    good, hand = _how_many_right(rows)
    yield f"first advice or diagnosis right: {good}" + (f", {hand} of them by hand" if hand else "")
    for what, found in (
        ("promised interval holds the plain gain", [one for row in rows if (one := held(row)) is not None]),
        ("diagnosis: the best change brought no more", [one for row in rows if (one := within_limit(row)) is not None]),
        ("the advice did not make it slower", [not one for row in rows if (one := slower(row)) is not None]),
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
        limit = _limit(row)
        told = f"about {limit:.2f}" if limit and not row["remedies"] else ""
    return (
        row["name"], row["change"] or cause(row), told, f"{advised:.2f}" if advised else "", f"{best:.2f}",
        _right(row), {None: "", True: "yes", False: "no"}[held(row)],
    )  # fmt: skip


def _right(row: Row) -> str:
    return "no" if not right(row) else "by hand" if row.get("by_hand") else "yes"


def _how_many_right(rows: Sequence[Row]) -> tuple[str, int]:
    """How many of all are right, and of how many of these what was printed did not run."""
    good = [row for row in rows if right(row)]
    return f"{len(good)} of {len(rows)}", sum(bool(row.get("by_hand")) for row in good)


def _confusion(rows: Sequence[Row]) -> Iterable[str]:
    """Planted cause by what came first."""
    width = max(len(row["cause"]) for row in rows)
    for (cause, found), count in Counter((row["cause"], first(row)) for row in rows).items():
        yield f"{cause.ljust(width)}  {found}{f' ({count})' if count > 1 else ''}"
