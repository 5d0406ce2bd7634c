"""Speed-ups with their intervals: the steps of a study beside its author's, two commits, and two saved reports."""

from __future__ import annotations

import math
from collections.abc import Iterator

from pipebench.render.before_after_rows import name_of, told_of, value_of
from pipebench.render.cells import Table, gain, spoken
from pipebench.render.pictures import Picture
from pipebench.render.pictures.drawing import brief, picture, slug
from pipebench.render.pictures.forest import Tree, draw
from pipebench.render.study import claimed, verdict
from pipebench.results.before_after import BeforeAfter, Row
from pipebench.results.comparison import CHANGED, FASTER, SLOWER, Change, Comparison
from pipebench.results.report import Report
from pipebench.results.studies import StudyResult
from pipebench.units import counted, printable

_MOST = 40  # rows
_COLOURS = {SLOWER: "1", FASTER: "2", CHANGED: "4"}
_KEY = "Left of the line head is slower, right of it faster. Hollow: no difference is told."


def pictures(report: Report) -> Iterator[Picture]:
    if report.comparison is not None:
        yield from _commits(report.comparison)
    if report.before_after is not None:
        yield from _reports(report.before_after)
    for result in report.studies:
        yield from _study(result)


def _commits(found: Comparison) -> Iterator[Picture]:
    judged = [one for one in found.changes if one.judgement is not None and one.judgement.enough]
    if not judged:
        return
    base, head = brief(found.base), brief(found.head)
    words = (SLOWER, FASTER, *([CHANGED] if any(one.verdict == CHANGED for one in judged) else []))
    said = [f"{sum(one.verdict == word for one in judged)} {word}" for word in words]
    alt = f"Of {counted(len(judged), 'benchmark')}, {head} over {base}: {', '.join(said)}."
    worst = min(judged, key=_speedup)
    if worst.verdict == SLOWER and worst.judgement is not None:
        alt += f" The slowest is {brief(worst.benchmark)}: {spoken(worst.judgement.head_over_base)}."
    shown = sorted(judged, key=_speedup)
    shown = shown if len(shown) <= _MOST else [*shown[: _MOST // 2], *shown[-_MOST // 2 :]]
    trees = [_change(one) for one in shown]
    cells = tuple(
        (printable(one.benchmark), gain(one.judgement.head_over_base), one.verdict)
        for one in judged
        if one.judgement is not None
    )
    notes = (f"The picture has the {len(shown)} largest changes.",) if len(shown) < len(judged) else ()
    table = Table("", ("benchmark", "head over base", ""), cells, frozenset({1}), notes)
    key = _KEY
    if any(one.verdict == CHANGED for one in shown):
        key += " Yellow: its output changed."
    yield picture(
        "speedups", "stages", f"How fast {head} is, beside {base}", alt, table,
        lambda sheet: draw(sheet, trees, "speed-up of head over base", None, key),
    )  # fmt: skip


def _speedup(one: Change) -> float:
    return one.judgement.head_over_base.speedup if one.judgement is not None else 1.0


def _change(one: Change) -> Tree:
    assert one.judgement is not None
    over, told = one.judgement.head_over_base, one.verdict in _COLOURS
    colour = _COLOURS.get(one.verdict, "7")
    return Tree(printable(one.benchmark), over, colour, not told, told, value="" if told else gain(over))


def _reports(found: BeforeAfter) -> Iterator[Picture]:
    rows = [one for one in found.rows if one.judgement is not None and one.judgement.enough]
    if not rows:
        return
    told = [one for one in rows if one.verdict in _COLOURS]
    said = [f"{sum(one.verdict == word for one in rows)} {word}" for word in (SLOWER, FASTER)]
    alt = f"Of {counted(len(rows), 'row')}, the head beside the base: {', '.join(said)}."
    worst = min(told, key=_size, default=None)
    if worst is not None and worst.verdict == SLOWER and worst.judgement is not None:
        alt += f" The slowest is {brief(name_of(worst))}: {spoken(worst.judgement.head_over_base)}."
    far = sorted(rows, key=lambda one: (one.verdict in _COLOURS, abs(math.log(_size(one)))), reverse=True)[:_MOST]
    trees = [_tree(one) for one in sorted(far, key=lambda one: (one.verdict not in _COLOURS, _size(one)))]
    cells = tuple((name_of(one), value_of(one, one.base), value_of(one, one.head), told_of(one)) for one in rows)
    notes = (f"The picture has the {len(trees)} largest changes.",) if len(trees) < len(rows) else ()
    table = Table("", ("", "base", "head", "speed-up"), cells, frozenset({1, 2, 3}), notes)
    yield picture(
        "changes", "stages", "What became slower, and what faster", alt, table,
        lambda sheet: draw(sheet, trees, "speed-up of the head over the base", None, _KEY),
    )  # fmt: skip


def _size(one: Row) -> float:
    return one.ratio or 1.0


def _tree(one: Row) -> Tree:
    told = one.verdict in _COLOURS
    over = one.judgement.head_over_base if one.judgement is not None else None
    return Tree(name_of(one), over, _COLOURS.get(one.verdict, "7"), not told, told, value=told_of(one))


def _study(result: StudyResult) -> Iterator[Picture]:
    shown = [row for row in result.rows if row.over_authors is not None or row.over_before is not None]
    if not shown:
        return
    trees: list[Tree] = []
    cells: list[tuple[str, ...]] = []
    for row in shown:
        ours = row.over_authors if row.author.speedup is not None and row.over_authors is not None else row.over_before
        trees.append(Tree(printable(row.name), ours, "0", claim=row.author.speedup, value=gain(ours)))
        author = f"{row.author.speedup:.2f}×" if row.author.speedup else ""
        cells.append((printable(row.name), gain(ours), author, row.outcome or ""))
    said = [text for row in shown if (text := claimed(row)) is not None]
    alt = " ".join(f"{one}." for one in said[:3]) or verdict(result)
    table = Table("", ("step", "measured here", "the author", ""), tuple(cells), frozenset({1, 2}))
    key = "Dots: measured here, with the interval. Diamonds: what the author reports." if said else ""
    title = f"{printable(result.title)}: measured{' and claimed' if said else ''}"
    yield picture(
        slug("study", result.study), "stages", title, alt, table,
        lambda sheet: draw(sheet, trees, "speed-up of each step", None, key),
    )  # fmt: skip
