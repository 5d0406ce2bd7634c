"""Finds the loop of a script that trains without a DataLoader, as `x, y = get_batch()` in a `while`.

Nothing is called at the begin of an iteration that could be watched. So an iteration ends where the optimiser that made
the loop known has stepped, and the next one begins. Of several that step one after the other, it is the last one.
"""

from __future__ import annotations

import threading

from pipebench.watch.record.lines import LoaderFound, PassBegun
from pipebench.watch.record.record_file import OTHER
from pipebench.watch.record.trial_lines import NO_LOADER
from pipebench.watch.script.passes import Pass
from pipebench.watch.script.phases import LoopPhases
from pipebench.watch.stages import labels

_SURE = 2
_SURE_AFTER_A_LOADER = 64  # prefetchers let a loop take the last batches of a pass after the loader has ended


class _Token:
    """Stands for the iterator that such a loop does not have."""


class _Stepped(threading.local):
    """The optimiser that ends iterations in this thread while no loader is iterated, and how often it stepped since.

    `others` have stepped since it did. It is `settled` once another one did so twice: that one ends them then.
    """

    optimiser = 0
    times = 0
    others: frozenset[int] = frozenset()
    settled = False
    loader = False
    token: _Token | None = None


class LoopWithoutLoader:
    """The loops without a loader, at most one of each thread at a time. A loader that is iterated ends the loop."""

    def __init__(self, loop: LoopPhases) -> None:
        self.loop = loop
        self._here = _Stepped()
        self._passes = -1

    def follows(self, optimiser: int) -> None:
        """Notes that this optimiser is to step with no backward since the end of an iteration: it is a part of that."""
        if not self._here.settled:
            self._here.optimiser = optimiser

    def stepped(self, optimiser: int, this: Pass | None) -> None:
        """Notes the end of a step of the optimiser with this `id`, in this pass."""
        loop, here = self.loop, self._here
        if this is not None and this is not loop.here.bare:
            here.loader, here.times = True, 0
        elif not here.times:
            here.optimiser, here.times = optimiser, 1
            labels.watch_functions(loop.recording.patches, loop.recording.settings.functions)
        elif optimiser == here.optimiser or optimiser in here.others:
            here.settled |= optimiser != here.optimiser
            here.optimiser, here.others = optimiser, frozenset()
            here.times += 1
            if this is not None:
                self._turn(this)
            elif here.times >= (_SURE_AFTER_A_LOADER if here.loader else _SURE):
                self._begin()
        else:
            here.others |= {optimiser}

    def _begin(self) -> None:
        loop = self.loop
        loop.spend(OTHER)
        loop.loop_begins()
        self._passes += 1
        if not self._passes:
            loop.recording.write(LoaderFound(NO_LOADER, "", 0, None, "none", None))
        this = loop.here.bare = Pass(loop.recording, NO_LOADER, self._passes, loop.device, loop.write_own)
        self._here.token = _Token()
        loop.passes[self._here.token] = this
        loop.recording.write(PassBegun(NO_LOADER, self._passes, loop.here.mark))
        this.began = loop.here.mark
        this.beside = not loop.here.main
        loop.here.open.append(this)

    def _turn(self, this: Pass) -> None:
        now = self.loop.here.mark
        if this.trained:
            self.loop.trains.add(NO_LOADER)
        this.close(now)
        self.loop.count(this)
        this.began = now if self.loop.recording.on else None
        self.loop.without_loader(NO_LOADER)
        self.loop.recorded(this)
