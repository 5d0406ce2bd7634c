"""The result of `doctor`: what of a machine spoils a measurement or a training run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Level = Literal["will-hurt", "worth-knowing", "not-known", "fine"]


@dataclass(frozen=True)
class Finding:
    """What one check found, why it matters for training, and what to do about it.

    `check` names the check. `command` can be copied; it is empty where no one command does it. `facts` are the figures
    behind it, in base units (bytes, seconds, counts). What is fine has neither reason nor remedy; of what is not known,
    `found` says why.
    """

    check: str
    level: Level
    found: str
    matters: str = ""
    remedy: str = ""
    command: str = ""
    facts: dict[str, float | str] = field(default_factory=dict)


@dataclass(frozen=True)
class Examination:
    """Every finding, in the order of the checks. `data` is the folder whose storage was looked at."""

    findings: tuple[Finding, ...]
    data: str
    took_s: float

    def of(self, level: Level) -> tuple[Finding, ...]:
        return tuple(one for one in self.findings if one.level == level)

    @property
    def hurts(self) -> bool:
        """Whether anything found will hurt training. Then `doctor` ends with status 1."""
        return bool(self.of("will-hurt"))
