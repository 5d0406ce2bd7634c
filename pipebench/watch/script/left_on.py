"""Tools of torch for finding faults and costs that a training may have left on: each step is slower with them."""

from __future__ import annotations

import sys
from typing import Any

from pipebench.watch.record.program_lines import LeftOn
from pipebench.watch.record.recording import Recording

_AT = (10, 60)  # steps: a profiler with a schedule may record only the first ones


class LeftOnTools:
    """Looks at these tools after a few steps of the optimisers, and writes which are on. The last look counts."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._steps = 0
        self._wrote = False

    def stepped(self) -> None:
        self._steps += 1
        if self._steps in _AT:
            self._recording.guarded("looking at torch's tools", self._look)

    def _look(self) -> None:
        if (found := tools_on()) or self._wrote:
            self._recording.write(LeftOn(found))
            self._wrote = True


def tools_on() -> list[str]:
    """The names of the tools that are on now."""
    torch: Any = sys.modules["torch"]
    found = {"anomaly-detection": torch.is_anomaly_enabled(), "profiler": torch.autograd._profiler_enabled()}
    return [name for name, on in found.items() if on]
