"""Sync points: the lines of a training step that make the host wait for the device, found on any machine.

`examine` runs a function, `syncs` watches a loop of the user's own; both return a `SyncReport`, which `render` turns
into text. Importing this module does not import torch.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any

from pipebench import units
from pipebench.errors import PipebenchError, UsageError

if TYPE_CHECKING:
    from pipebench.watch.syncwatch import Watch

ITERATIONS = 3


@dataclass(frozen=True)
class Operation:
    """One way in which a line waits: how often a step, and the host time a step spent in it (None: not measured)."""

    name: str
    per_step: float
    lost_s: float | None = None


@dataclass(frozen=True)
class SyncPoint:
    """A line of the user's code that makes the host wait for the device.

    `per_step` counts its operations a step: 0 would be best, and every one of them empties the queue of a device
    that the host should keep filled. `confirmed` is how many waits a step the CUDA debug mode saw there (None where
    there is none to ask; 0: listed, but it did not wait).
    """

    path: str
    line: int
    per_step: float
    operations: tuple[Operation, ...]
    confirmed: float | None = None
    lost_s: float | None = None


@dataclass(frozen=True)
class CompiledRegion:
    """A function under `torch.compile`, which was run but not inspected: its name and the line that calls it."""

    name: str
    path: str
    line: int


@dataclass(frozen=True)
class SyncReport:
    """The sync points of a step.

    `device` is the one whose debug mode confirmed them; None where they are only what would synchronise, with the
    reason in `unchecked`.
    """

    function: str | None
    steps: int
    per_step: float
    device: str | None
    unchecked: str | None
    points: tuple[SyncPoint, ...]
    not_inspected: tuple[CompiledRegion, ...] = ()


def examine(
    function: Callable[[], object], *, iterations: int = ITERATIONS, device: str | None = None, name: str | None = None
) -> SyncReport:
    """Calls `function` once an iteration and lists what makes the host wait.

    With `device`, only tensors that really are on such a device count. Without, so they do if the function uses one
    (tried by one call more, which is not counted); otherwise it is examined as if all its tensors were on a device.
    """
    if iterations < 1:
        raise UsageError(f"{iterations} iterations cannot be examined.", "Ask for 1 or more.")
    from pipebench.watch.syncwatch import Watch, call, pretends

    shown = str(name or getattr(function, "__qualname__", type(function).__qualname__))
    try:
        watch = Watch(pretend=pretends(function, device), boundary=call.__code__, home=_home(function))
        with watch:
            for _ in range(iterations):
                call(function)
                watch.step()
    except PipebenchError:
        raise
    except (Exception, SystemExit) as error:
        raise PipebenchError(
            f"{units.printable(shown)} raised {type(error).__name__}: {units.printable(str(error))}",
            "Sync points are looked for while it runs: make it run through when called with no arguments.",
        ) from error
    return watch.report(shown)


def _home(function: Any) -> tuple[str, int] | None:
    """Where it is written: what a decorator or `torch.compile` wraps, or the `__call__` of an object."""
    inner = inspect.unwrap(getattr(function, "_torchdynamo_orig_callable", function))
    code = getattr(inner, "__code__", None) or getattr(type(inner).__call__, "__code__", None)
    return (code.co_filename, code.co_firstlineno) if code is not None else None


def syncs(device: str | None = None) -> Loop:
    """A context manager that lists the sync points of a loop of the user's own.

    Without `device`, only tensors that really are on one count where CUDA is present; elsewhere all count as on one.
    """
    return Loop(device)


class Loop:
    """The sync points of the loop inside a `with`.

    Call `step` at the end of every iteration, else all that happened counts as one; `report` has the result.
    """

    def __init__(self, device: str | None) -> None:
        self._device = device
        self._watch: Watch | None = None

    def __enter__(self) -> Loop:
        from pipebench.watch.syncwatch import Watch, pretends

        self._watch = Watch(pretend=pretends(None, self._device), boundary=None, home=None)
        self._watch.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open().__exit__(kind, error, trace)

    def step(self) -> None:
        """Marks the end of an iteration."""
        self._open().step()

    def report(self) -> SyncReport:
        return self._open().report(None)

    def _open(self) -> Watch:
        if self._watch is None:
            raise PipebenchError("No sync points were looked for yet.", "Use it as `with pipebench.syncs() as found:`.")
        return self._watch


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
