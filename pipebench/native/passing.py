"""How bytes, errors and checks pass between Python and the C pieces."""

from __future__ import annotations

import ctypes
import sys
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


def address(data: Any) -> tuple[int, int, Any]:
    """Where the bytes of an object lie, their number, and what keeps them there: it must live as long as they are used.

    A 1-D uint8 tensor in host memory will do too. Raises as `pointer`, and `TypeError` for another tensor.
    """
    imported = sys.modules.get("torch")
    if imported is not None and isinstance(data, imported.Tensor):
        check_tensor(data)
        data = data.contiguous()
        if data.numel() == 0:
            raise SampleError("empty", "there are no bytes to decode")
        return data.data_ptr(), data.numel(), data
    found, length = pointer(data)
    return ctypes.cast(found, ctypes.c_void_p).value or 0, length, found


def check_tensor(data: Any) -> None:
    """Raises `TypeError` for a tensor that is not 1-D, uint8 and in host memory."""
    if data.dtype != sys.modules["torch"].uint8 or data.dim() != 1 or data.device.type != "cpu":
        raise TypeError(
            f"encoded data must be a 1-D uint8 tensor in host memory, not {data.dtype} of shape {tuple(data.shape)} "
            f"on {data.device}"
        )


def check_out(out: Any, shape: tuple[int, ...]) -> None:
    """Raises `ValueError` for an `out` that is not a contiguous uint8 tensor of that shape in host memory."""
    torch = sys.modules["torch"]
    wanted = f"out must be a contiguous uint8 tensor of shape {shape} in host memory"
    if not isinstance(out, torch.Tensor):
        raise ValueError(f"{wanted}, not {type(out).__name__}")
    if (out.dtype, tuple(out.shape), out.device.type) != (torch.uint8, shape, "cpu") or not out.is_contiguous():
        kind = "" if out.is_contiguous() else "gaps in "
        raise ValueError(f"{wanted}, not {kind}{out.dtype} of shape {tuple(out.shape)} on {out.device}")


def message() -> Message:
    """Room for what a C piece says about an error."""
    return ctypes.create_string_buffer(_MESSAGE_BYTES)


def error(kind: int, said: Message, of: str = "") -> Exception:
    """The exception for a kind that a C piece returned. Its text begins with `of`."""
    text = of + said.value.decode("utf-8", "replace")
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
