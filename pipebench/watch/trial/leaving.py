"""Ends the script before its own end, as `advise --stop` asks.

What the script does at an exit, it does, unless its weights are worth nothing.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any, NoReturn

from pipebench.watch.record.lines import Moment
from pipebench.watch.record.recording import Recording


def leave_script() -> None:
    """Raises SystemExit in the main thread, at its next step if this is another thread.

    In another thread, SystemExit would end that thread alone, and a script that waits for its batches would hang. So it
    gets them until it has ended. Python waits for a thread that is no daemon, which may wait for somebody to take its
    batches: then the script goes on to its own end, and one line on standard error says so.
    """
    here, main = threading.current_thread(), threading.main_thread()
    if here is main:
        raise SystemExit(0)
    if not here.daemon:
        sys.stderr.write(f"pipebench: {here.name} takes the batches, and no exit can end it. The script goes on.\n")
        return
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(main.ident or 0), ctypes.py_object(SystemExit))


def leave_at_once(iterators: Iterable[Any], recording: Recording, guarded: Callable[..., object]) -> NoReturn:
    """Ends the process whose weights are worth nothing: nothing of the script runs on the way out.

    The workers of these iterators end before. `guarded` runs a function whose errors do not matter.
    """
    for iterator in list(iterators):
        if (shutdown := getattr(iterator, "_shutdown_workers", None)) is not None:
            guarded(shutdown)
    recording.write(Moment("end", time.perf_counter_ns()))
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            guarded(stream.flush)
    os._exit(0)
