"""The number of threads that torch has in the script's process, while a changed loader gives it batches."""

from __future__ import annotations

import sys
import threading
from typing import Any

from pipebench.watch.script.line_counts import compiled
from pipebench.watch.trial.arms import CannotTry


class LoopThreads:
    """Sets torch's number of threads, and puts the script's own back. Only in the main thread: the number is of one."""

    def __init__(self) -> None:
        self._own = self._set = 0

    def check(self, threads: int) -> None:
        """Raises CannotTry if so many threads cannot be tried here. 0 is the script's own number."""
        if threads and threading.current_thread() is not threading.main_thread():
            raise CannotTry("other-thread")
        if threads and compiled():
            raise CannotTry("compiled")  # torch would compile it anew for each number

    def use(self, threads: int) -> None:
        """Sets so many threads, for what the script does next. 0: the script's own number.

        In another thread, nothing is done: the main one settles it with its next batch.
        """
        if threads == self._set or threading.current_thread() is not threading.main_thread():
            return
        torch: Any = sys.modules["torch"]
        if not self._set:
            self._own = torch.get_num_threads()
        elif torch.get_num_threads() != self._set:
            self._own = torch.get_num_threads()  # the script has set another one since
        torch.set_num_threads(threads or self._own)
        self._set = threads
