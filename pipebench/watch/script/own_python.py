"""Whether a thread runs Python of the user's own, and not one operation of a library after the other."""

from __future__ import annotations

import dis
from types import CodeType, FrameType

from pipebench.watch.record.own_code import owner
from pipebench.watch.record.per_code import per_code
from pipebench.watch.script.loop_place import Place, loops_in, place_in

# Between these, Python hands its lock over only if no function in C has let it go: so the interpreter itself works.
_PAUSES = ("JUMP_BACKWARD", "RESUME")
NESTED = 2  # loops: a step of them is about one pair of samples, or one element


def placed(frame: FrameType, loop: int, inside: range | None, bare: bool = False) -> Place | None:
    """The place of a thread in its loop, with whether Python of the user's own runs there. See `place_in`."""
    place = place_in(frame, loop, inside, bare)
    return place and place._replace(python=runs_python(frame, loop, inside))


def runs_python(frame: FrameType, loop: int, inside: range | None) -> bool:
    """Whether the user's own code computes there in Python, or in loops inside one another.

    A look finds an operation of torch inside its call, because that lets other threads run. It finds the interpreter at
    the end of a loop's step, or at the begin of a function. `loop` is the frame of the training loop, by identity, and
    `inside` are its instructions: it is none of these loops, and neither are those around it.
    """
    if not owner(frame.f_code.co_filename) and frame.f_lasti in _pauses(frame.f_code):
        return True
    return loops_inside(frame, loop, inside) >= NESTED


def loops_inside(frame: FrameType, loop: int, inside: range | None) -> int:
    """How many loops of the user's own code run around this frame within the training loop. See `runs_python`."""
    nested = 0
    at: FrameType | None = frame
    while at is not None:
        last = id(at) == loop
        if not owner(at.f_code.co_filename):
            found = [one for one in loops_in(at.f_code) if at.f_lasti in one]
            nested += sum(inside is not None and len(one) < len(inside) for one in found) if last else len(found)
        at = None if last else at.f_back
    return nested


@per_code(256)
def _pauses(code: CodeType) -> frozenset[int]:
    return frozenset(one.offset for one in dis.get_instructions(code) if any(name in one.opname for name in _PAUSES))
