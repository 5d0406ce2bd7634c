"""Tools of torch for finding faults and costs that a training may have left on: each step is slower with them."""

from __future__ import annotations

import sys
from typing import Any

from pipebench.watch.record.program_lines import LeftOn
from pipebench.watch.record.recording import Recording

_AT = (10, 23, 60, 137, 300)  # steps, at no regular distance: a profiler with a schedule records some of them only


class LeftOnTools:
    """Looks at these tools after some steps of the optimisers. From the second look on, writes which were always on."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._steps = 0
        self._on: set[str] | None = None

    def stepped(self) -> None:
        self._steps += 1
        if self._steps in _AT:
            self._recording.guarded("looking at torch's tools", self._look)

    def _look(self) -> None:
        before = self._on
        self._on = tools_on() if before is None else before & tools_on()
        if before:
            self._recording.write(LeftOn(sorted(self._on)))


def tools_on() -> set[str]:
    """The names of the tools that are on now."""
    torch: Any = sys.modules["torch"]
    found = {"anomaly-detection": torch.is_anomaly_enabled(), "profiler": torch.autograd._profiler_enabled()}
    return {name for name, on in found.items() if on}
