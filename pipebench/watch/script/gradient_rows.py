"""Of how many rows of its largest parameter an optimiser gets a gradient: of an embedding, those of a batch only."""

from __future__ import annotations

import sys
from typing import Any

from pipebench.watch.record.program_lines import GradientRows
from pipebench.watch.record.recording import Recording

_FROM, LAST = 10, 13  # steps: of several optimisers that take turns, each is looked at
_LEAST = 1_000_000  # numbers of a parameter: a step over fewer takes no time
_ROWS, _NUMBERS = 2_000, 4_000_000  # that are looked at, evenly over all


class RowLooks:
    """Looks at gradients after some steps of the optimisers."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._steps = 0

    def stepped(self, optimiser: Any) -> None:
        self._steps += 1
        if _FROM <= self._steps <= LAST:
            self._recording.guarded("looking at gradients", self._look, optimiser)

    def _look(self, optimiser: Any) -> None:
        if (found := rows_of(optimiser)) is not None:
            self._recording.write(found)


def rows_of(optimiser: Any) -> GradientRows | None:
    """What shows of its largest parameter; None if it is small, has no dense gradient, or is on a device."""
    torch: Any = sys.modules["torch"]
    if torch._C._len_torch_dispatch_stack() or torch._C._len_torch_function_stack():
        return None  # a mode of the script's own would see what is asked here
    every: list[Any] = [one for group in optimiser.param_groups for one in group["params"]]
    largest = max(every, key=lambda one: one.numel(), default=None)
    if largest is None or largest.dim() != 2 or largest.numel() < _LEAST:
        return None
    gradient = largest.grad
    if gradient is None or type(gradient) is not torch.Tensor or not gradient.is_cpu:
        return None
    if gradient.layout is not torch.strided:
        return None
    with torch.no_grad():
        some = gradient[:: max(1, len(gradient) // min(_ROWS, max(1, _NUMBERS // gradient.shape[1])))]
        touched = int((some != 0).any(1).sum())
    numbers = sum(one.numel() for one in every)
    return GradientRows(type(optimiser).__name__, numbers, largest.numel(), len(gradient), len(some), touched)
