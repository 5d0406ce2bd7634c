"""What every check is made of: the mark by which it is found, and the findings that it can return."""

from __future__ import annotations

from collections.abc import Callable

from pipebench.doctor.host import Host
from pipebench.results.examination import Finding

Check = Callable[[Host], Finding]
CHECKS: dict[str, Check] = {}  # by the name that the user reads, in the order of their modules


class NotKnown(Exception):
    """Raised by a check that cannot tell. The text says why."""


def check(function: Check) -> Check:
    """Marks a check. Its name is that of the function: `shared_memory` is "shared memory"."""
    CHECKS[function.__name__.replace("_", " ")] = function
    return function


def fine(found: str, **facts: float | str) -> Finding:
    return Finding("", "fine", found, facts=facts)


def know(found: str, matters: str, remedy: str, command: str = "", **facts: float | str) -> Finding:
    """It may cost something, or it changes what a measurement tells."""
    return Finding("", "worth-knowing", found, matters, remedy, command, facts)


def hurts(found: str, matters: str, remedy: str, command: str = "", **facts: float | str) -> Finding:
    """It costs every training run here, or ends it."""
    return Finding("", "will-hurt", found, matters, remedy, command, facts)
