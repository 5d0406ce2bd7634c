"""What interrupts a command: Ctrl-C, and alike SIGTERM and SIGHUP, which schedulers and closed terminals send."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NoReturn

INTERRUPTED = 130  # the exit status
INTERRUPTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass
class Interrupts:
    """Whether one came."""

    came: bool = False


@contextlib.contextmanager
def interruptible() -> Iterator[Interrupts]:
    """Within this block SIGTERM and SIGHUP interrupt as Ctrl-C does. What is known is saved then.

    Further ones do nothing, because a terminal that is closed and a scheduler send several. A second Ctrl-C is a
    person's: it ends the process at once. What that leaves behind is removed by the next run (see `host.scratch`).
    In a forked child, signals do what they did before the block: who ends a child does not wait for what it saves.
    """
    here = threading.current_thread() is threading.main_thread()
    before = {one: signal.getsignal(one) for one in INTERRUPTS if here}
    ours = [one for one, handler in before.items() if handler != signal.SIG_IGN]  # `nohup` ignores SIGHUP
    found, owner = Interrupts(), os.getpid()

    def interrupt(number: int, frame: object) -> None:
        if os.getpid() != owner:
            signal.signal(number, before[signal.Signals(number)])
            signal.raise_signal(number)
            return
        for one in ours:
            signal.signal(one, end_at_once if one == signal.SIGINT else signal.SIG_IGN)
        found.came = True
        raise KeyboardInterrupt

    for one in ours:
        signal.signal(one, interrupt)
    try:
        yield found
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


def end_at_once(number: int = signal.SIGINT, frame: object = None) -> NoReturn:
    """Ends this process, and what was arranged to end with it. What that leaves behind, the next run removes."""
    if sys.stderr is not None and sys.stderr.isatty():
        os.write(2, b"\x1b[?25h\n")  # shows the cursor, which the bar of progress has hidden
    os._exit(INTERRUPTED)
