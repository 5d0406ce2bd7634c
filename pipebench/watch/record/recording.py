"""The recording of one watched process: its settings, its record file, and whether recording goes on."""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Literal

from pipebench.watch.record.exclusive_time import stages
from pipebench.watch.record.from_handlers import forgiving, from_a_handler
from pipebench.watch.record.lines import Fault, Line, Moment, ProcessStarted
from pipebench.watch.record.patches import Patches
from pipebench.watch.record.record_file import RecordFile

STOP_FILE = "stop"
SETTINGS_FILE = "settings"  # in the folder of a command's run: what its programs must know
FAULTS = 20  # of one process
_OF_WORKER = re.compile(r"Caught \w+ (in .*?)\.?\nOriginal Traceback ")
_FRAME = re.compile(r'  File "(.*)", line (\d+)')


@dataclass(frozen=True)
class Settings:
    """What every watched process must know. The values are plain, so they can be sent to a spawned process.

    `bound` is the number of iterations after which a run that measures the bound ends; None if it is not measured.
    `trial` says that changed loaders will be tried, by `orders`. `shared` is the folder that all programs of a command
    share ("": a script was started alone).
    """

    folder: str
    every: int = 50
    steps: int | None = None
    warmup: int = 0
    loader: int | None = None
    functions: tuple[str, ...] = ()
    bound: int | None = None
    trial: bool = False
    shared: str = ""

    def encoded(self) -> str:
        """The settings as JSON text, for the arguments of the process that runs the script."""
        return json.dumps(vars(self))

    @classmethod
    def decoded(cls, text: str) -> Settings:
        found = json.loads(text)
        return cls(**{**found, "functions": tuple(found["functions"])})


def told(error: BaseException) -> str:
    """Describes an exception in one line: its class, its text, and the line that raised it.

    Of one that a worker raised, torch's text is a whole traceback: then what that ends with.

    >>> told(ValueError("no such stage"))
    'ValueError: no such stage'
    """
    text = type(error).__name__
    with forgiving():  # str() of a script's own exception may fail: then only its class is named
        message = str(error)  # empty, as of a bare KeyboardInterrupt: then the class says it all
        if (worker := _OF_WORKER.match(message)) is not None:
            return _of_worker(message.rstrip().splitlines(), worker[1])
        text = "; ".join(f"{text}: {message}".splitlines()) if message else text
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    if place is None:
        return text
    return f"{text} ({os.path.basename(place.tb_frame.f_code.co_filename)}:{place.tb_lineno})"


def _of_worker(lines: Sequence[str], where: str) -> str:
    """What these lines of a traceback end with, and the place of the last frame."""
    frames = [found for one in lines if (found := _FRAME.match(one)) is not None]
    last = max((place for place, one in enumerate(lines) if one.startswith("  ")), default=-1)
    at = f", {os.path.basename(frames[-1][1])}:{frames[-1][2]}" if frames else ""
    return f"{'; '.join(lines[last + 1 :])} ({where}{at})"


class Recording:
    """The recording of one process.

    `on` becomes false when the steps are done, when a write fails (the disk is full), or after some faults of ours.
    `stop` also puts back what was replaced, after it has called `before_stop`, which write what they have kept.
    """

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
        self.before_stop: list[Callable[[], object]] = []
        self.write(ProcessStarted(self.pid, role, self.file.began, loader, worker, start_method))

    def write(self, *lines: Line) -> None:
        """Appends lines. In a process that was forked from this one, ends the recording and writes nothing."""
        if os.getpid() != self.pid:
            self.on = False
            return
        self.file.write(*stages.take_new(), *lines)
        if self.file.stopped:
            self.on = False

    def fault(self, where: str, error: BaseException) -> None:
        """Records a fault of pipebench: its place and its cause go to the report, and the script goes on.

        A process that was forked from this one, and has no recording of its own, writes the fault to a new file. A
        process records at most `FAULTS` faults, however often something goes wrong.

        An exception of one of the script's signal handlers is no fault, wherever the signal met it. It is raised again.
        """
        if from_a_handler(error):
            raise error
        self.faults += 1
        if self.faults > FAULTS:
            return
        recording = self if os.getpid() == self.pid else Recording(self.settings, "fork")
        recording.write(Fault(where, told(error)))

    def guarded(self, where: str, act: Callable[..., object], *args: object) -> None:
        """Runs `act`. An exception in it goes to the report and is not raised."""
        try:
            act(*args)
        except Exception as error:
            self.fault(where, error)

    def told_to_stop(self) -> bool:
        """Whether the recording has ended, here or in the script's process. Asked each time that sums are written."""
        if self.on and os.path.exists(os.path.join(self.settings.folder, STOP_FILE)):
            self.on = False
        return not self.on

    def stop(self) -> None:
        """Ends recording here and in every worker, and puts back what was replaced in this process."""
        if self.on:
            for write_kept in self.before_stop:
                write_kept()
            self.write(Moment("stop", perf_counter_ns()))
            with contextlib.suppress(OSError), open(os.path.join(self.settings.folder, STOP_FILE), "xb"):
                pass
        self.on = False
        self.patches.undo()
