"""Ends the script before its own end, as `advise --stop` asks. What the script does at an exit, it does."""

from __future__ import annotations

import ctypes
import sys
import threading


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
