"""What the supervisor asks the script's process to try. The last order stands in a file that is replaced whole."""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import dataclass, field
from typing import Any, Literal

FILE = "order"


@dataclass(frozen=True)
class Order:
    """One thing to try. Orders are numbered from 1.

    `loader` is the number of the loader. `settings` are the attributes of a DataLoader that differ; None: nothing is
    tried, and the script's own loader gives every batch. `one_thread` limits the thread pools in the workers, and torch
    has `loop_threads` in the script's process (0: the script's own number). Windows last at least `window_s` seconds,
    and whole multiples of `period` batches: of so many, one costs more. Passes are whole passes over the loader.
    `leave` ends the script's process.

    `edits` are what the workers do otherwise: names of remedies with their arguments, see `watch.trial.edits`.
    `discards` says that the script gets other values than its own, so its weights are worth nothing from then on.
    `examine` is a number of iterations in which sync points are looked for; then nothing else is tried.

    Several ranks begin at the same batch: when the script has got `at` batches from this loader. A window then lasts at
    least `window` batches, on any rank (0: it lasts `window_s`). `problem` says why this rank does not try it, if so.
    `given` is when rank 0 handed it on, in nanoseconds of the clock that all processes of a machine share.
    """

    number: int
    loader: int = 0
    settings: dict[str, Any] | None = field(default=None)
    one_thread: bool = False
    by: Literal["windows", "passes"] = "windows"
    window_s: float = 1.0
    leave: bool = False
    period: int = 1
    edits: dict[str, dict[str, Any]] = field(default_factory=dict)
    discards: bool = False
    examine: int = 0
    at: int = 0
    window: int = 0
    problem: str = ""
    given: int = 0
    loop_threads: int = 0


def give(folder: str, order: Order, name: str = FILE) -> None:
    """Replaces the order in `folder`."""
    path = os.path.join(folder, name)
    with open(path + ".new", "w", encoding="utf-8") as file:
        json.dump(vars(order), file)
    os.replace(path + ".new", path)


class Orders:
    """Reads the orders of one folder. `latest` costs one system call while nothing changes."""

    def __init__(self, folder: str, name: str = FILE) -> None:
        self.path = os.path.join(folder, name)
        self._seen: tuple[int, int] | None = None

    def latest(self) -> Order | None:
        """The new order; None if there is none since the last call."""
        with contextlib.suppress(OSError):
            found = os.stat(self.path)
            seen = (found.st_ino, found.st_mtime_ns)
            if seen != self._seen:
                self._seen = seen
                with open(self.path, encoding="utf-8") as file:
                    return Order(**json.load(file))
        return None
