"""Where tensors live, and which line of the user's code called an operation.

This module imports torch: import it only where it is used.
"""

from __future__ import annotations

import linecache
import re
import sys
import sysconfig
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import torch
from torch.multiprocessing import reductions

_weak: Callable[[Any], Any] = reductions.StorageWeakRef
_SWEEP = 4096
_OURS = str(Path(__file__).parent) + "/"
_TORCH = str(Path(torch.__file__).parent) + "/"
_LOADER = _TORCH + "utils/data/"
_COMPILED = _TORCH + "_dynamo/eval_frame.py"
_LIBRARIES = tuple(
    {
        _TORCH,
        *(sysconfig.get_path(name) + "/" for name in ("stdlib", "platstdlib", "purelib", "platlib")),
    }
)
_NO_FILES = ("<frozen", "<string>", "<__array_function__")
_CPU = re.compile(r"\bcpu\b")


def tensors(value: Any, depth: int = 3) -> Iterator[torch.Tensor]:
    """The tensors in an argument or a result, a few containers deep."""
    if isinstance(value, torch.Tensor):
        yield value
    elif depth and isinstance(value, (list, tuple, set)):
        for item in value:
            yield from tensors(item, depth - 1)
    elif depth and isinstance(value, dict):
        yield from tensors(list(value.values()), depth)


class Placement:
    """Which tensors live on a device.

    A tensor on a real device does. With `pretend`, a CPU tensor does too, unless it is known as host data: built from
    Python or NumPy data, copied to the host, drawn from a DataLoader, or computed from host data only. This knowledge
    is kept for each storage, so that views share it.
    """

    def __init__(self, pretend: bool) -> None:
        self.pretend = pretend
        self.real_seen = False
        self._host: dict[int, Any] = {}
        self._pinned: dict[int, Any] = {}
        self._host_devices: list[Any] = []

    def on_device(self, tensor: Any) -> bool:
        if not isinstance(tensor, torch.Tensor) or tensor.device.type == "meta":
            return False
        if tensor.device.type != "cpu":
            self.real_seen = True
            return True
        return self.pretend and self.key(tensor) not in self._host

    def pinned(self, tensor: Any) -> bool:
        if not isinstance(tensor, torch.Tensor):
            return False
        return self.key(tensor) in self._pinned or (not self.pretend and tensor.is_pinned())

    def key(self, tensor: torch.Tensor) -> int:
        """Identifies the memory of a tensor; a fresh number where it has none of its own (sparse, wrapper, lazy)."""
        try:
            return int(tensor.untyped_storage()._cdata)
        except (NotImplementedError, RuntimeError, ValueError):
            return id(tensor)

    def mark(self, value: Any, *, host: bool, pinned: bool = False) -> None:
        """Notes where the tensors in `value` live."""
        for tensor in tensors(value):
            self._note(self._host, tensor, host)
            self._note(self._pinned, tensor, host and pinned)

    def _note(self, known: dict[int, Any], tensor: torch.Tensor, holds: bool) -> None:
        if not holds:
            known.pop(self.key(tensor), None)
            return
        try:
            # while it is kept, no other storage gets its address
            known[self.key(tensor)] = _weak(tensor.untyped_storage())
        except (NotImplementedError, RuntimeError, ValueError):
            return
        if len(known) > _SWEEP:
            for key in [key for key, storage in known.items() if storage.expired()]:
                del known[key]

    def note_outputs(self, inputs: list[torch.Tensor], outputs: Any, *, host: bool) -> None:
        """Notes that an operator's outputs live on the host if `host` says so or if all its inputs do."""
        if not self.pretend:
            return
        shared = {self.key(tensor) for tensor in inputs}
        host = host or (bool(inputs) and not any(self.on_device(tensor) for tensor in inputs))
        self.mark([tensor for tensor in tensors(outputs) if self.key(tensor) not in shared], host=host)

    def device_of_host(self, device: Any) -> Any:
        """Remembers a `torch.device` that was read from a host tensor, because it equals the pretended device."""
        self._host_devices = [*self._host_devices[-_SWEEP:], device]
        return device

    def means_host(self, device: Any) -> bool:
        """Whether a `device` argument of the call under way means the host.

        With `pretend`, "cpu" means the host only if it stands literally in the call. Code that chooses its device at
        the start has "cpu" in a variable on a machine without a device.
        """
        if isinstance(device, int) or torch.device(device).type != "cpu":
            return False
        if not self.pretend or any(device is known for known in self._host_devices):
            return True
        text = _call_text(_caller())
        return isinstance(device, str) if text is None else bool(_CPU.search(text))


@dataclass(frozen=True)
class Sight:
    """Facts about an operation from the stack: the user's line, whether a DataLoader runs, the compiled region."""

    path: str
    line: int
    in_loader: bool = False
    region: str | None = None


class Stack:
    """Finds the innermost line outside torch, site-packages and the standard library.

    `boundary` is the code that called the user's function; frames above it do not count. `home` is returned where no
    line is found, for instance because the function is in an installed package.
    """

    def __init__(self, boundary: CodeType | None, home: tuple[str, int] | None) -> None:
        self._boundary = boundary
        self._kinds: dict[str, str] = {}
        self.home = home or ("<unknown>", 0)

    def look(self) -> Sight:
        found: tuple[str, int] | None = None
        caller: tuple[str, int] | None = None
        in_loader = False
        region: str | None = None
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame.f_code is not self._boundary:
            kind = self._kind(frame.f_code.co_filename)
            if kind == "user":
                here = (frame.f_code.co_filename, frame.f_lineno)
                found = found or here
                caller = caller or (here if region else None)
            elif kind == "loader":
                in_loader = True
            elif kind == "compiled" and _compiles(frame):
                region, caller = _region_name(frame), None
            frame = frame.f_back
        path, line = (caller if region else found) or self.home
        return Sight(path, line, in_loader, region)

    def _kind(self, filename: str) -> str:
        kind = self._kinds.get(filename)
        if kind is None:
            kind = self._kinds[filename] = _classify(filename)
        return kind


def _classify(filename: str) -> str:
    if filename == _COMPILED:
        return "compiled"
    if filename.startswith(_LOADER):
        return "loader"
    if filename.startswith((*_NO_FILES, _OURS, *_LIBRARIES)) or "/site-packages/" in filename:
        return "library"
    return "user"


def _compiles(frame: FrameType) -> bool:
    """Whether a frame of dynamo calls a compiled function. One that calls what must not be compiled has no callback."""
    return frame.f_code.co_name in ("compile_wrapper", "_fn") and callable(frame.f_locals.get("callback"))


def _region_name(frame: FrameType) -> str:
    function = frame.f_locals.get("fn")
    return str(getattr(function, "__qualname__", None) or type(function).__qualname__)


def _caller() -> FrameType | None:
    """The Python frame that made the call which a function mode handles now."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith((_OURS, _TORCH + "utils/_device.py")):
        frame = frame.f_back
    return frame


def _call_text(frame: FrameType | None) -> str | None:
    """The source text of the current call in `frame`; None if there is no source."""
    if frame is None:
        return None
    first, last, begin, end = list(frame.f_code.co_positions())[frame.f_lasti // 2]
    lines = [linecache.getline(frame.f_code.co_filename, n) for n in range(first or 0, (last or first or 0) + 1)]
    if not first or not any(lines):
        return None
    if begin is None or end is None:
        return "".join(lines)
    raw = [line.encode() for line in lines]
    raw[-1] = raw[-1][:end]
    raw[0] = raw[0][begin:]
    return b"".join(raw).decode(errors="replace")
