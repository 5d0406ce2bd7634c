"""Reads the stacks of processes from outside, at random moments: where a row without names spends its time.

A thread inside the process could look only when it gets the interpreter's lock, so it would see the places that release
the lock too often. A reader outside needs no lock. `tools/drilling_bias.py` measures both.
"""

from __future__ import annotations

import errno
import json
import os
import random
import shutil
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter_ns, thread_time
from typing import NamedTuple, Protocol

from pipebench.watch.launch.footprint import again_and_again
from pipebench.watch.launch.lock_waits import waits_for_lock
from pipebench.watch.record.lines import StackPlace
from pipebench.watch.record.memory import Memory
from pipebench.watch.record.own_code import Function, Place, own_place
from pipebench.watch.record.recording import told
from pipebench.watch.worker.stack_place import FOLDER

EACH_S = 0.02
MOST_LOOKS = 20_000  # of all processes; when there are so many, every second is dropped, and looks are half as frequent
_OF_ITS_TIME = 200  # looks may take a 200th of one core
_OF_THE_LOOKS = 10  # new processes are looked for each tenth time
_TAG = ~7  # Python 3.14 marks pointers in their lowest bits
_PAGE = 4096
_TRIES = 4  # of a stack that changes while it is read
_DEEPEST = 200
_LONGEST = 1_000_000
_SIZE_AT, _BYTES_AT = 16, 32
_MOST_FILES = 200
_MOST_NAMES = 200_000  # of files, in all sets that are kept
_NO_DATA = ("/dev/", "/proc/", "/sys/", "/memfd:")


class Reads(Protocol):
    """The memory of a process: see `watch.record.memory.Memory`."""

    def bytes(self, address: int, length: int) -> bytes: ...

    def word(self, address: int) -> int: ...


class Look(NamedTuple):
    """What one look saw: the moment, the number of the stage, and the place (None: it could not be read).

    `files` are those that the process had open (None: not known). `at_lock`: it waited in the kernel for the lock of a
    file (None: not known).
    """

    at: int
    stage: int
    place: Place | None
    files: frozenset[str] | None = None
    at_lock: bool | None = None


class Fetching(NamedTuple):
    """A process that fetches for a loader: its number, when its recording began, and the loader's number."""

    pid: int
    began: int
    loader: int


@dataclass
class Looks:
    """All looks, by who fetched. `refused` says why there are none, or no more."""

    of: dict[Fetching, list[Look]] = field(default_factory=dict)
    refused: str | None = None


class Stack:
    """The stack of the fetching thread of one process. What changes while it is read gives a ValueError or OSError."""

    def __init__(self, place: StackPlace, memory: Reads) -> None:
        self._place, self._memory = place, memory
        self._span = max(place.code_at, place.previous_at, place.instruction_at) + 8
        self._codes: dict[int, _Code | None] = {}

    def stage(self) -> int:
        """The number of the present stage; 0 if no batch is being fetched."""
        number, rest = divmod(self._memory.word(self._place.stage) - self._place.zero, self._place.number_bytes)
        return 0 if rest else number

    def functions(self) -> Iterator[Function]:
        """The functions on the stack, the deepest first, each with the line that it has reached."""
        place, memory = self._place, self._memory
        frame = place.thread
        for offset in place.to_frame:
            frame = memory.word(frame + offset)
        start, piece = 0, b""
        for _ in range(_DEEPEST):
            if not frame:
                return
            if not start <= frame <= start + len(piece) - self._span:
                start = frame - frame % _PAGE  # neighbours on the stack are read at once, so that they belong together
                piece = memory.bytes(start, frame - start + self._span)
            code, previous, instruction = (
                struct.unpack_from("=Q", piece, frame - start + at)[0]
                for at in (place.code_at, place.previous_at, place.instruction_at)
            )
            found = self._code(code & _TAG)
            if found is not None:
                yield Function(found.file, found.name, found.line(instruction))
            frame = previous

    def _code(self, address: int) -> _Code | None:
        """The code object at an address; None if there is none, or if it is one that the interpreter keeps itself."""
        if address not in self._codes:
            if len(self._codes) > 10_000:
                self._codes.clear()
            self._codes[address] = self._read_code(address)
        return self._codes[address]

    def _read_code(self, address: int) -> _Code | None:
        place, memory = self._place, self._memory
        try:
            if memory.word(address + 8) != place.code_type:
                return None
        except OSError:
            return None
        (first_line,) = struct.unpack("=i", memory.bytes(address + place.first_line_at, 4))
        lines = memory.word(address + place.lines_at)
        table = memory.bytes(lines + _BYTES_AT, self._size(lines))
        file, name = (self._text(memory.word(address + at)) for at in (place.file_at, place.name_at))
        if file == "<shim>" or file == name == "__init__":
            return None  # what Python 3.12 and later put between C and Python, and before a constructor
        return _Code(file, name, first_line, table, address + place.instructions_at)

    def _size(self, address: int) -> int:
        size = self._memory.word(address + _SIZE_AT)
        if size > _LONGEST:
            raise ValueError("not the size of a text")
        return size

    def _text(self, address: int) -> str:
        """A text, whatever the width of its characters: each form ends in a zero and has no other."""
        size = self._size(address)
        for at, width, encoding in (
            (self._place.ascii_at, 1, "latin-1"),
            (self._place.wide_at, 1, "latin-1"),
            (self._place.wide_at, 2, "utf-16-le"),
            (self._place.wide_at, 4, "utf-32-le"),
        ):
            raw = self._memory.bytes(address + at, (size + 1) * width)
            with suppress(UnicodeDecodeError):
                text = raw.decode(encoding, "surrogatepass")
                if text.find("\0") == size:
                    return text[:size]
        raise ValueError("not a text")


class _Code:
    """A code object of another process: its names, and the line of each instruction."""

    def __init__(self, file: str, name: str, first_line: int, table: bytes, begin: int) -> None:
        self.file, self.name, self._first_line, self._begin = file, name, first_line, begin
        same = _code_of_none.replace(co_firstlineno=first_line, co_linetable=table)
        self._lines = [(begin, end, line) for begin, end, line in same.co_lines() if line]

    def line(self, instruction: int) -> int:
        offset = instruction - self._begin
        return next((line for begin, end, line in self._lines if begin <= offset < end), self._first_line)


_code_of_none = (lambda: None).__code__


class StackReader:
    """Looks at every process that has told where its stack lies, until it has enough looks or the process is gone."""

    def __init__(self, folder: Path, memory: Callable[[int], Reads] = Memory) -> None:
        self.found = Looks()
        self._folder, self._memory = folder / FOLDER, memory
        self._folder.mkdir(exist_ok=True)
        self._stacks: dict[Fetching, Stack] = {}
        self._places: dict[Place | None, Place | None] = {}  # equal places are kept once
        self._files: dict[frozenset[str], frozenset[str]] = {}  # as are equal sets of files, up to so many `names`
        self._names = 0
        self._turn, self._every = 0, 1

    def failed(self, error: Exception) -> None:
        self.found.refused = told(error)

    def look(self) -> None:
        """Looks once at each process, or passes over this turn."""
        if self._turn % _OF_THE_LOOKS == 0:
            self._take_new()
        self._turn += 1
        if self._turn % self._every:
            return
        for who, stack in list(self._stacks.items()):
            if self._seen(who, stack):
                del self._stacks[who]
        if sum(map(len, self.found.of.values())) > MOST_LOOKS:
            self._thin_out()

    def _thin_out(self) -> None:
        """Drops every second look, and looks half as often. So the looks stay spread evenly over the whole run."""
        self._every *= 2
        for looks in self.found.of.values():
            del looks[::2]

    def _take_new(self) -> None:
        for name in os.listdir(self._folder):
            if not name.endswith(".part"):
                path = self._folder / name
                _, fields = json.loads(path.read_bytes())
                place = StackPlace(**fields)
                path.unlink()
                who = Fetching(place.pid, place.began, place.loader)
                self._stacks[who] = Stack(place, self._memory(place.pid))
                self.found.of.setdefault(who, [])  # another thread of a process may fetch from now on

    def end(self) -> None:
        """Removes the folder, so that no process tells any more."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def _seen(self, who: Fetching, stack: Stack) -> bool:
        """Looks at one process. Returns whether that was the last time."""
        at, stage, place, files, at_lock = perf_counter_ns(), 0, None, None, None
        try:
            stage = stack.stage()
            if stage:
                at_lock = waits_for_lock(who.pid)
                place = _place_of(stack, stage)
                files = open_files(who.pid) if place is not None else None
            if stage != stack.stage():
                place = files = None  # the row has ended meanwhile
        except OSError as error:
            if error.errno == errno.ESRCH:
                return True
            if error.errno != errno.EFAULT:
                self.failed(error)
                return True
        except (ValueError, struct.error):
            pass  # the stack changed while it was read
        if stage:
            place = self._places.setdefault(place, place)
            self.found.of[who].append(Look(at, stage, place, self._once(files), at_lock))
        return False

    def _once(self, files: frozenset[str] | None) -> frozenset[str] | None:
        """The set that is kept of these files; None if there is no room for another one."""
        if files is None or files in self._files or self._names + len(files) > _MOST_NAMES:
            return self._files.get(files) if files is not None else None
        self._names += len(files)
        return self._files.setdefault(files, files)


def _place_of(stack: Stack, stage: int) -> Place | None:
    """The place that a stack is at; one that changed while it was read is read again at once, while its row goes on."""
    for _ in range(_TRIES):
        try:
            place = own_place(stack.functions())
        except (ValueError, struct.error):
            place = None
        except OSError as error:
            if error.errno != errno.EFAULT:
                raise
            place = None
        if place is not None or stage != stack.stage():
            return place
    return None


def open_files(pid: int) -> frozenset[str] | None:
    """The files of a file system that a process has open; None if the system does not say, or if they are very many."""
    folder, found = f"/proc/{pid}/fd", []
    try:
        numbers = os.listdir(folder)
    except OSError:
        return None
    if len(numbers) > _MOST_FILES:
        return None
    for one in numbers:
        with suppress(OSError):  # it was closed meanwhile
            found.append(os.readlink(f"{folder}/{one}"))
    return frozenset(one for one in found if one.startswith("/") and not one.startswith(_NO_DATA))


class Frugal:
    """Chooses when the present thread looks next, at random, so that it uses at most its share of one core."""

    def __init__(self, chance: random.Random, clock: Callable[[], float] = thread_time) -> None:
        self._chance, self._clock, self._spent = chance, clock, clock()

    def wait_s(self) -> float:
        """Seconds until the next look. All CPU time of the thread since the last call counts, waking up included."""
        before, self._spent = self._spent, self._clock()
        return max(EACH_S, _OF_ITS_TIME * (self._spent - before)) * (0.5 + self._chance.random())


class Reader(Protocol):
    """A `StackReader`, or several of them as one."""

    def look(self) -> None: ...

    def failed(self, error: Exception) -> None: ...

    def end(self) -> None: ...


@contextmanager
def read_meanwhile(reader: Reader) -> Iterator[None]:
    """Looks again and again, at random moments, while the block runs. An error ends only the looking."""
    thrift: list[Frugal] = []  # made by the thread that looks, whose CPU time it measures

    def once() -> float:
        if not thrift:
            thrift.append(Frugal(random.Random()))
        reader.look()
        return thrift[0].wait_s()

    try:
        with again_and_again(once, EACH_S, reader.failed, "pipebench stacks"):
            yield
    finally:
        reader.end()
