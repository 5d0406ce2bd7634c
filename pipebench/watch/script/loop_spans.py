"""Times the functions of `--span` and the blocks of `pipebench.span` in the loops of the script's own process.

Inside a fetch they are stages, as everything that makes a batch. In a loop they are the phase "spans".
In the rest of `next()`, as in a sampler, they are not timed: they are a part of the wait.
"""

from __future__ import annotations

import sys

from pipebench.watch.record.record_file import SPANS, WITHOUT_GRADIENTS
from pipebench.watch.script.backward import compiling
from pipebench.watch.script.phases import LoopPhases
from pipebench.watch.stages import labels


class LoopSpans:
    """The spans that each thread is in, the innermost last.

    Time is exclusive: a span is without those inside it, and without the waits, copies, backwards and steps inside it.
    """

    def __init__(self, loop: LoopPhases) -> None:
        self.loop = loop

    def install(self) -> None:
        labels.beyond_fetch.to = self
        self.loop.recording.patches.on_undo(lambda: setattr(labels.beyond_fetch, "to", None))

    def begin(self, name: str) -> bool:
        """Enters a span; false if this thread is in no loop, or waits for its next batch."""
        loop, here = self.loop, self.loop.here
        if not loop.recording.on or not here.working() or compiling():
            return False
        loop.defer()
        here.spans.append(name if here.backward or _gradients() else name + WITHOUT_GRADIENTS)
        return True

    def end(self) -> None:
        if self.loop.here.spans:
            self.loop.spend_only(SPANS)
            self.loop.here.spans.pop()


def _gradients() -> bool:
    asked = getattr(sys.modules.get("torch"), "is_grad_enabled", None)
    return asked is None or bool(asked())
