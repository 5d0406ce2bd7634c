"""Tells looks that find a loop inside torch's compiler, and how many graphs that has compiled.

Its own functions show it: what was compiled runs without them. Nothing is imported, and torch is asked only if the
script has imported its compiler.
"""

from __future__ import annotations

import contextlib
import os
import sys
from dataclasses import dataclass
from types import FrameType

from pipebench.watch.record.trial_lines import CompilingLooks
from pipebench.watch.script.loop_place import outwards

_DEEPEST = 1_000  # frames: the compiler goes into what it compiles, one call in another
_ENTRY = os.path.join(os.sep, "torch", "_dynamo", "convert_frame.py")
_BACKEND = os.path.join(os.sep, "torch", "_inductor", "compile_fx.py")  # of a first backward, too
_COUNTS = "torch._dynamo.utils"


def compiles(frame: FrameType | None) -> bool:
    """Whether a thread is in torch's compiler. Frames outside of it, which its C code replaces, stay untouched."""
    return any(map(_of_compiler, outwards(frame, _DEEPEST)))


def _of_compiler(frame: FrameType) -> bool:
    file = frame.f_code.co_filename
    return file.endswith(_ENTRY) or (file.endswith(_BACKEND) and "compile" in frame.f_code.co_name)


def graphs() -> int:
    """How many graphs torch has compiled in this process so far, as far as it says."""
    with contextlib.suppress(Exception):  # a torch that counts in another way
        return int(sys.modules[_COUNTS].counters.get("stats", {}).get("unique_graphs", 0))
    return 0


@dataclass
class Compiling:
    """What looks found of the compiler in a loop that is not written yet: see `LoopLooks`."""

    looks: int = 0
    forward_ns: int = 0
    other_ns: int = 0
    turns: int = 0
    _last: int = -1

    def written(self, graphs: int) -> CompilingLooks:
        return CompilingLooks(self.looks, self.forward_ns, self.other_ns, self.turns, graphs)

    def note(self, passed_ns: int, turn: int, forward: bool) -> None:
        """Counts a look, so long after the one before."""
        self.looks += 1
        self.turns += turn != self._last
        self._last = turn
        if forward:
            self.forward_ns += passed_ns
        else:
            self.other_ns += passed_ns
