"""The results of `syncs`: the lines of code that make the host wait for the device."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Operation:
    """One operation by which a line waits: its count per step, and the host seconds that it loses per step.

    `lost_s` is None if that time was not measured.
    """

    name: str
    per_step: float
    lost_s: float | None = None


@dataclass(frozen=True)
class SyncPoint:
    """A line of the user's code that makes the host wait for the device.

    `per_step` is the number of waiting operations per step. The host should keep the device's queue filled, and each
    of these operations empties it, so 0 is best. `confirmed` is the number of waits per step that the CUDA debug mode
    saw at this line. None means that there was no debug mode to ask. 0 means that the line did not wait.
    """

    path: str
    line: int
    per_step: float
    operations: tuple[Operation, ...]
    confirmed: float | None = None
    lost_s: float | None = None


@dataclass(frozen=True)
class CompiledRegion:
    """A function under `torch.compile`: its name and the line that calls it. It was run but not inspected."""

    name: str
    path: str
    line: int


@dataclass(frozen=True)
class SyncReport:
    """The sync points of a step.

    `device` is the device whose debug mode checked them. If it is None, the points are operations that would
    synchronise on a device, and `unchecked` says why they were not checked.
    """

    function: str | None
    steps: int
    per_step: float
    device: str | None
    unchecked: str | None
    points: tuple[SyncPoint, ...]
    not_inspected: tuple[CompiledRegion, ...] = ()
