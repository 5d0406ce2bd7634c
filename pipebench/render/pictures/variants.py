"""The lab: what each variant of a task costs, with its interval, and the ceiling of this machine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pipebench.render.cells import Table, gain, spread
from pipebench.render.gains import as_fast, fit
from pipebench.render.pictures import Picture
from pipebench.render.pictures.axes import Row, draw_below, draw_mark, in_unit, reaching, rows
from pipebench.render.pictures.drawing import brief, picture, slug
from pipebench.render.pictures.sheet import SMALL, Dot, Sheet, width_of, wrapped_chips
from pipebench.results.measurement import Ceiling, Measurement
from pipebench.results.report import Report
from pipebench.results.usual_pipeline import fastest, ties
from pipebench.units import printable, seconds, seconds_scale

_MOST = 20  # rows of a task
_KEPT_FARTHEST = 5.0  # times the cheapest: dearer rows lie at the edge, with their figure


def pictures(report: Report) -> Iterator[Picture]:
    for task in dict.fromkeys(one.task for one in report.measurements):
        found = [
            one for one in report.measurements if one.task == task and one.summary and one.work and one.work.samples
        ]
        if len(found) > 1:
            ceiling = next(
                (one for one in report.ceilings if one.task == task and one.bounds and one.samples_per_s), None
            )
            bounds = any(one.fraction_of_ceiling for one in found if not one.samples_unfit)
            part = any(one.samples_unfit for one in found)  # then the ceiling may be that of these files alone
            best = fastest(found, task)
            fast = [best, *ties(found, best)] if best is not None else []
            yield _task(task, found, fast, ceiling if bounds or not part else None)


def cost(one: Measurement) -> tuple[float, float, float]:
    """Seconds of a sample, with its interval."""
    assert one.summary is not None and one.work is not None
    samples = one.work.samples
    return one.summary.median_s / samples, one.summary.low_s / samples, one.summary.high_s / samples


def _task(task: str, found: Sequence[Measurement], fast: Sequence[Measurement], ceiling: Ceiling | None) -> Picture:
    """`fast`: the fastest that gives nothing up, and those not told from it. Empty: each gives something up."""
    ordered = sorted(found, key=lambda one: cost(one)[0])
    limit = 1 / ceiling.samples_per_s if ceiling is not None and ceiling.samples_per_s else None
    alt = _finding(task, ordered[0], fast)
    alt += f"; the ceiling is {seconds(limit)}" if limit else ""
    alt += ", which does not bound it, because it does less work." if _less_work(fast, ceiling) else "."
    scale = seconds_scale([cost(ordered[0])[0]])
    cells = tuple(
        (printable(_name(one)), scale.number(cost(one)[0]), spread(one.summary), gain(one.over_reference),
         printable(one.gives_up or ""))
        for one in ordered
        if one.summary is not None
    )  # fmt: skip
    headers = ("variant", f"{scale.unit} a sample", "", "× reference", "gives up")
    notes = [as_fast(fast[0], fast[1:])] if fast[1:] else []
    notes += [f"The picture has the {_MOST} fastest."] if len(ordered) > _MOST else []
    table = Table("", headers, cells, frozenset({1, 2, 3}), tuple(notes))
    title = f"{task}: what each variant costs"
    return picture(
        slug("cost", task), "stages", title, alt, table,
        lambda sheet: _draw(sheet, ordered[:_MOST], fast, ceiling, limit),
    )  # fmt: skip


def _finding(task: str, first: Measurement, fast: Sequence[Measurement]) -> str:
    """The fastest variant, unless others are not told from it; without any, the `first` of all."""
    one = fast[0] if fast else first
    over, costs = one.over_reference, f"{seconds(cost(one)[0])} a sample"
    costs += f", {gain(over)} of the reference" if over is not None and over.told else ""
    if not fast:
        return f"{brief(task)}: each variant gives something up; {brief(one.variant)} takes {costs}"
    if fast[1:]:
        return f"{as_fast(one, fast[1:])}; {brief(one.variant)} takes {costs}"
    return f"{brief(task)}: {brief(one.variant)} is the fastest that gives nothing up, {costs}"


def _name(one: Measurement) -> str:
    """A variant, and of how many files its cost is, if it is not made for all."""
    return f"{one.variant} ({fit(one)} files)" if one.samples_unfit else one.variant


def _colour(one: Measurement, fast: Sequence[Measurement], ceiling: Ceiling | None) -> str:
    if one in fast:
        return "2"
    return "7" if one.gives_up or _is_unbound(one, ceiling) else "0"


def _is_unbound(one: Measurement, ceiling: Ceiling | None) -> bool:
    """Whether a ceiling is drawn that does not bound this variant: it does less work than the ceiling is of."""
    return ceiling is not None and one.fraction_of_ceiling is None


def _less_work(fast: Sequence[Measurement], ceiling: Ceiling | None) -> bool:
    return bool(fast) and _is_unbound(fast[0], ceiling)


def _draw(
    sheet: Sheet,
    ordered: Sequence[Measurement],
    fast: Sequence[Measurement],
    ceiling: Ceiling | None,
    limit: float | None,
) -> float:
    costs = [cost(one) for one in ordered]
    scale = seconds_scale([costs[0][0]])
    words = [
        Row(_name(one), scale.text(middle), one in fast) for one, (middle, _, _) in zip(ordered, costs, strict=True)
    ]
    laid = rows(sheet, words, 16.0 if limit else 2.0, step=22.0)
    farthest = _KEPT_FARTHEST * max(costs[0][0], limit or 0.0)
    near = [high for middle, _, high in costs if middle <= farthest]
    axis = reaching([*near, limit or 0.0], laid.begin, laid.end)
    below = draw_below(sheet, axis, laid, in_unit(scale), f"{scale.unit} a sample")
    if limit and ceiling is not None:
        at, text = axis.at(limit), f"ceiling: {ceiling.resource}, {scale.text(limit)}"
        draw_mark(sheet, laid, at, "1", dashed=True)
        sheet.words(max(0.0, min(at, sheet.width - width_of(text, SMALL))), 11, text, "1", size=SMALL)
    for one, (middle, low, high), y in zip(ordered, costs, laid.middles, strict=True):
        colour = _colour(one, fast, ceiling)
        tip = f"{one.variant}: {seconds(middle)} ({seconds(low)} to {seconds(high)})"
        if middle > axis.high:
            sheet.words(axis.end, y + 4, "→", colour, anchor="end")
            continue
        sheet.line((axis.at(low), y), (axis.at(high), y), colour=colour, width=1.8)
        sheet.add(Dot(axis.at(middle), y, colour, 4.0, tip=tip))
    return _key(sheet, ordered, fast, ceiling, below)


def _key(
    sheet: Sheet, ordered: Sequence[Measurement], fast: Sequence[Measurement], ceiling: Ceiling | None, below: float
) -> float:
    beyond = ", with less work than the ceiling is of" if _less_work(fast, ceiling) else ""
    best = "not told from the fastest that gives nothing up" if fast[1:] else "fastest that gives nothing up"
    chips = [("2", f"{best}{beyond}")] if fast else []
    if any(_colour(one, fast, ceiling) == "7" for one in ordered):
        chips.append(("7", "does less work, so the ceiling does not bound it" if ceiling else "gives something up"))
    return wrapped_chips(sheet, chips, below + 2)
