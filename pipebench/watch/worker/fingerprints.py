"""A number for what a batch or another value holds, by which several are known to be the same."""

from __future__ import annotations

import collections
import mmap
import pathlib
import sys
import types
import zlib
from typing import Any, NamedTuple

from pipebench.watch.record.from_handlers import forgiving

_MOST_BYTES, _MOST = 1 << 20, 4096  # bytes, and objects, of a batch that are looked at
_PLAIN = (str, bytes, int, float, bool)
_SINGLE = (type(None), *_PLAIN)
_NAMED = (dict, collections.OrderedDict)
_SEVERAL = (*_NAMED, list, tuple)
_MOST_WHOLE = 20_000  # objects of a value that is looked into as a whole


class _Plain:
    """An object that has nothing but its dictionary."""


class Whole(NamedTuple):
    """A number for a whole value, and how many bytes it holds."""

    number: int
    bytes: int


def fingerprint(batch: Any) -> int:
    """The same number for batches of the same texts, numbers, tensors and arrays, as far as one is looked into.

    0: nothing of that is in it. Objects of other kinds do not count.
    """
    found, left, waiting = 0, _MOST_BYTES, [batch]
    with forgiving():  # a batch may be an object of any kind
        for _ in range(_MOST):
            if not waiting or left <= 0:
                break
            one = waiting.pop()
            if type(one) is dict:
                waiting += [*one.values(), *one.keys()]
            elif type(one) in (list, tuple):
                waiting += one[: -_MOST - 1 : -1]
            elif (data := _bytes_of(one, left)) is not None:
                found, left = zlib.crc32(data, found), left - len(data)
    return found


def _bytes_of(one: Any, most: int) -> bytes | None:
    """The first bytes of a value; None of a kind that is not looked into. No code of a user's own class runs."""
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if type(one) in _PLAIN:
        short = one[:most] if type(one) in (str, bytes) else one
        return short if type(short) is bytes else repr(short).encode()[:most]
    if numpy is None or torch is None:
        return None
    if type(one) is torch.Tensor and one.device.type == "cpu" and one.layout == torch.strided:
        flat = _first(one.detach(), most // one.element_size()).reshape(-1)[: max(1, most // one.element_size())]
        return bytes(flat.contiguous().view(torch.uint8).numpy().data)
    if type(one) is numpy.ndarray and not one.dtype.hasobject:
        most //= max(1, one.itemsize)
        return bytes(numpy.ascontiguousarray(_first(one, most).reshape(-1)[: max(1, most)]).tobytes())
    return None


def _first(one: Any, most: int) -> Any:
    """As much of its first dimension as holds so many numbers: to flatten what does not lie in order copies it."""
    if not one.ndim or not len(one):
        return one
    row = (one.size if isinstance(one.size, int) else one.numel()) // len(one)
    return one[: most // row + 1] if row else one


def whole(value: Any, most: int, deep: bool = False) -> Whole | None:
    """A number for all of a value; None if it holds an object of another kind, or more than `most` bytes.

    What would be too much is not begun. No code of a user's own class runs. `deep`: objects of other kinds count by
    their attributes, if they have no others than those in their dictionary.
    """
    found, held, waiting, seen = 1, 0, [value], 0
    met: set[int] = set()
    while waiting:
        one = waiting.pop()
        kind = type(one)
        seen += 1 + (len(one) if kind in _SEVERAL else 0)
        if seen > _MOST_WHOLE:
            return None
        if kind in _SEVERAL:
            waiting += [*one.values(), *one.keys()] if kind in _NAMED else one
            found = zlib.crc32(f"{kind.__name__} of {len(one)}".encode(), found)
            continue
        form, data = _form_and_bytes(one, most - held)
        if data is None and deep and (attributes := attributes_of(one)) is not None:
            form, data = kind.__qualname__, b""
            if id(one) not in met:
                met.add(id(one))
                waiting.append(attributes)
        if data is None:
            return None
        found, held = zlib.crc32(data, zlib.crc32(form.encode(), found)), held + len(data)
    return Whole(found, held)


def attributes_of(one: Any) -> dict[str, Any] | None:
    """What an object has in its dictionary; None if its type, or one that it inherits from, keeps more elsewhere."""
    if type(one).__basicsize__ != _Plain.__basicsize__:
        return None
    try:
        found = object.__getattribute__(one, "__dict__")
    except AttributeError:  # it has slots
        return None
    return dict(found) if type(found) is dict else None


def _form_and_bytes(one: Any, most: int) -> tuple[str, bytes | None]:
    """What tells two values of the same bytes apart, and all bytes; None of a kind that is not looked into."""
    kind = type(one)
    if kind in _SINGLE:
        if kind in (str, bytes) and 4 * len(one) > most:
            return "", None
        return kind.__name__, one if kind is bytes else repr(one).encode("utf-8", "backslashreplace")
    if kind in (set, frozenset):
        return _of_set(one, most)
    if (number := number_of(one)) is not None:
        return str(number), b""
    if _is_told_by_repr(kind):
        return kind.__qualname__, repr(one).encode("utf-8", "backslashreplace")
    pictures = sys.modules.get("PIL.Image")
    if pictures is not None and kind is pictures.Image:
        width, height = one.size
        return f"{one.size} {one.mode}", one.tobytes() if 4 * width * height <= most else None
    size = size_of(one)
    data = _bytes_of(one, most) if 0 < size <= most else None
    return (f"{one.shape} {one.dtype}", data if len(data) == one.nbytes else None) if data is not None else ("", None)


def _of_set(several: Any, most: int) -> tuple[str, bytes | None]:
    if len(several) > _MOST or not all(type(one) in _SINGLE for one in several):
        return "", None
    data = " ".join(sorted(map(repr, several))).encode("utf-8", "backslashreplace")
    return type(several).__name__, data if len(data) <= most else None


def _is_told_by_repr(kind: type) -> bool:
    """Whether it is a path, a number of NumPy's, a dtype or a device."""
    if kind in (pathlib.PosixPath, pathlib.PurePosixPath, range, slice, complex):
        return True
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if torch is not None and kind in (torch.dtype, torch.device, torch.Size):
        return True
    return numpy is not None and kind.__module__ == "numpy" and issubclass(kind, (numpy.number, numpy.bool_))


def size_of(value: Any) -> int:
    """The bytes of the tensors, arrays and bytes in a value, as far as it consists of plain tuples, lists and dicts.

    Of one that repeats a smaller memory, it is that memory; 0 of what is a part of a file.
    """
    size, waiting, seen = 0, [value], 0
    while waiting:
        one = waiting.pop()
        kind = type(one)
        if kind in _SEVERAL:
            seen += len(one)
            if seen > _MOST:
                break
            waiting += one.values() if kind in _NAMED else one
        elif kind in (bytes, bytearray):
            size += len(one)
        else:
            size += _held(one)
    return size


def _held(one: Any) -> int:
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if numpy is not None and type(one) is numpy.ndarray:
        root = one
        while type(root.base) is numpy.ndarray:
            root = root.base
        return 0 if isinstance(root.base, (numpy.memmap, mmap.mmap)) else min(one.nbytes, root.nbytes)
    if torch is not None and type(one) is torch.Tensor and one.device.type == "cpu" and one.layout == torch.strided:
        memory = one.untyped_storage()
        return 0 if getattr(memory, "filename", None) else min(one.nbytes, memory.nbytes())
    return 0


def number_of(one: Any) -> int | None:
    """A number for a class, a module, or a function that holds nothing of its own; None of everything else."""
    kind = type(one)
    if kind is types.ModuleType:
        return zlib.crc32(str(vars(one).get("__name__")).encode())
    if kind is type:
        return zlib.crc32(f"{vars(one).get('__module__')}.{one.__qualname__}".encode())
    if kind is types.BuiltinFunctionType:
        holder = one.__self__
        return zlib.crc32(one.__qualname__.encode()) if holder is None or type(holder) is types.ModuleType else None
    if kind is not types.FunctionType or one.__closure__ or one.__defaults__ or one.__kwdefaults__:
        return None
    code = one.__code__
    return zlib.crc32(f"{code.co_filename}:{code.co_firstlineno} {one.__qualname__}".encode())
