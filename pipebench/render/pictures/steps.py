"""A few steps as a timeline: which worker made which batch, and when the loop waited for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pipebench.render.cells import Table
from pipebench.render.pictures import Picture
from pipebench.render.pictures.axes import Axis, draw_x, in_unit
from pipebench.render.pictures.drawing import picture
from pipebench.render.pictures.sheet import SMALL, Box, Sheet, note, on, width_of, wrapped_chips
from pipebench.results.over_time import Timeline, TimelineSpan
from pipebench.results.report import Report
from pipebench.units import counted, percent, seconds, seconds_scale

_COLOURS = {
    "wait": "1", "step": "0", "batch": "2", "pickle": "4", "pin": "4", "work": "0", "idle": "1", "forward": "5",
    "backward": "0", "optimiser": "6", "host-to-device": "4", "other": "7", "spans": "3",
}  # fmt: skip
_NAMES = {
    "wait": "waits for a batch", "step": "trains", "batch": "a worker makes a batch", "pickle": "pickles it",
    "pin": "pins it", "work": "device works", "idle": "device idle in the wait", "forward": "forward",
    "backward": "backward", "optimiser": "optimiser", "host-to-device": "host to device", "other": "other",
    "spans": "functions of --span",
}  # fmt: skip
_STEP = 24.0


def pictures(report: Report) -> Iterator[Picture]:
    found = report.watched.timeline if report.watched is not None else None
    if found is None:
        return
    spans = tuple(one for one in found.spans if 0 <= one.track < len(found.tracks) and one.end_s > one.begin_s >= 0)
    found = replace(found, spans=spans)  # a file can hold spans of tracks that it does not name
    if not spans:
        return
    loop = found.tracks.index("loop") if "loop" in found.tracks else -1
    whole = max(one.end_s for one in found.spans)
    waits = sum(one.end_s - one.begin_s for one in found.spans if one.track == loop and one.name == "wait")
    alt = f"{counted(found.steps, 'step')} take {seconds(whole)}. In {percent(waits / whole)} of it the loop waits."
    cells = tuple(
        (found.tracks[one.track], _NAMES.get(one.name, one.name), str(one.batch), seconds(one.begin_s),
         seconds(one.end_s - one.begin_s))
        for one in sorted(found.spans, key=lambda one: (one.track, one.begin_s))
    )  # fmt: skip
    table = Table("", ("track", "what", "batch", "begins", "takes"), cells, frozenset({2, 3, 4}))
    title = f"{counted(found.steps, 'step')} of the settled part of the run"
    yield picture("timeline", "timeline", title, alt, table, lambda sheet: _draw(sheet, found, whole))


def _draw(sheet: Sheet, found: Timeline, whole: float) -> float:
    left = max(width_of(one, SMALL) for one in found.tracks) + 10
    axis = Axis(0.0, whole, left, sheet.width - 8)
    bottom = _STEP * len(found.tracks) + 2
    scale = seconds_scale([whole])
    below = draw_x(sheet, axis, 2, bottom, in_unit(scale), scale.unit)
    for place, name in enumerate(found.tracks):
        sheet.words(0, _middle(place) + 4, name, "ink" if name == "loop" else "muted", size=SMALL)
    for one in _to_their_step(found):
        x = axis.at(one[0].end_s), axis.at(one[1].begin_s)
        sheet.line((x[0], _middle(one[0].track)), (x[1], _middle(one[1].track)), colour="grid")
    for span in found.spans:
        _span(sheet, span, found.tracks[span.track], axis)
    used = [name for name in _COLOURS if any(_seen(one, name, axis) for one in found.spans)]
    if found.workers > sum(one.startswith("worker ") for one in found.tracks):
        words = f"The loader has {found.workers} workers; the others made none of these batches."
        below = note(sheet, words, below)
    return wrapped_chips(sheet, [(_COLOURS[name], _NAMES[name]) for name in used], below + 4)


def _seen(one: TimelineSpan, name: str, axis: Axis) -> bool:
    return one.name == name and axis.at(one.end_s) - axis.at(one.begin_s) >= 1


def _middle(track: int) -> float:
    return 2 + _STEP * (track + 0.5)


def _span(sheet: Sheet, one: TimelineSpan, track: str, axis: Axis) -> None:
    x, end, y = axis.at(one.begin_s), axis.at(one.end_s), _middle(one.track)
    thin = one.name == "pickle"
    tip = f"{track}, batch {one.batch}, {_NAMES.get(one.name, one.name)}: {seconds(one.end_s - one.begin_s)}"
    top, height = (y + 6, 4.0) if thin else (y - 8, 16.0 if not track.startswith("worker") else 14.0)
    sheet.add(Box(x, top, max(0.3, end - x), height, _COLOURS.get(one.name, "7"), tip=tip))
    if not thin and end - x > 3:
        sheet.line((end, top), (end, top + height), colour="page", width=0.8)
    number = str(one.batch)
    if one.name in ("batch", "step") and end - x > width_of(number, SMALL) + 4:
        sheet.words((x + end) / 2, y + 3, number, on(_COLOURS[one.name]), size=SMALL, anchor="middle")


def _to_their_step(found: Timeline) -> Iterator[tuple[TimelineSpan, TimelineSpan]]:
    """Each batch of a worker with the step that used it."""
    steps = {one.batch: one for one in found.spans if one.name == "step"}
    for one in found.spans:
        if one.name == "batch" and one.batch in steps and one.end_s <= steps[one.batch].begin_s:
            yield one, steps[one.batch]
