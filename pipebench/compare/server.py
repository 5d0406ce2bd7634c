"""One side of a comparison: what it runs, and the live process that answers for it, within a time.

The process forks a child for each round (see `round_process`). A side that does not answer in time is overdue: its
child is killed, or the process itself if it has none, and it starts again.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import subprocess
import sys
import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipebench.compare import heard, provenance
from pipebench.compare.schedule import Reading
from pipebench.errors import PipebenchError
from pipebench.host.children import kill_all_with
from pipebench.host.scratch import Scratch
from pipebench.runner import ChildRunner, RunnerDied, RunnerFailed
from pipebench.task import RunnerSpec

TIMEOUT_S = 300.0  # for an answer: an import, a set-up, or a few calls of what is measured
ENDING_S = 10.0  # for a child to end, once it was told to
NOT_HERE = "sys.path[:] = [one for one in sys.path if one]"
FOR_ALL_ROUNDS = ("start", "prime", "keep")
# By these, coverage and pytest-cov trace every Python that starts: `pytest --cov --pipebench-against main` sets them.
TRACING = frozenset(("COVERAGE_PROCESS_START", "COVERAGE_PROCESS_CONFIG", "COV_CORE_SOURCE"))
# malloc asks for huge pages (glibc 2.35 and later). Which pages of 4 KiB a process gets is drawn anew in each one, and
# decides which buffers share a place in the second-level cache: most of how rounds of equal code varied in collate.
HUGE_PAGES = ("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1")
_MARK = "PIPEBENCH_AB"  # a side's own folder, in the environment of all that it starts
DOING = {
    "start": "it imports the code", "prime": "it makes the inputs", "fork": "it ends the process of the round before",
    "reading": "it is in a reading", "show": "it shows its output", "examine": "it works on other inputs",
}  # fmt: skip
BUILDING = "it builds the benchmark and calls it for the first time"


@dataclass(frozen=True)
class Side:
    """One of the two things compared: a folder of code, the interpreter that runs it, and its settings.

    `roots` are the folders of the code that are put on the import path; the code's own folder if there are none.
    `names` are the top-level modules in them.
    """

    label: str
    folder: Path | None
    executable: str = sys.executable
    environment: tuple[tuple[str, str], ...] = ()
    runner: RunnerSpec | None = None
    roots: tuple[Path, ...] = ()
    names: frozenset[str] = frozenset()


class Server(ChildRunner):
    """The live process of one side. It forks a child for each round; between rounds it waits."""

    _session = True  # a signal to the group of pipebench does not reach it, and the whole of it can be killed

    def __init__(self, side: Side, own: dict[str, Any] | None, timeout_s: float = TIMEOUT_S) -> None:
        self.side, self._own, self._timeout_s = side, own, timeout_s
        self._asked: deque[tuple[str, tuple[Any, ...]]] = deque()  # without an answer yet
        self._since = 0.0  # when the first of them was sent, or the answer before it came
        self._kept: list[tuple[str, tuple[Any, ...]]] = []  # what a new process must be asked again
        self._child: int | None = None  # of the last round
        self.taken_again = 0  # readings, because there was a gap in them
        spec = side.runner or RunnerSpec(side.label)
        pages = () if HUGE_PAGES[0] in os.environ else (HUGE_PAGES,)
        fixed = (("PYTHONHASHSEED", "0"), ("OMP_NUM_THREADS", "1"), ("PYTHONPATH", ""), *pages)
        self._scratch = Scratch("ab")  # the child's, which nobody but the next run would remove if we were killed
        settings = (*fixed, *spec.environment, *side.environment, (_MARK, os.fspath(self._scratch.path)))
        self._errors = self.errors = heard.opened()
        super().__init__(RunnerSpec(side.label, spec.path, settings), side.executable)

    def _code(self, first: list[str], descriptor: int) -> str:
        """The child's program. It starts without address randomisation, so that equal code lies at equal addresses.

        Where the kernel does not allow this, the addresses stay random. The current folder is taken off the import
        path, or a module that a commit lacks would be imported from the working tree. The same holds for the Python
        programs that the benchmarks start.
        """
        folders = self.side.roots or ((self.side.folder,) if self.side.folder else ())
        ahead = [*first, *map(os.fspath, folders)]
        here = Path(__file__).parent
        child, tree, home = here / "round_process.py", os.fspath(here.parents[1]), self._home_of(here.parent)
        serving = (
            f"import os, sys; {NOT_HERE}\n"
            f"sys.path[:] = [*{ahead!r}, *(one for one in sys.path if one not in ({tree!r}, {home!r})), {home!r}]\n"
            f"ahead = [*{ahead!r}, *filter(None, [os.environ.get('PYTHONPATH')])]\n"
            "os.environ.update(PYTHONPATH=os.pathsep.join(ahead), PYTHONSAFEPATH='1')\n"
            f"code = compile(open({os.fspath(child)!r}, encoding='utf-8').read(), {os.fspath(child)!r}, 'exec')\n"
            f"exec(code, space := {{'__name__': 'pipebench_round', '__file__': {os.fspath(child)!r}}})\n"
            f"space['serve']({descriptor}, {self._own!r}, {self.side.folder and os.fspath(self.side.folder)!r})\n"
        )
        return (
            f"import sys; {NOT_HERE}\n"
            "import ctypes, os\n"
            "ctypes.CDLL(None).prctl(1, 9)\n"  # PR_SET_PDEATHSIG: it is killed where pipebench is
            "ctypes.CDLL(None).personality(0x0040000)\n"
            f"for name in {sorted(TRACING - dict(self.side.environment).keys())!r}: os.environ.pop(name, None)\n"
            f"os.execv(sys.executable, [sys.executable, '-c', {serving!r}])\n"
        )

    def _home_of(self, package: Path) -> str:
        """A folder from which the child imports pipebench: where it is installed, or one with nothing else in it.

        A source tree has more packages, such as `benchmarks`. They would hide those of a side that are plain folders: a
        package wins over a folder without an `__init__.py`, wherever the two are on the path.
        """
        if package.parent.name in provenance.INSTALLED:
            return os.fspath(package.parent)
        only = self._scratch.path / "path"
        only.mkdir(exist_ok=True)
        with contextlib.suppress(FileExistsError):  # the process is not the first
            (only / package.name).symlink_to(package, target_is_directory=True)
        return os.fspath(only)

    def start(self) -> list[str]:
        """Waits until the side is imported; `start` was sent before. Returns the benchmarks that it has found.

        Raises `PipebenchError` if it cannot be imported.
        """
        try:
            return self.receive()  # type: ignore[no-any-return]  # what `start` of the child returns
        except (RunnerDied, RunnerFailed) as error:
            remedy = "compare commits that can be imported, or give a Python that has their packages"
            said = heard.last(self.errors)
            raise PipebenchError(f"{self.side.label} does not start: {error}{said}", remedy) from error

    def send(self, method: str, *arguments: Any) -> None:
        """Sends a request; `receive` takes its answer. So both sides can work at once where nothing is timed."""
        self._send(method, *arguments)

    def receive(self) -> Any:
        return self._receive()

    def fork(self) -> None:
        self._ask("fork")

    def leave(self) -> None:
        """Ends the round's child; the server goes on."""
        self.send("leave")

    @property
    def folder(self) -> str:
        return os.fspath(self.side.folder) if self.side.folder else ""

    def recover(self) -> None:
        """Ends a round that broke, even if its child is gone, and drops the answers that nobody waits for.

        A child that does not end is killed, and a process that does not answer is replaced.
        """
        self._asked.clear()
        for _ in range(2):
            if self._process.poll() is None and self._settled():
                return
            self._kill_child()
        self._replace()

    def _settled(self) -> bool:
        """Whether the process has ended its child, and answers."""
        token = time.monotonic_ns()
        super()._send("leave")
        super()._send("echo", token)
        until = time.monotonic() + ENDING_S
        with contextlib.suppress(EOFError, OSError):
            while self._pipe.poll(max(0.0, until - time.monotonic())):
                if pickle.loads(self._pipe.recv_bytes()) == (False, token):  # from our own child, never from data
                    return True
        return False

    def _replace(self) -> None:
        """Starts another process, and waits until it is ready."""
        self._kill()
        self._pipe.close()
        self.made_again(self._again())

    def begin_again(self) -> int:
        """Starts another process. Returns what `made_again` needs; so both sides can start at once."""
        self._end()
        self._child = None
        return self._again()

    def _again(self) -> int:
        """Asks a new process for what the last one had made for all rounds. Returns the number of answers to come."""
        self._start()
        again, self._kept = self._kept, []
        for method, arguments in again:
            self.send(method, *arguments)
        return len(again)

    def made_again(self, answers: int) -> None:
        """Waits until a new process is ready. Raises `RunnerDied` if it is gone."""
        for _ in range(answers):
            with contextlib.suppress(RunnerFailed):  # then each round makes it for itself
                self.receive()

    def _kill_child(self) -> None:
        """Kills the process of the last round with its workers, if its parent still waits for it."""
        if self._child is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._child, signal.SIGKILL)
        self._child = None

    def _kill(self) -> None:
        self._kill_child()
        if self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.kill()
            self._process.wait()
        self._kill_daemons()

    def close(self) -> None:
        self._end()
        self._scratch.remove()

    def _end(self) -> None:
        """Ends the process: it exits when its pipe closes, and is killed with its child if it does not."""
        self._pipe.close()
        try:
            self._process.wait(timeout=2)
            self._kill_daemons()
        except subprocess.TimeoutExpired:
            self._kill()

    def _kill_daemons(self) -> None:
        """Ends what the benchmarks have started in sessions of their own."""
        kill_all_with(_MARK, os.fspath(self._scratch.path))

    def read_once(self, identity: str, calls: int) -> Reading:
        try:
            seconds, waited, again = self._ask("reading", identity, calls)
            self.taken_again += again
            return seconds, waited
        except RunnerFailed as error:
            raise RunnerFailed(f"{self.name}: {error}") from error

    def _send(self, method: str, *arguments: Any) -> None:
        if method != "leave":
            self._since = self._since if self._asked else time.monotonic()
            self._asked.append((method, arguments))
        super()._send(method, *arguments)

    def _receive(self) -> Any:
        """An answer. A place in the commit's own files is named from their top folder, alike on both sides.

        Raises `RunnerFailed` also where there is none in time.
        """
        method, arguments = self._asked.popleft()
        in_time = self._pipe.poll(max(0.0, self._since + self._timeout_s - time.monotonic()))
        self._since = time.monotonic()
        if not in_time:
            if self._child is None:
                self._kill()
            self._kill_child()
            raise RunnerFailed(f"no answer within {self._timeout_s:g} s (--timeout): {DOING.get(method, BUILDING)}")
        try:
            answer = super()._receive()
        except RunnerFailed as error:
            raise RunnerFailed(str(error).replace(f"{self.folder}{os.sep}", "") if self.folder else error) from error
        if method == "fork":
            self._child = answer
        if method in FOR_ALL_ROUNDS:
            self._kept.append((method, arguments))
        return answer
