"""Sync points that were found: the lines that make the host wait for the device."""

from __future__ import annotations

from dataclasses import dataclass


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
