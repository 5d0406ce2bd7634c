"""Tells by looks at a loop whether its forward keeps graphs for gradients, and whether something uses them there.

Whether gradients are on cannot be asked for another thread. But what a module inside a model gets then has a graph. A
loop that does not train, as of validation, has no use for it, unless it asks for gradients itself, as of forces.
"""

from __future__ import annotations

import os
from itertools import takewhile
from types import FrameType

from pipebench.watch.script.frozen_modules import tensors_in
from pipebench.watch.script.loop_place import Call, module_calls, outwards
from pipebench.watch.script.unused_gradients import plain_tensors

_ENGINE = f"{os.sep}torch{os.sep}autograd{os.sep}"
_FUNCTIONS = ("grad", "backward", "_engine_run_backward")


class UnusedGraphs:
    """What looks at one loop have found: `kept` in a model with a graph, and `used` at the computing of gradients."""

    def __init__(self) -> None:
        self.kept = self.used = 0

    def note(self, frame: FrameType | None, loop: int) -> None:
        """Counts a look. `loop` is the frame of the loop by its identity."""
        inside = takewhile(lambda one: id(one) != loop, outwards(frame))
        if any(_ENGINE in one.f_code.co_filename and one.f_code.co_name in _FUNCTIONS for one in inside):
            self.used += 1
        else:
            with plain_tensors():
                self.kept += any(_has_graph(one) for one in module_calls(frame, loop))

    def take(self) -> tuple[int, int]:
        taken = self.kept, self.used
        self.kept = self.used = 0
        return taken


def _has_graph(call: Call) -> bool:
    """Whether an input of the module was computed from what requires a gradient. A weight itself is no such input."""
    given = call.frame.f_locals
    return any(one.requires_grad and not one.is_leaf for one in tensors_in((given["args"], given["kwargs"])))
