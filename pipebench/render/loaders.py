"""Renders loaders side by side: who leads each task and why, a table for each, and what each loader gives up. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pipebench.render.cells import Table, spoken
from pipebench.render.layout import Line, Part, Spare, Sparing
from pipebench.results.loaders import (
    FILTERS,
    Figure,
    Filter,
    Lead,
    LoaderResult,
    SideBySide,
    lead,
    speedup,
)
from pipebench.stats import LEAST_TOLD
from pipebench.units import bytes_scale, counted, printable, seconds_scale, width

_TASKS: dict[Filter, str] = {"antialiased": "With antialiasing", "not antialiased": "Without antialiasing"}
_FEW = 2  # loaders whose reasons the short page has room for
_ORDERS = {"whole": "shuffled", "buffer": "in a buffer", "none": "none"}


def parts(found: SideBySide, full: bool = False) -> Iterator[Sparing]:
    """Who leads, why, the tables, and for each loader what it does and gives up, with its source."""
    yield from (Line(line, "bold") for line in verdict(found))
    for task in FILTERS:
        yield from (Line(line, hanging="  ") for line in _why(found, task))
    for task in FILTERS:
        rows = [one for one in found.of(task) if one.measured]
        if rows:
            yield _table(rows, task)
    yield from _refused(found)
    yield from _not_run(found, full)
    if any(one.rounds for one in found.results):
        yield Spare(("", *_notes(found)), 2)
    yield Spare(("", *_each(found)), 1)


def verdict(found: SideBySide) -> list[str]:
    """A sentence for each task: who leads it in images per core-second, and by how much; then by the clock."""
    said = []
    for task in FILTERS:
        best = lead(found.of(task), "cpu")
        if best is None:
            continue
        by_clock = lead(found.of(task), "wall")
        said.append(f"{_TASKS[task]}, {_leads(best)}{_by_clock(best, by_clock)}")
    return [*(said or [_not_compared(found)]), *_few_rounds(found)]


def _not_compared(found: SideBySide) -> str:
    """Why nobody is said to lead, and what to do."""
    begun = list(dict.fromkeys(printable(one.name) for one in found.results if one.rounds and not one.baseline))
    if len(begun) > 1:
        return "Too few rounds were measured to say who leads: let it run to its end."
    if begun:
        return f"Only one loader was measured ({begun[0]}), so none leads: name another --loader beside it."
    if any(one.rounds for one in found.results):
        return "Only the loop without a loader was measured: name a --loader beside it."
    return "No loader was measured."


def _few_rounds(found: SideBySide) -> Iterator[str]:
    counts = [len(one.rounds) for one in found.results if one.measured]
    if counts and max(counts) < LEAST_TOLD:
        yield (
            f"{counted(max(counts), 'round')} give no interval, so no difference can be told: "
            f"--rounds {LEAST_TOLD} or more do."
        )


def _leads(best: Lead) -> str:
    rate = best.leader.rate("cpu")
    interval = f" ({width(rate.median, rate.low, rate.high)})" if best.leader.told else ""
    figure = f"{rate.median:,.0f} images per core-second{interval}"
    name = printable(best.leader.name)
    if best.level:
        return f"no loader leads for certain: {name} has {figure}, and {_names(best.level)} may be as fast."
    assert best.behind is not None and best.over is not None
    return f"{name} leads: {figure}, {spoken(best.over)} the rate of {printable(best.behind.name)}, the next."


def _by_clock(best: Lead, clock: Lead | None) -> str:
    if clock is None:
        return ""
    if clock.leader.name == best.leader.name and not clock.level:
        return " It leads by the clock, too."
    if clock.level:
        return f" By the clock, {_names([clock.leader, *clock.level])} cannot be told apart."
    return f" By the clock, {printable(clock.leader.name)} leads."


def _names(rows: Sequence[LoaderResult]) -> str:
    names = [printable(one.name) for one in rows]
    if len(names) > 4:
        names = [*names[:3], f"{len(names) - 3} more"]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _why(found: SideBySide, task: Filter) -> Iterator[str]:
    """Why the leader is ahead of the next: other work, or the same work and another hand-off."""
    rows = found.of(task)
    best = lead(rows, "cpu")
    if best is None:
        return
    other = best.behind or best.level[0]
    ours, theirs = (1 / one.rate("cpu").median for one in (best.leader, other))
    scale = seconds_scale([ours, theirs])
    cost = f"{scale.text(ours)} of CPU an image beside {scale.text(theirs)} of {printable(other.name)}"
    names = printable(best.leader.name), printable(other.name)
    if best.leader.does != other.does:
        yield (
            f"Why, {_TASKS[task].lower()}: other work, {cost}. {names[0]}: {printable(best.leader.does)}; "
            f"{names[1]}: {printable(other.does)}.{_price(best.leader)}"
        )
        return
    loop = next((one for one in rows if one.baseline and one.measured and one.does == best.leader.does), None)
    bare = f" The work alone, in a loop, takes {scale.text(1 / loop.rate('cpu').median)}." if loop else ""
    differs = "another hand-off" if best.behind is not None else "no difference for certain"
    why = f"Why, {_TASKS[task].lower()}: the same work, and {differs}: in all {cost}."
    yield f"{why}{bare}{_price(best.leader)}"


def _price(leader: LoaderResult) -> str:
    return f" {printable(leader.name)} gives up {printable(leader.gives_up)}." if leader.gives_up else ""


def _table(rows: Sequence[LoaderResult], task: Filter) -> Table:
    firsts, memory = [_first(one) for one in rows], [_memory(one) for one in rows]
    first_scale, memory_scale = seconds_scale(firsts), bytes_scale([one for one in memory if one])
    cells = []
    for row, first, held in zip(rows, firsts, memory, strict=True):
        cells.append(
            (
                printable(row.name) + (" *" if row.baseline else ""),
                *_rate(row, "cpu"),
                _behind(row, rows),
                *_rate(row, "wall"),
                first_scale.number(first),
                memory_scale.number(held) if held else "",
                _order(row),
            )
        )
    headers = ("loader", "img/core-s", "±", "× first", "img/s", "±", f"first, {first_scale.unit}",
               f"mem, {memory_scale.unit}", "order")  # fmt: skip
    title = f"{_TASKS[task]}"
    return Table(title, headers, tuple(cells), frozenset(range(1, 8)), spare=(5, 8, 6, 2))


def _rate(row: LoaderResult, figure: Figure) -> tuple[str, str]:
    found = row.rate(figure)
    return f"{found.median:,.0f}", width(found.median, found.low, found.high).lstrip("±") if row.told else ""


def _behind(row: LoaderResult, rows: Sequence[LoaderResult]) -> str:
    """The row beside the first that is a loader, as a speed-up; `~` where no difference can be told."""
    first = next((one for one in rows if not one.baseline), row)
    over = speedup(row, first, "cpu") if row is not first else None
    if over is None:
        return "1" if row is first else ""
    return f"{over.speedup:.2f}" if over.told else "~"


def _first(row: LoaderResult) -> float:
    found = sorted(one.first_batch_s for one in row.rounds)
    return found[len(found) // 2]


def _memory(row: LoaderResult) -> int | None:
    return max((one.memory_bytes for one in row.rounds if one.memory_bytes), default=None)


def _order(row: LoaderResult) -> str:
    if row.order is None:
        return ""
    return _ORDERS[row.order] + (", repeats" if row.repeats else "")


def _refused(found: SideBySide) -> Iterator[Part]:
    for one in found.results:
        if one.refused is not None:
            yield ""
            yield Line(f"Refused: {printable(one.name)}, {one.filter}: {printable(one.refused)}.", hanging="  ")


def _not_run(found: SideBySide, full: bool) -> Iterator[Sparing]:
    """Each loader that did not run, with its reason. On a short page, those that are not installed share a line."""
    reasons = {one.name: one.skipped for one in found.results if one.skipped is not None}
    lines = [Line(f"  {printable(name)}: {printable(reason)}", hanging="  ") for name, reason in reasons.items()]
    if not lines:
        return
    named = full or len(lines) <= _FEW or not any(one.rounds for one in found.results)
    yield ""
    yield Line(
        f"Not measured: {', '.join(map(printable, reasons))}{'.' if named else ' (--full says why).'}", hanging="  "
    )
    yield from lines if named else [Spare(tuple(lines), 1)]


def _notes(found: SideBySide) -> Iterator[Part]:
    different = "" if found.different == found.images else f" ({found.different:,} different ones)"
    yield (
        f"{printable(found.data)}: {found.images:,} images a pass{different}, random resized crops of {found.side}, "
        f"uint8 batches of {found.batch_size}, {counted(found.cores, 'core')}, {counted(found.rounds, 'round')}."
    )
    yield (
        "img/core-s: images per second of CPU of the whole process tree. img/s: by the clock, until nothing works "
        "ahead. ×: the rate beside that of the first loader; ~ means no difference can be told. first: from making "
        "the loader to its first batch. order: as it was seen; repeats: equal in fresh processes with one seed."
    )
    if any(one.baseline for one in found.results):
        yield "* no loader: one thread that reads, decodes and stacks. It cannot lead."


def _each(found: SideBySide) -> Iterator[Part]:
    """What each loader is, does and gives up, and the page that it is written after."""
    for name in dict.fromkeys(one.name for one in found.results):
        rows = [one for one in found.results if one.name == name]
        first = rows[0]
        version = f" ({printable(first.library)})" if first.library else ""
        yield Line(f"{printable(name)}: {printable(first.title)}{version}", hanging="  ")
        does = dict.fromkeys(f"{one.filter}: {one.does}" for one in rows)
        yield Line(f"  does {printable('; '.join(does))}", hanging="  ")
        if first.gives_up:
            yield Line(f"  gives up {printable(first.gives_up)}", hanging="  ")
        if not first.baseline:
            resumed = printable(first.resumes) if first.resumes else "cannot"
            yield Line(f"  goes on in the middle of a pass: {resumed}", hanging="  ")
        if first.source:
            yield Line(f"  {printable(first.source)}", address=True)
