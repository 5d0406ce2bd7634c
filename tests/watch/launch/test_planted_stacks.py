"""Frames and code objects planted in memory, laid out as in several versions of CPython: which functions are found."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from pipebench.watch.launch.stacks import Stack
from pipebench.watch.record.lines import StackPlace
from pipebench.watch.record.own_code import Function

CODE_TYPE, THREAD, FIRST_FRAME, FIRST_CODE = 0x5000, 0x10000, 0x20000, 0x40000
INSTRUCTIONS_AT, LINES_AT, FIRST_LINE_AT, FILE_AT, NAME_AT = 200, 136, 68, 112, 128


class Planted:
    """Memory of known content. What was not planted is zero."""

    def __init__(self) -> None:
        self._bytes = bytearray(1 << 20)
        self._free = 0x80000

    def put(self, address: int, form: str, *values: Any) -> None:
        struct.pack_into(form, self._bytes, address, *values)

    def content(self, content: bytes) -> int:
        """Plants an object with a size and bytes, as a `str` of ASCII or a `bytes`; gives its address."""
        self._free += 1024
        self.put(self._free + 16, "=Q", len(content))
        self._bytes[self._free + 32 : self._free + 32 + len(content)] = content
        return self._free

    def bytes(self, address: int, length: int) -> bytes:
        return bytes(self._bytes[address : address + length])

    def word(self, address: int) -> int:
        return int(struct.unpack_from("=Q", self._bytes, address)[0])

    def code(self, address: int, file: str, name: str) -> None:
        self.put(address + 8, "=Q", CODE_TYPE)
        self.put(address + FIRST_LINE_AT, "=i", 10)
        table = (lambda: None).__code__.co_linetable
        for at, one in ((FILE_AT, file.encode()), (NAME_AT, name.encode()), (LINES_AT, table)):
            self.put(address + at, "=Q", self.content(one))


# release -> the way to the running frame, where a frame has its code, its previous frame and its instruction, and the
# tag of a pointer to code. `stack_place` found those of 3.11.7, 3.12.1 and 3.13.0; 3.14 is 3.13 with tagged pointers.
LAYOUTS: dict[str, tuple[list[int], int, int, int, int]] = {
    "3.11": ([56, 8], 32, 48, 56, 0),
    "3.12": ([56, 0], 0, 8, 56, 0),
    "3.13": ([72], 0, 8, 56, 0),
    "3.14": ([72], 0, 8, 56, 1),
}


def _stack(release: str, functions: list[tuple[str, str] | None]) -> Stack:
    """A stack of these functions (file, name), the deepest first. None: a frame whose code is no code object."""
    way, code_at, previous_at, instruction_at, tag = LAYOUTS[release]
    memory, at = Planted(), THREAD
    for step, offset in enumerate(way[:-1]):
        memory.put(at + offset, "=Q", THREAD + 0x1000 * (step + 1))
        at = THREAD + 0x1000 * (step + 1)
    memory.put(at + way[-1], "=Q", FIRST_FRAME)
    for number, function in enumerate(functions):
        frame, code = FIRST_FRAME + 0x100 * number, FIRST_CODE + 0x400 * number
        if function is not None:
            memory.code(code, *function)
        memory.put(frame + code_at, "=Q", code | tag)
        memory.put(frame + previous_at, "=Q", frame + 0x100 if number + 1 < len(functions) else 0)
        memory.put(frame + instruction_at, "=Q", code + INSTRUCTIONS_AT)
    place = StackPlace(
        1, 7, 1, THREAD, way, code_at, previous_at, instruction_at, FILE_AT, NAME_AT, LINES_AT, FIRST_LINE_AT,
        INSTRUCTIONS_AT, 32, 32, CODE_TYPE, 128, 4096, 32,
    )  # fmt: skip
    return Stack(place, memory)


@pytest.mark.parametrize("release", LAYOUTS)
def test_what_the_interpreter_puts_between_functions_is_passed_over(release: str) -> None:
    """From 3.12 on: an entry frame ("<shim>") before each call from C, and one ("__init__") before a constructor."""
    planted = [("data.py", "load"), ("<shim>", "<shim>"), ("data.py", "Photo.__init__"), ("__init__", "__init__"),
               ("<shim>", "<interpreter trampoline>"), ("data.py", "item")]  # fmt: skip
    found = list(_stack(release, [*planted]).functions())
    assert [(one.file, one.name) for one in found] == [
        ("data.py", "load"), ("data.py", "Photo.__init__"), ("data.py", "item"),
    ]  # fmt: skip
    assert all(isinstance(one, Function) and one.line >= 10 for one in found)


@pytest.mark.parametrize("release", LAYOUTS)
def test_a_frame_without_a_code_object_is_passed_over(release: str) -> None:
    """From 3.13 on, the entry frame has None in the place of its code."""
    found = list(_stack(release, [("data.py", "load"), None, ("data.py", "item")]).functions())
    assert [one.name for one in found] == ["load", "item"]


@pytest.mark.parametrize("release", LAYOUTS)
def test_a_constructor_of_the_user_s_is_kept(release: str) -> None:
    """Only the interpreter's own frame has "__init__" for its file too."""
    assert [one.name for one in _stack(release, [("data.py", "__init__")]).functions()] == ["__init__"]
