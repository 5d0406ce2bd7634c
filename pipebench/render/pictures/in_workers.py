"""What the workers do: the stages of a sample as one bar for each worker, and the ceiling where it is known."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pipebench.render.cells import Table
from pipebench.render.pictures import Picture
from pipebench.render.pictures.axes import Row, draw_below, draw_mark, in_unit, reaching, rows
from pipebench.render.pictures.drawing import brief, picture
from pipebench.render.pictures.sheet import SMALL, Box, Sheet, on, width_of, wrapped_chips
from pipebench.render.watch import kind_of
from pipebench.results.measurement import Ceiling
from pipebench.results.report import Report
from pipebench.results.watched import StageResult, WatchResult, WorkerResult
from pipebench.units import counted, percent, printable, seconds, seconds_scale

_LEAST = 0.02  # of a sample: smaller stages are one together
_STAGES = 7
_WORKERS = 12
_KINDS = {"read": "5", "decode": "1", "crop": "3", "transform": "0", "collate": "2", "getitem": "7"}
_OTHERS = ("4", "6", "3", "5", "2", "0")
_REST = "7"
_DECODES = ("decode", "crop")


@dataclass(frozen=True)
class _Part:
    """A stage, or the small ones together: its seconds a sample, over all workers and in each."""

    name: str
    s: float
    by_worker_s: tuple[float, ...]
    colour: str


def pictures(report: Report) -> Iterator[Picture]:
    result = report.watched or (report.training.watched if report.training else None)
    if result is None:
        return
    for loader in result.loaders_in_loop:
        stages = [one for one in result.stages if one.loader == loader and one.kind != "serialise"]
        if sum(one.exclusive_s_per_sample for one in stages):
            workers = [one for one in result.workers if one.loader == loader]
            yield _picture(report, result, loader, _parts(stages), workers)
            return


def _picture(
    report: Report, result: WatchResult, loader: int, parts: list[_Part], workers: Sequence[WorkerResult]
) -> Picture:
    total = sum(one.s for one in parts)
    largest = max(parts, key=lambda one: one.s)
    busy = sum(one.busy_share for one in workers) / len(workers) if workers else None
    ceiling = _ceiling(report, result)
    alt = (
        f"A sample takes {'a worker' if workers else 'the loop'} {seconds(total)}. The largest part is "
        f"{brief(largest.name)}: {seconds(largest.s)} ({percent(largest.s / total)})."
    )
    if busy is not None:
        alt += f" {counted(len(workers), 'worker is', 'workers are')} busy {percent(busy)} of the time."
    scale = seconds_scale([total])
    cells = tuple((one.name, scale.number(one.s), percent(one.s / total, 1)) for one in parts)
    table = Table("", ("stage", f"{scale.unit} a sample", "share"), cells, frozenset({1, 2}))
    title = "What the workers do" if workers else "What makes a batch"
    return picture("workers", "workers", title, alt, table, lambda sheet: _draw(sheet, parts, workers, ceiling))


def _parts(stages: Sequence[StageResult]) -> list[_Part]:
    """The stages in the order of their size; the small ones are one together, at the end."""
    total = sum(one.exclusive_s_per_sample for one in stages)
    ordered = sorted(stages, key=lambda one: -one.exclusive_s_per_sample)
    large = [one for one in ordered[:_STAGES] if one.exclusive_s_per_sample >= _LEAST * total]
    small = [one for one in ordered if one not in large]
    free = [one for one in _OTHERS if one not in [_KINDS.get(stage.kind) for stage in large]] + list(_OTHERS)
    used: set[str] = set()
    parts = []
    for one in large:
        colour = _KINDS.get(one.kind, "")
        if not colour or colour in used:
            colour = next((other for other in free if other not in used), _REST)
        used.add(colour)
        name = one.name if one.kind in (one.name, "getitem") else f"{one.name} ({kind_of(one)})"
        parts.append(_Part(printable(name), one.exclusive_s_per_sample, one.by_worker_s, colour))
    if small:
        name = f"{len(small)} smaller stages" if len(small) > 1 else printable(small[0].name)
        each = [one.by_worker_s for one in small]
        together = tuple(map(sum, zip(*each, strict=True))) if len({len(one) for one in each}) == 1 else ()
        parts.append(_Part(name, sum(one.exclusive_s_per_sample for one in small), together, _REST))
    return parts


def _ceiling(report: Report, result: WatchResult) -> Ceiling | None:
    """The ceiling of the largest stage that this report measured: the decoder's, beside a loop of the lab's stages."""
    lab = report.training is not None and result is report.training.watched
    found = (one for one in report.ceilings if one.task == "decode/rgb" and one.bounds and one.samples_per_s)
    return next(found, None) if lab and any(one.kind in _DECODES for one in result.stages) else None


def _draw(sheet: Sheet, parts: list[_Part], workers: Sequence[WorkerResult], ceiling: Ceiling | None) -> float:
    bars = _bars(parts, workers)
    top = 16.0 if ceiling else 2.0
    laid = rows(sheet, [Row(name, value, False) for name, value, _ in bars], top, most=0.2)
    axis = reaching([sum(values) for _, _, values in bars], laid.begin, laid.end)
    scale = seconds_scale([axis.high])
    below = draw_below(sheet, axis, laid, in_unit(scale), f"{scale.unit} a sample, in one worker")
    for (name, _, values), y in zip(bars, laid.middles, strict=True):
        begin = 0.0
        for part, value in zip(parts, values, strict=True):
            x, end = axis.at(begin), axis.at(begin + value)
            sheet.add(Box(x, y - 9, end - x, 18, part.colour, tip=f"{name}, {part.name}: {seconds(value)} a sample"))
            share = percent(value / sum(values)) if sum(values) else ""
            if end - x > width_of(share, SMALL, bold=True) + 8:
                sheet.words((x + end) / 2, y + 4, share, on(part.colour), size=SMALL, anchor="middle", bold=True)
            if begin:
                sheet.line((x, y - 9), (x, y + 9), colour="page", width=1.2)
            begin += value
    if ceiling is not None and ceiling.samples_per_s:
        at = axis.at(1 / ceiling.samples_per_s)
        draw_mark(sheet, laid, at, "ink", dashed=True)
        text = f"decoding cannot take less: {seconds(1 / ceiling.samples_per_s)}"
        sheet.words(min(at, sheet.width - width_of(text, SMALL)), 11, text, size=SMALL)
    return wrapped_chips(sheet, [(one.colour, f"{one.name} · {seconds(one.s)}") for one in parts], below + 6)


def _bars(parts: list[_Part], workers: Sequence[WorkerResult]) -> list[tuple[str, str, list[float]]]:
    """The bars with their names and how busy each worker is. Of many workers: the mean, and both ends."""
    mean = [one.s for one in parts]
    count = len(workers)
    if not count or any(len(one.by_worker_s) != count for one in parts):
        busy = f"busy {percent(sum(one.busy_share for one in workers) / count)}" if count else ""
        return [(f"{count} workers" if count > 1 else "worker" if count else "the loop", busy, mean)]
    every = [
        (f"worker {one.worker}", f"busy {percent(one.busy_share)}", [part.by_worker_s[place] for part in parts])
        for place, one in enumerate(workers)
    ]
    every = [one for one in every if sum(one[2])]
    if len(every) <= _WORKERS:
        return every
    ranked = sorted(every, key=lambda one: sum(one[2]))
    return [(f"mean of {count}", "", mean), *ranked[:2], *ranked[-4:]]
