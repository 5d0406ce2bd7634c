"""Sends the series of a run to its sinks while the run goes on. Outside the script's process: it costs that nothing.

The sinks run in a process of their own (`writing`). So a library that is slow to import, hangs or crashes costs the run
nothing, and does not keep it from ending.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import IO

from pipebench.errors import PipebenchError, UsageError
from pipebench.host.redaction import inert
from pipebench.watch.launch.footprint import pause
from pipebench.watch.launch.programs import HOOK
from pipebench.watch.log.live import Live
from pipebench.watch.record.recording import told

_START = (
    f"import sys; sys.path.insert(0, {str(HOOK)!r}); from pipebench_hook import OwnPackage; del sys.path[0]\n"
    "with OwnPackage(): from pipebench.watch.log.writing import main\n"
    "main(sys.argv[1:])"
)
_FIRST_S = 0.25
_LAST_S = 1.0  # for what was recorded last: the report waits for it
PATIENCE_S = 20.0  # after the report
OPENS_S = 120.0  # longer than W&B waits for its server, whose own words say more
_NO_START = json.dumps(("--log does not start", "leave it out", False))
Follow = Callable[[Callable[[], Sequence[Path]]], AbstractContextManager[None]]
"""Gets a function that lists the folders of the programs, and follows them while its block runs."""


class Log:
    """The series of a run on their way to the sinks `asked`, with a point for each `every` iterations.

    Raises PipebenchError if a sink cannot be opened. If one is not open after `opens_s` seconds, nothing is logged.
    """

    def __init__(
        self,
        asked: Sequence[str],
        every: int,
        live: Callable[[Path], Live],
        say: Callable[[str], object],
        patience_s: float = PATIENCE_S,
        opens_s: float = OPENS_S,
    ) -> None:
        self._every, self._live, self._say, self._patience_s = every, live, say, patience_s
        self._programs: dict[Path, Live] = {}
        self._called: dict[Path, str] = {}
        self._thread: threading.Thread | None = None
        self._hangs = False
        self._writing = subprocess.Popen(
            [sys.executable, "-P", "-c", _START, *asked],
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for the script
        )
        assert self._writing.stdin is not None and self._writing.stdout is not None
        self._to = self._writing.stdin
        problem = None
        try:
            with self._writing.stdout as answers:
                if _answered(answers, opens_s):
                    problem = json.loads(answers.readline() or _NO_START)
                else:
                    self._hangs = True
                    self._kill()
                    self._to.close()
                    say(f"pipebench: --log was not open after {opens_s:g} s, and was ended; the run goes on\n")
        except BaseException:
            self._kill()
            raise
        if problem is not None:
            self._kill()
            *said, misused = problem
            raise (UsageError if misused else PipebenchError)(*said)

    @contextlib.contextmanager
    def following(self, folders: Callable[[], Sequence[Path]]) -> Iterator[None]:
        """Looks again and again while the block runs, and once when it has ended."""
        if self._hangs:
            yield
            return
        over = threading.Event()
        self._thread = threading.Thread(target=self._follow, args=(folders, over), name="pipebench log", daemon=True)
        self._thread.start()
        try:
            yield
        finally:
            over.set()
            self._thread.join(_LAST_S)

    def _follow(self, folders: Callable[[], Sequence[Path]], over: threading.Event) -> None:
        began, wait_s = perf_counter(), _FIRST_S
        try:
            while not over.wait(wait_s):
                now = perf_counter()
                self._look(folders())
                wait_s = pause(perf_counter() - now, now - began)
            self._look(folders())
            self._to.close()
        except BrokenPipeError:
            if not self._hangs:
                self._say("pipebench: --log ends here, because its process has ended; the run goes on\n")
        except Exception as error:
            self._say(f"pipebench: --log ends here, because of a fault of pipebench ({inert(told(error))})\n")

    def _look(self, folders: Sequence[Path]) -> None:
        for folder in folders:
            if folder not in self._programs:
                self._programs[folder] = self._live(folder)
            for point in self._programs[folder].points(self._every):
                text = json.dumps(vars(replace(point, program=self._name(folder))))
                self._to.write(text.encode() + b"\n")

    def _name(self, folder: Path) -> str:
        """A rank has its number. Of other programs, the first that has a loop has no name."""
        rank = self._programs[folder].rank
        if rank is not None:
            return f"rank{rank}"
        return self._called.setdefault(folder, f"program{len(self._called) + 1}" if self._called else "")

    def end(self) -> None:
        """Waits until all is written, for some seconds at most."""
        try:
            if self._thread is not None:
                self._thread.join(self._patience_s)
                self._hangs = self._thread.is_alive()
            if not self._hangs:
                self._to.close()
            self._writing.wait(0.0 if self._hangs else self._patience_s)
        except subprocess.TimeoutExpired:
            self._say(f"pipebench: --log was not done after {self._patience_s:g} s, and was ended\n")
            self._kill()
        except BaseException:
            self._kill()
            raise

    def _kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._writing.pid, signal.SIGKILL)
        self._writing.wait()


def _answered(answers: IO[bytes], most_s: float) -> bool:
    """Waits until a process says something, or has ended."""
    poll = select.poll()
    poll.register(answers, select.POLLIN)
    return bool(poll.poll(most_s * 1000))
