"""Sync points as text."""

from __future__ import annotations

from pipebench import units
from pipebench.render import layout
from pipebench.results.sync_points import CompiledRegion, SyncPoint, SyncReport

_LINE_NUMBER = 10  # columns for `:line:` after a path


def render(report: SyncReport, *, width: int | None = None) -> str:
    """The report as text: the verdict, then one item a sync point, which alone starts with `path:line:`.

    Without a `width` no line is wrapped, so that each can be read by a program. With one, lines wrap at words, what
    follows is indented, and a path that does not fit is shortened.
    """
    lines = [_verdict(report)]
    lines += [_point_line(point, width) for point in report.points]
    lines += [_region_line(region, width) for region in report.not_inspected]
    return "\n".join(line for one in lines for line in _wrapped(one, width)) + "\n"


def _wrapped(line: str, width: int | None) -> list[str]:
    return [line] if width is None else layout.wrapped(line, width, hanging="    ")


def _path(path: str, width: int | None) -> str:
    shown = units.printable(path)
    return shown if width is None else layout.shortened(shown, width - _LINE_NUMBER)


def _region_line(region: CompiledRegion, width: int | None) -> str:
    where = f"line {region.line} of {_path(region.path, width)}"
    return f"not inspected: compiled region {units.printable(region.name)}, called in {where}"


def _verdict(report: SyncReport) -> str:
    count = f"{_number(report.per_step)} sync point{'' if report.per_step == 1 else 's'} a step"
    if report.device is None:
        return f"{count} (would synchronise; {report.unchecked})"
    waits = sum(point.confirmed or 0.0 for point in report.points)
    lost = sum(point.lost_s or 0.0 for point in report.points)
    device = units.printable(report.device)
    return f"{count} ({device}: the debug mode saw {_number(waits)} waits a step, {units.seconds(lost)} lost)"


def _point_line(point: SyncPoint, width: int | None) -> str:
    names = "; ".join(
        operation.name if len(point.operations) == 1 else f"{_number(operation.per_step)}× {operation.name}"
        for operation in point.operations
    )
    place = f"{_path(point.path, width)}:{point.line}"
    return f"{place}: {_number(point.per_step)} a step: {units.printable(names)}{_evidence(point)}"


def _evidence(point: SyncPoint) -> str:
    if point.confirmed is None:
        return ""
    seen = f"seen {_number(point.confirmed)} times a step" if point.confirmed else "not seen to wait"
    return f" [{seen}{'' if point.lost_s is None else f', {units.seconds(point.lost_s)} lost'}]"


def _number(value: float) -> str:
    return f"{value:.0f}" if value == int(value) else f"{value:.2f}"
