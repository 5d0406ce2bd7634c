"""How bytes, errors and checks pass between Python and the C pieces."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from pipebench.errors import SampleError

_MESSAGE_BYTES = 256  # as in reading.h
_KINDS = {1: "corrupt", 2: "truncated", 3: "unsupported", 4: "too-large", 5: "not-jpeg"}  # as in reading.h
_OUTSIDE, _OUT_OF_MEMORY = 6, 7

Message = ctypes.Array[ctypes.c_char]


def pointer(data: Any) -> tuple[Any, int]:
    """An object that ctypes passes as a pointer (it keeps the memory alive), and the number of bytes."""
    if isinstance(data, bytes):
        found: Any = data
        length = len(data)
    else:
        try:
            view = memoryview(data)
        except TypeError:
            raise TypeError(f"encoded data must be bytes-like or a tensor, not {type(data).__name__}") from None
        length = view.nbytes
        copied = view.readonly or not view.c_contiguous
        if length:  # c_char stands for the first of them; it keeps the buffer from being resized meanwhile
            found = view.tobytes() if copied else ctypes.byref(ctypes.c_char.from_buffer(view))
    if length == 0:
        raise SampleError("empty", "there are no bytes to decode")
    return found, length


def message() -> Message:
    """Room for what a C piece says about an error."""
    return ctypes.create_string_buffer(_MESSAGE_BYTES)


def error(kind: int, said: Message) -> Exception:
    """The exception for a kind that a C piece returned."""
    text = said.value.decode("utf-8", "replace")
    if kind == _OUTSIDE:
        return ValueError(text)
    if kind == _OUT_OF_MEMORY:
        return MemoryError(text)
    return SampleError(_KINDS[kind], text)


def check(function: str) -> Callable[[ctypes.CDLL], str | None]:
    """What `building.load` verifies a library with: its own function of that name, which says what is wrong."""

    def wrong_with(library: ctypes.CDLL) -> str | None:
        said = message()
        return said.value.decode("utf-8", "replace") if getattr(library, function)(said) else None

    return wrong_with
