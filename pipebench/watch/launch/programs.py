"""Starts a command whose Python processes record themselves, and looks at them from outside.

What each of them does at its start is in `hook/`.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import psutil

from pipebench.host.machine import Load, read_load
from pipebench.watch.launch.exits import Exits, exits_noted
from pipebench.watch.launch.footprint import Looker, looked_at
from pipebench.watch.launch.stacks import StackReader, read_meanwhile
from pipebench.watch.record.recording import SETTINGS_FILE, Settings, told

HOOK = Path(__file__).with_name("hook")
_EMPTY = os.path.join(HOOK, "")
VARIABLE = "PIPEBENCH_WATCH"
_PATH = "PYTHONPATH"
# What is watched without our start-up file, or by its parent.
_OTHERWISE = ("/pipebench/watch/launch/bootstrap.py", "from multiprocessing.")
_PYTHON = re.compile(r"python[0-9.]*t?$")  # `python3.14t` has no global lock
_WITH_ARGUMENT = "WX"
_TORCH = b"/libtorch"
_EACH = 10  # new programs are looked for each tenth time that stacks are read


def watched_environment(folder: Path, settings: Settings, names: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The environment of a command whose Python processes record themselves in `folder`, by these settings."""
    (folder / SETTINGS_FILE).write_text(settings.encoded(), encoding="utf-8")
    own = names.get(_PATH)
    path = _EMPTY if own is None else f"{HOOK}{os.pathsep}{own or _EMPTY}"  # as `pipebench_hook.with_hook`
    return {**names, VARIABLE: str(folder), _PATH: path}


def ignores_the_hook(command: Sequence[str]) -> bool:
    """Whether this command is a Python that ignores PYTHONPATH (-E, -I) or has no start-up file (-S).

    >>> ignores_the_hook(["/usr/bin/python3.12", "-sI", "train.py"]), ignores_the_hook(["python", "train.py", "-I"])
    (True, False)
    """
    if not _runs_python(command):
        return False
    rest = iter(command[1:])
    for one in rest:
        if not one.startswith("-") or one.startswith("--") or one[1:2] in ("", "c", "m"):
            return False
        letters = re.split(f"[{_WITH_ARGUMENT}]", one[1:], maxsplit=1)
        if set(letters[0]) & set("EIS"):
            return True
        if len(letters) > 1 and not letters[1]:
            next(rest, None)
    return False


def _runs_python(command: Sequence[str]) -> bool:
    return bool(command) and bool(_PYTHON.match(os.path.basename(command[0])))


def lost_the_hook(environment: Mapping[str, str]) -> bool:
    """Whether a process that starts with this environment cannot find our start-up file.

    >>> lost_the_hook({"PYTHONPATH": "."})
    True
    """
    found = environment.get(_PATH, "").split(os.pathsep)
    return not environment.get(VARIABLE) or not {os.fspath(HOOK), _EMPTY} & set(found)


def _has_torch(pid: int) -> bool:
    """Whether torch's library is in the memory of this process."""
    with suppress(OSError), open(f"/proc/{pid}/maps", "rb") as maps:
        return any(_TORCH in line for line in maps)
    return False


@dataclass
class SeenProgram:
    """What was seen from outside of one program, whose process has the number `pid` and its records in `folder`."""

    pid: int
    folder: Path
    looker: Looker
    stacks: StackReader
    _first: Load | None = None

    def runs(self) -> bool:
        """Whether its process still runs."""
        with suppress(psutil.Error):
            return bool(psutil.Process(self.pid).status() != psutil.STATUS_ZOMBIE)
        return False

    def note_load(self) -> None:
        """Notes who uses the cores. The other programs of the command count as others."""
        with suppress(psutil.Error):
            now = replace(read_load(), own_s=_cpu_s(psutil.Process(self.pid), self.looker.pids()))
            self._first = self._first or now
            self.looker.found.load = now - self._first


def _cpu_s(program: psutil.Process, others: Iterable[int]) -> float:
    """The CPU time of a process, of its workers that live, and of those that it has waited for."""
    found = sum(program.cpu_times()[:4])
    for pid in set(others) - {program.pid}:
        with suppress(psutil.Error):
            found += sum(psutil.Process(pid).cpu_times()[:2])
    return float(found)


class Programs:
    """Looks at every program that has a folder in `folder`, from the moment at which it is found.

    By their ids, `hidden` are the Python processes of the command that ignore our start-up file. `lost` are those in
    which it did not run, though they have torch: they were started with another PYTHONPATH, or find a `sitecustomize`
    of the user's first, or are of a Python that is too old.
    """

    def __init__(self, folder: Path) -> None:
        self.hidden: dict[int, list[str]] = {}
        self.lost: dict[int, list[str]] = {}
        self.faults: list[str] = []
        self.exits = Exits()
        self._folder = folder
        self._found: dict[Path, SeenProgram] = {}
        self._taking = threading.Lock()
        self._own_command = psutil.Process().cmdline()
        self._own_children = {one.pid for one in psutil.Process().children(recursive=True)}

    def all(self) -> list[SeenProgram]:
        """Every program, in the order in which they were found."""
        return list(self._found.values())

    def take_new(self) -> None:
        """Raises OSError if somebody has removed the folder."""
        with self._taking:
            for one in sorted(self._folder.iterdir()):
                if one not in self._found and one.is_dir():
                    pid = int(one.name.partition("-")[0])
                    self._found[one] = SeenProgram(pid, one, Looker(one), StackReader(one))
                    self.exits.follow(pid)

    def look(self) -> None:
        self.take_new()
        for one in self.all():
            one.looker.look()
            one.note_load()
        self._look_for_unwatched()

    def glance(self) -> None:
        for one in self.all():
            one.looker.glance()

    def failed(self, error: Exception) -> None:
        self.faults.append(told(error))

    def _look_for_unwatched(self) -> None:
        for one in psutil.Process().children(recursive=True):
            if one.pid in self._own_children or one.pid in self.hidden or one.pid in self.lost:
                continue
            with suppress(psutil.Error):
                command = one.cmdline()
                if command == self._own_command or not _runs_python(command):
                    continue
                if ignores_the_hook(command):
                    self.hidden[one.pid] = command
                elif self._is_lost(one, command):
                    self.lost[one.pid] = command

    def _is_lost(self, one: psutil.Process, command: Sequence[str]) -> bool:
        environment = one.environ()
        if lost_the_hook(environment):
            return _has_torch(one.pid)
        another = environment[VARIABLE] != os.fspath(self._folder)  # `pipebench watch` within the command
        if another or any(part in word for part in _OTHERWISE for word in command) or self._records(one):
            return False
        if not _has_torch(one.pid):
            return False
        self.take_new()  # it has its folder before it has torch
        return not self._records(one)

    def _records(self, one: psutil.Process | None) -> bool:
        """Whether it has a folder, or a process that has started it, whose fork it may be."""
        known = {each.pid for each in self.all()}
        while one is not None and one.pid not in known:
            one = one.parent()
        return one is not None


class _Stacks:
    """The readers of stacks of all programs, as one."""

    def __init__(self, programs: Programs) -> None:
        self._programs, self._turn = programs, 0
        self.failed = programs.failed

    def look(self) -> None:
        if self._turn % _EACH == 0:
            self._programs.take_new()
        self._turn += 1
        for one in self._programs.all():
            one.stacks.look()

    def end(self) -> None:
        for one in self._programs.all():
            one.stacks.end()


@contextmanager
def looking(looker: Looker | Programs, reader: StackReader | _Stacks) -> Iterator[None]:
    """Looks again and again while the block runs, at the processes and at their stacks."""
    glancing = looked_at(looker.glance, looker.failed)
    with looked_at(looker.look, looker.failed), glancing, read_meanwhile(reader):
        yield


@contextmanager
def looked_at_all(programs: Programs) -> Iterator[None]:
    """Looks at the programs again and again while the block runs."""
    with exits_noted(programs.exits, programs.failed), looking(programs, _Stacks(programs)):
        yield
    with suppress(OSError):
        programs.take_new()  # what began after the last look, and has ended
