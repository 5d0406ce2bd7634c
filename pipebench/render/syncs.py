"""Sync points as text."""

from __future__ import annotations

from pipebench import units
from pipebench.results.sync_points import SyncPoint, SyncReport


def render(report: SyncReport) -> str:
    """The report as text: the verdict, then one line a sync point, which alone starts with `path:line:`."""
    lines = [_verdict(report)]
    lines += [_point_line(point) for point in report.points]
    lines += [
        f"not inspected: compiled region {region.name}, called in line {region.line} of {region.path}"
        for region in report.not_inspected
    ]
    return "\n".join(lines) + "\n"


def _verdict(report: SyncReport) -> str:
    count = f"{_number(report.per_step)} sync point{'' if report.per_step == 1 else 's'} a step"
    if report.device is None:
        return f"{count} (would synchronise; {report.unchecked})"
    waits = sum(point.confirmed or 0.0 for point in report.points)
    lost = sum(point.lost_s or 0.0 for point in report.points)
    device = units.printable(report.device)
    return f"{count} ({device}: the debug mode saw {_number(waits)} waits a step, {units.seconds(lost)} lost)"


def _point_line(point: SyncPoint) -> str:
    names = "; ".join(
        operation.name if len(point.operations) == 1 else f"{_number(operation.per_step)} x {operation.name}"
        for operation in point.operations
    )
    return f"{point.path}:{point.line}: {_number(point.per_step)} a step: {units.printable(names)}{_evidence(point)}"


def _evidence(point: SyncPoint) -> str:
    if point.confirmed is None:
        return ""
    seen = f"does synchronise ({_number(point.confirmed)} a step)" if point.confirmed else "would synchronise, not seen"
    return f" [{seen}{'' if point.lost_s is None else f', {units.seconds(point.lost_s)} lost'}]"


def _number(value: float) -> str:
    return f"{value:.0f}" if value == int(value) else f"{value:.2f}"
