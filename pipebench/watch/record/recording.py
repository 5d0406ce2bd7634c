"""What one process knows about being watched: its options, its record file, and whether recording goes on."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Literal

from pipebench.watch.record.exclusive_time import stages
from pipebench.watch.record.lines import Fault, Line, Moment, ProcessStarted
from pipebench.watch.record.patches import Patches
from pipebench.watch.record.record_file import RecordFile

STOP_FILE = "stop"
FAULTS = 20  # of one process


@dataclass(frozen=True)
class Settings:
    """What every watched process has to know; plain values, so that they can be handed to a spawned one.

    `bound` is after how many iterations a run that measures the bound leaves; None where it is not measured.
    """

    folder: str
    every: int = 50
    steps: int | None = None
    warmup: int = 0
    loader: int | None = None
    functions: tuple[str, ...] = ()
    bound: int | None = None

    def encoded(self) -> str:
        """As an argument of the process that runs the script."""
        return json.dumps(vars(self))

    @classmethod
    def decoded(cls, text: str) -> Settings:
        found = json.loads(text)
        return cls(**{**found, "functions": tuple(found["functions"])})


def told(error: BaseException) -> str:
    """An exception in one line: its class, its text, and the line that raised it.

    >>> told(ValueError("no such stage"))
    'ValueError: no such stage'
    """
    try:
        text = "; ".join(f"{type(error).__name__}: {error}".splitlines())
    except Exception:  # a script's own exception may fail at its own text: its class is what can be said
        text = type(error).__name__
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    if place is None:
        return text
    return f"{text} ({os.path.basename(place.tb_frame.f_code.co_filename)}:{place.tb_lineno})"


class Recording:
    """One process's recording. `on` turns false when the steps are done or the disk is full; then all is put back."""

    def __init__(
        self,
        settings: Settings,
        role: Literal["script", "worker", "fork"],
        earlier: int = 0,
        *,
        loader: int | None = None,
        worker: int | None = None,
        start_method: str | None = None,
    ) -> None:
        self.settings = settings
        stages.all_again()
        self.file = RecordFile(settings.folder, earlier)
        self.patches = Patches(self.fault)
        self.pid = os.getpid()
        self.turns = self.faults = 0
        self.on = True
        self.write(ProcessStarted(self.pid, role, self.file.began, loader, worker, start_method))

    def write(self, *lines: Line) -> None:
        """Appends lines. A process that was forked from this one, and is none of ours, leaves its file alone."""
        if os.getpid() != self.pid:
            self.on = False
            return
        self.file.write(*stages.take_new(), *lines)
        if self.file.stopped:
            self.on = False

    def fault(self, where: str, error: BaseException) -> None:
        """A fault of ours: its cause and its place go to the report, and the script goes on.

        A process that was forked from this one, and has no recording of its own, writes a file for it. What a process
        tells has a bound, however often the same goes wrong.
        """
        self.faults += 1
        if self.faults > FAULTS:
            return
        recording = self if os.getpid() == self.pid else Recording(self.settings, "fork")
        recording.write(Fault(where, told(error)))

    def guarded(self, where: str, act: Callable[[], object]) -> None:
        """Runs `act`; what it raises goes to the report, and no further."""
        try:
            act()
        except Exception as error:
            self.fault(where, error)

    def told_to_stop(self) -> bool:
        """Whether the script's process has ended the recording (looked up when sums are written)."""
        if self.on and os.path.exists(os.path.join(self.settings.folder, STOP_FILE)):
            self.on = False
        return not self.on

    def stop(self) -> None:
        """Ends recording here and in every worker, and puts back what was replaced in this process."""
        if self.on:
            self.write(Moment("stop", perf_counter_ns()))
            with contextlib.suppress(OSError), open(os.path.join(self.settings.folder, STOP_FILE), "xb"):
                pass
        self.on = False
        self.patches.undo()
