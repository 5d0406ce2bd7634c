"""What a training may have left on that makes each step slower: tools of torch for finding faults and costs.

So does float16 on a CPU that has no instructions for it, as where autocast is written for a device, and float64.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from pipebench.watch.record.program_lines import LeftOn
from pipebench.watch.record.recording import Recording
from pipebench.watch.script.unused_gradients import UnusedGradients

_AT = (3, 10, 23, 60, 137, 300)  # steps, at no regular distance: a profiler with a schedule records some of them only
LAST = _AT[-1]
_HALF = ("avx512_fp16", "amx_fp16", "asimdhp", "fphp")  # flags of x86 and of ARM


class LeftOnTools:
    """Looks at these tools after some steps of the optimisers. From the second look on, writes which were always on."""

    def __init__(self, recording: Recording, gradients: UnusedGradients) -> None:
        self._recording, self._gradients = recording, gradients
        self._steps = 0
        self._on: set[str] | None = None

    def stepped(self) -> None:
        self._steps += 1
        if self._steps in _AT:
            self._recording.guarded("looking at torch's tools", self._look)

    def _look(self) -> None:
        before, now = self._on, tools_on()
        kind = self._gradients.computed_in
        now |= {kind} if kind == "float64" or (kind == "float16" and not computes_half()) else set()
        self._on = now if before is None else before & now
        if before is None and (last := self._gradients.last_layer) is not None:
            self._recording.write(last)
        if before:
            self._recording.write(LeftOn(sorted(self._on)))


def tools_on() -> set[str]:
    """The names of the tools that are on now."""
    torch: Any = sys.modules["torch"]
    found = {"anomaly-detection": torch.is_anomaly_enabled(), "profiler": torch.autograd._profiler_enabled()}
    return {name for name, on in found.items() if on}


def computes_half(told: Path = Path("/proc/cpuinfo")) -> bool:
    """Whether this CPU has instructions for float16; also where that is not known."""
    try:
        words = {*told.read_text().split()}
    except OSError:
        return True
    return not words.isdisjoint(_HALF)
