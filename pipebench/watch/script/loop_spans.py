"""Times the functions of `--span` and the blocks of `pipebench.span` in the loops of the script's own process.

Inside a fetch they are stages, as everything that makes a batch. In a loop they are the phase "spans".
"""

from __future__ import annotations

from pipebench.watch.record.record_file import SPANS
from pipebench.watch.script.backward import compiling
from pipebench.watch.script.phases import LoopPhases
from pipebench.watch.stages import labels


class LoopSpans:
    """The spans that each thread is in, the innermost last. Time is exclusive: a span is without those inside it."""

    def __init__(self, loop: LoopPhases) -> None:
        self.loop = loop

    def install(self) -> None:
        labels.beyond_fetch.to = self
        self.loop.recording.patches.on_undo(lambda: setattr(labels.beyond_fetch, "to", None))

    def begin(self, name: str) -> bool:
        """Enters a span; false if this thread is in no loop."""
        loop, here = self.loop, self.loop.here
        if not loop.recording.on or not here.open or compiling():
            return False
        if here.spans:
            self._spend(here.spans[-1])
        else:
            loop.defer()
        here.spans.append(name)
        return True

    def end(self) -> None:
        if self.loop.here.spans:
            self._spend(self.loop.here.spans.pop())

    def _spend(self, name: str) -> None:
        """The time since the last event was in this span. What came before it still waits for its name."""
        loop, here = self.loop, self.loop.here
        before, unnamed, here.unnamed = here.mark, here.unnamed, 0
        loop.spend(SPANS)
        here.unnamed = unnamed
        if here.open:
            spans = here.open[-1].spans
            spans[name] = spans.get(name, 0) + here.mark - before
