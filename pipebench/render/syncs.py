"""Renders sync points as parts of a report."""

from __future__ import annotations

from pipebench import units
from pipebench.render.layout import Line, Part
from pipebench.results.sync_points import CompiledRegion, SyncPoint, SyncReport

_HANGING = "    "


def parts(report: SyncReport) -> list[Part]:
    """The verdict, then one line for each sync point, then one for each compiled region that was not inspected.

    Only the lines of sync points start with `path:line:`. A line that wraps is indented.
    """
    lines = [Line(verdict(report), "bold")]
    lines += [Line(_point_line(point), hanging=_HANGING) for point in report.points]
    lines += [Line(_region_line(region), hanging=_HANGING) for region in report.not_inspected]
    return list(lines)


def _region_line(region: CompiledRegion) -> str:
    where = f"line {region.line} of {units.printable(region.path)}"
    return f"not inspected: compiled region {units.printable(region.name)}, called in {where}"


def verdict(report: SyncReport) -> str:
    count = f"{number(report.per_step)} sync point{'' if report.per_step == 1 else 's'} a step"
    if report.device is None:
        return f"{count} (would synchronise; {report.unchecked})"
    waits = sum(point.confirmed or 0.0 for point in report.points)
    lost = sum(point.lost_s or 0.0 for point in report.points)
    device = units.printable(report.device)
    return f"{count} ({device}: the debug mode saw {number(waits)} waits a step, {units.seconds(lost)} lost)"


def _point_line(point: SyncPoint) -> str:
    names = "; ".join(
        operation.name if len(point.operations) == 1 else f"{number(operation.per_step)}× {operation.name}"
        for operation in point.operations
    )
    place = f"{units.printable(point.path)}:{point.line}"
    return f"{place}: {number(point.per_step)} a step: {units.printable(names)}{_evidence(point)}"


def _evidence(point: SyncPoint) -> str:
    if point.confirmed is None:
        return ""
    seen = f"seen {number(point.confirmed)} times a step" if point.confirmed else "not seen to wait"
    return f" [{seen}{'' if point.lost_s is None else f', {units.seconds(point.lost_s)} lost'}]"


def number(value: float) -> str:
    return f"{value:.0f}" if value == int(value) else f"{value:.2f}"
