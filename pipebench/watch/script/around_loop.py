"""What looks find outside a loop without a loader, in the loops around it: between its passes.

Nothing says when such a pass ends. So what was found since a step counts only once the same loop has stepped again, and
not if a backward came outside of it meanwhile: then the loops around it train, too, as that of a GAN does.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from types import CodeType, FrameType
from typing import NamedTuple

from pipebench.watch.record.own_code import owner
from pipebench.watch.script.look_counts import Key, OfLoader, PlaceCount
from pipebench.watch.script.loop_place import Around, Place, loops_around, outwards
from pipebench.watch.script.own_python import placed

_MOST = 3  # loops around one


class Outer(NamedTuple):
    """A loop around another one: its frame by identity, the code of that, and its instructions."""

    frame: int
    code: CodeType
    inside: range | None


class AroundLoop:
    """The loops around the one that trains without a loader, and what looks found there since its last step.

    `looks` is their number, and `ns` the time since the look before each of them.
    """

    def __init__(self) -> None:
        self.found: dict[Key, PlaceCount] = {}
        self.looks = self.ns = 0
        self._last = 0
        self._inner: tuple[CodeType, range | None] | None = None
        self._outer: list[Outer] = []

    def begins(self, loops: Sequence[Around]) -> bool:
        """Notes an iteration of the first one of these loops, which the others are around. True: the last one was, too.

        Without any: of a loop with a loader, or of none.
        """
        before, self._inner = self._inner, (loops[0].frame.f_code, loops[0].inside) if loops else None
        own = [one for one in loops[1:] if not owner(one.frame.f_code.co_filename)]
        self._outer = [Outer(id(one.frame), one.frame.f_code, one.inside) for one in own[:_MOST]]
        return self._inner is not None and before == self._inner

    def backward(self, frame: FrameType) -> None:
        """Notes a backward, of which `frame` is an inner one."""
        if self.looks and self._inner not in [(one.frame.f_code, one.inside) for one in loops_around(frame)]:
            self._outer = []
            self.drop()

    def again(self, frame: FrameType) -> int | None:
        """The frame in which the loop runs now, by identity: its function may have been called again since the step."""
        if self._inner is None:
            return None
        code, inside = self._inner
        frames = (one for one in outwards(frame) if one.f_code is code and (inside is None or one.f_lasti in inside))
        return next(map(id, frames), None)

    def at(self, frame: FrameType) -> tuple[Outer, Place] | None:
        """In which loop a thread is, and where, the innermost first."""
        for one in self._outer:
            place = placed(frame, one.frame, one.inside)
            if place is not None and place.path[0][0] is one.code:
                return one, place
        return None

    def passes(self, again: bool = False) -> int:
        """The nanoseconds since the last look, or since looks began. A second look right after one is none."""
        before = self._last
        self._last = before if again else time.perf_counter_ns()
        return self._last - before

    def count(self, ns: int) -> None:
        self.looks, self.ns = self.looks + 1, self.ns + ns

    def give(self, inner: OfLoader, between: OfLoader) -> None:
        """Counts what was found: a pass of the `inner` loop has ended."""
        inner.outside_looks += self.looks
        inner.outside_ns += self.ns
        between.turns += 1
        between.include(self.found)

    def drop(self) -> None:
        self.found, self.looks, self.ns = {}, 0, 0
