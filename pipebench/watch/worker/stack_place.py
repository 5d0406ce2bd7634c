"""Tells the supervisor where the stack of the fetching thread lies, when a large row of it has no name.

The supervisor then reads the stack from outside: see `watch/launch/stacks.py`. Nothing of this process is stopped,
slowed or changed. The layout of the interpreter's structures is not built in: it is found here, in objects whose
content is known. In an interpreter where it cannot be found, nothing is told, and the report says why.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import struct
import sys
from threading import get_ident
from types import CodeType, FrameType
from typing import Any, NamedTuple

from pipebench.watch.record.exclusive_time import REST, StageTimer, stages
from pipebench.watch.record.lines import StackPlace, StageName
from pipebench.watch.record.memory import Memory
from pipebench.watch.record.record_file import encoded
from pipebench.watch.record.recording import Recording

FOLDER = "stacks"
UNNAMED_SHARE = 0.2
_KINDS = ("getitem", "collate", "function")
_LIBRARY = ("default_collate", "default_convert")
_SETTLED = 3  # batches: the first ones import modules and open files
_OFTEN, _EACH = 64, 16  # after so many batches, each 16th is looked at
_TAG = ~7  # Python 3.14 marks pointers in their lowest bits
_FIRST_LINE = 77_777
_HEAD = 16  # bytes: a count and a type; free-threaded builds have more


class LayoutError(Exception):
    """The interpreter's structures are not laid out as in any that is known."""


def drilled(stage: StageName) -> bool:
    """Whether a row is made of the user's own code, so that a reader asks what is inside."""
    return stage.own or (stage.kind in _KINDS and stage.name not in _LIBRARY)


class Teller:
    """Tells where the stack lies: as soon as a row without names takes more than a fifth of the fetches.

    It tells again if another thread fetches from then on.
    """

    def __init__(self, recording: Recording, timer: StageTimer, loader: int) -> None:
        self._recording, self._timer, self._loader = recording, timer, loader
        self._batches = self._seen = 0
        self._rows: list[int] = []
        self._told: int | None = None  # the thread whose stack was told

    def after_batch(self, busy_ns: int) -> None:
        """Called after each batch. `busy_ns` is the time of the fetches that the timer's sums are of."""
        self._batches += 1
        if self._batches > _OFTEN and self._batches % _EACH:
            return
        here = get_ident()
        if self._told == here or self._batches < _SETTLED:
            return
        if self._told is not None or self._unnamed() > UNNAMED_SHARE * busy_ns:
            self._told = here
            self._recording.guarded("telling where the stack lies", self._tell)

    def _unnamed(self) -> int:
        """The time of the largest row that can be drilled into."""
        if self._seen != len(stages.known):
            self._seen = len(stages.known)
            self._rows = [n for key, n in stages.known.items() if n != REST and drilled(key)]
        sums = self._timer.sums
        return max((sums[number] for number in self._rows), default=0)

    def _tell(self) -> None:
        folder = os.path.join(self._recording.settings.folder, FOLDER)
        if not os.path.isdir(folder):
            return  # no supervisor reads
        began = self._recording.file.began
        found = encoded(place_of(self._timer, self._loader, began))
        name = os.path.join(folder, f"{os.getpid()}-{began}-{self._loader}")
        try:
            with open(name + ".part", "xb") as file:
                file.write(found)
            os.rename(name + ".part", name)
        except OSError:  # the disk is full, which is no fault of ours: the row stays whole
            with contextlib.suppress(OSError):
                os.unlink(name + ".part")


class _Layout(NamedTuple):
    """Where things lie in this interpreter's structures, in bytes. `timer` is the place of a timer's present stage."""

    way: list[int]
    frame: tuple[int, int, int, int]
    code: tuple[int, int, int, int]
    instructions: int
    text: tuple[int, int]
    timer: int


def place_of(timer: StageTimer, loader: int, began: int) -> StackPlace:
    """Where the stack of this thread lies. Raises LayoutError or OSError if it cannot be found."""
    found = _layout()
    return StackPlace(
        os.getpid(), began, loader, _thread_state(), found.way, *found.frame[1:],
        *found.code, found.instructions, *found.text,
        id(CodeType), id(timer) + found.timer, id(0), id(1) - id(0),
    )  # fmt: skip


def learn() -> None:
    """Finds the layout here, for the workers that will be forked from here: it takes each of them milliseconds."""
    with contextlib.suppress(LayoutError, OSError):  # a worker will say so
        _layout()


@functools.cache
def _layout() -> _Layout:
    if object.__basicsize__ != _HEAD:
        raise LayoutError("objects have another head than in the usual builds of Python")
    memory = Memory(os.getpid())
    frame = _frame_layout(memory)
    marked = StageTimer()
    marked.current = marker = object()  # type: ignore[assignment]  # only to find the place of the attribute
    stage = _index(memory.words(id(marked), StageTimer.__basicsize__ // 8), id(marker)) * 8
    way = _way_to_frame(memory, _thread_state(), frame)
    return _Layout(way, frame, _code_layout(memory), _instructions_at(memory, frame), _text_layout(memory), stage)


def _thread_state() -> int:
    get: Any = ctypes.PyDLL(None).PyThreadState_Get  # not that of `ctypes.pythonapi`, which the script may use
    get.restype = ctypes.c_void_p
    return int(get())


def _index(words: tuple[int, ...], wanted: int) -> int:
    for place, word in enumerate(words):
        if word & _TAG == wanted & _TAG:
            return place
    raise LayoutError("a pointer was not found where it should be")


def _frame_layout(memory: Memory) -> tuple[int, int, int, int]:
    """The offset of the interpreter's frame in a frame object; in it, the offsets of code, previous and instruction."""
    return _layout_of(memory, sys._getframe())


def _layout_of(memory: Memory, here: FrameType) -> tuple[int, int, int, int]:
    """The same, of a frame that waits for this function. A frame that holds itself would keep all its callers alive."""
    back = here.f_back
    assert back is not None
    code = id(here.f_code)
    for inner, address in enumerate(memory.words(id(here), 6)):
        try:
            words = memory.words(address, 16)
            code_at = _index(words, code)
        except (OSError, LayoutError):
            continue
        previous_at = _index(words, memory.words(id(back), 6)[inner])
        end = code + here.f_code.__sizeof__()
        instruction = next((place for place, word in enumerate(words) if code + 64 < word < end), None)
        if instruction is None:
            break
        return 8 * inner, 8 * code_at, 8 * previous_at, 8 * instruction
    raise LayoutError("the frame of a function was not found")


def _of(memory: Memory, frame: FrameType, layout: tuple[int, int, int, int]) -> int:
    return memory.word(id(frame) + layout[0])


def _instructions_at(memory: Memory, layout: tuple[int, int, int, int]) -> int:
    """The offset of the first instruction in a code object, from a frame that waits for this function."""
    back = sys._getframe().f_back
    assert back is not None
    return memory.word(_of(memory, back, layout) + layout[3]) - id(back.f_code) - back.f_lasti


def _way_to_frame(memory: Memory, thread: int, layout: tuple[int, int, int, int]) -> list[int]:
    """The way from a thread's state to its running frame: the same from two depths of the stack."""
    found = [way for way in _ways(memory, thread, layout, 0) if way in _ways(memory, thread, layout, 3)]
    if not found:
        raise LayoutError("the running frame was not found")
    return min(found, key=lambda way: (len(way), way))


def _ways(memory: Memory, thread: int, layout: tuple[int, int, int, int], deeper: int) -> list[list[int]]:
    """Every way of one or two steps from a thread's state to the frame that runs while memory is read."""
    if deeper:
        return _ways(memory, thread, layout, deeper - 1)
    running, code_at, found = id(Memory.bytes.__code__), layout[1], []
    # Each read is a call of `words` from here, so that the frame that runs lies at the same address each time.
    for first, word in enumerate(memory.words(thread, 64)):
        try:
            inside = memory.words(word, 4)
        except OSError:
            continue
        for second, frame in enumerate((word, *inside)):
            try:
                code = memory.words(frame + code_at, 1)
            except OSError:
                continue
            if code and code[0] & _TAG == running:
                found.append([8 * first, 8 * second - 8] if second else [8 * first])
    return found


def _code_layout(memory: Memory) -> tuple[int, int, int, int]:
    """The offsets of the file, the name, the table of lines and the first line in a code object."""
    text = "\n" * (_FIRST_LINE - 2) + "class Planted:\n    def planted(self): pass"
    (body,) = _codes_in(compile(text, "a planted file", "exec"))
    (code,) = _codes_in(body)
    raw = memory.bytes(id(code), code.__sizeof__())
    words = struct.unpack_from(f"={len(raw) // 8}Q", raw)
    first_line = raw.find(struct.pack("=i", _FIRST_LINE))
    if first_line < 0:
        raise LayoutError("the first line of a function was not found")
    file, name, lines = (8 * _index(words, id(one)) for one in (code.co_filename, code.co_qualname, code.co_linetable))
    return file, name, lines, first_line


def _codes_in(code: CodeType) -> list[CodeType]:
    return [one for one in code.co_consts if isinstance(one, CodeType)]


def _text_layout(memory: Memory) -> tuple[int, int]:
    """Where the characters of a text begin: of one that is all ASCII, and of any other."""
    found = []
    for text, encoding in (("plain text", "ascii"), ("t\u00e9xt", "latin-1")):
        found.append(memory.bytes(id(text), text.__sizeof__()).find(text.encode(encoding)))
    if min(found) < 0:
        raise LayoutError("the characters of a text were not found")
    return found[0], found[1]
