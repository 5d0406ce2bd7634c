"""Tells what a signal handler of the script raised from faults of ours. A handler may run at any place, ours too.

In this way, torch tells a script that a worker was killed, and a script limits the time of a sample. Such an exception
is the script's, and must reach it.
"""

from __future__ import annotations

import functools
import signal


def from_a_handler(error: BaseException) -> bool:
    """Whether a signal handler of the script raised the exception, or what it called did.

    Not if it was raised in the function that caught it: a handler has a frame of its own. That is told at once, as to
    ask for all handlers takes a tenth of a millisecond.
    """
    place = error.__traceback__
    below = None if place is None else place.tb_next
    if below is None:
        return False
    codes = {_code(signal.getsignal(one)) for one in signal.valid_signals()} - {None}
    while place is not None:
        if place.tb_frame.f_code in codes:
            return True
        place = place.tb_next
    return False


def _code(handler: object) -> object:
    """The code that runs first when a handler is called: a function's, a method's, or that of an object's class."""
    while isinstance(handler, functools.partial):
        handler = handler.func
    for one in (handler, vars(type(handler)).get("__call__")):
        if (code := getattr(one, "__code__", None)) is not None:
            return code
    return None


class forgiving:  # a block, named as those of contextlib
    """Suppresses every `Exception` in its block but those of the script's signal handlers."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        return isinstance(error, Exception) and not from_a_handler(error)
