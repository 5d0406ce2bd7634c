"""Takes an output apart: any nested value becomes a list of leaves, each with its place, type, shape, dtype and digest.

This file runs inside a side of a comparison (`round_process` reads it by its path). It uses the standard library, and
NumPy, torch and Pillow only where the benchmark has imported them. A leaf is plain data, so it can be sent.
"""

from __future__ import annotations

import dataclasses
import enum
import hashlib
import io
import os
import sys
from collections import deque
from collections.abc import Callable, ItemsView, Mapping, Sequence, Set, ValuesView
from typing import Any

Leaf = tuple[str, str, str, tuple[int, ...], str, str]  # part, place, type, shape, dtype, digest
Content = tuple[str, bytes]  # NumPy's name of a dtype, and the values
Numbers = Callable[[], Any] | None

MOST_LEAVES = 20_000  # what comes after is one leaf
DEEPEST = 40
CHECKOUT = "<checkout>"  # stands in texts for the folder of the commit, which differs between the sides
PLAIN = ("builtins", "datetime", "decimal", "fractions", "pathlib", "uuid", "ipaddress")  # a repr says it all
NUMBERS = (bool, int, float)
NAMED = ("function", "builtin_function_or_method", "method", "type", "module")


class Leaves:
    """The leaves of the values that were added, and the contents of those whose numbers are `wanted`.

    `folder` is the commit's own; texts that name it are equal on both sides. `unread` are the types of values whose
    contents cannot be compared, only that there is one.
    """

    def __init__(self, folder: str = "", wanted: Sequence[int] = ()) -> None:
        self.contents: dict[int, Content] = {}
        self.unread: set[str] = set()
        self._found: list[Leaf] = []
        self._folder, self._wanted = folder, frozenset(wanted)
        self._rest, self._more = hashlib.blake2b(digest_size=16), 0
        self._above: list[int] = []  # identities of the values around the present one
        self._part = ""

    @property
    def found(self) -> list[Leaf]:
        if not self._more:
            return self._found
        return [*self._found, ("output", "the rest", "values", (self._more,), "", self._rest.hexdigest())]

    def add(self, part: str, place: str, value: Any) -> None:
        """Takes `value` apart. `part` says what it is: an input, or an output."""
        self._part = part
        self._add(place, value)

    def _add(self, place: str, value: Any) -> None:
        if id(value) in self._above or len(self._above) > DEEPEST:
            self._put(place, "repeated", (), type(value).__name__, b"")
            return
        self._above.append(id(value))
        try:
            take = next(take for fits, take in KINDS if fits(value))
            take(self, place, value)
        except Exception:  # its contents are unknown then; that is no fault of the benchmark
            self._unknown(place, value)
        finally:
            self._above.pop()

    def _put(self, place: str, kind: str, shape: Sequence[int], dtype: str, raw: Any, content: Numbers = None) -> None:
        """Adds a leaf. `raw` are the bytes of its digest; `content` makes an array of its numbers."""
        digest = hashlib.blake2b(raw, digest_size=16).hexdigest()
        leaf = (self._part, place, kind, tuple(int(one) for one in shape), dtype, digest)
        if len(self._found) >= MOST_LEAVES:
            self._rest.update(repr(leaf).encode())
            self._more += 1
            return
        if content is not None and len(self._found) in self._wanted:
            array = content()
            self.contents[len(self._found)] = (array.dtype.str, array.tobytes())
        self._found.append(leaf)

    def _unknown(self, place: str, value: Any) -> None:
        self.unread.add(type(value).__name__)
        self._put(place, type(value).__name__, (), "", b"")

    def _text(self, value: str) -> str:
        return value.replace(self._folder, CHECKOUT) if self._folder else value

    def _string(self, place: str, value: str) -> None:
        said = self._text(value)
        self._put(place, "str", (len(said),), "", said.encode("utf-8", "surrogatepass"))

    def _bytes(self, place: str, value: Any) -> None:
        raw = bytes(value)
        self._put(place, type(value).__name__, (len(raw),), "uint8", raw, lambda: _numpy().frombuffer(raw, "u1"))

    def _buffer(self, place: str, value: io.BytesIO | io.StringIO) -> None:
        """A file in memory. Where it stands decides what whoever reads it gets."""
        self._entries(place, {"contents": value.getvalue(), "position": value.tell()}, type(value).__name__, ".{}")

    def _number(self, place: str, value: Any) -> None:
        name = type(value).__name__
        said = repr(value) if isinstance(value, float) else hex(value)  # of a long number Python refuses the digits
        self._put(place, name, (), name, said.encode(), lambda: _numpy().array(float(value)))

    def _plain(self, place: str, value: Any) -> None:
        said = repr(value)
        if hex(id(value)) in said:  # a generator, for example: where it lies in memory says nothing about it
            self._unknown(place, value)
            return
        self._put(place, type(value).__name__, (), "", self._text(said).encode("utf-8", "surrogatepass"))

    def _thing(self, place: str, value: Any) -> None:
        self._put(place, type(value).__name__, (), "", getattr(value, "__qualname__", value.__name__).encode())

    def _tensor(self, place: str, value: Any) -> None:
        torch = sys.modules["torch"]
        if value.is_nested:
            self._items(place, list(value.unbind()), type(value).__name__)
            return
        if getattr(value, "__dict__", None):  # such as the format of bounding boxes
            self._entries(place, vars(value), type(value).__name__, ".{}")
        plain, kind = value.detach(), type(value).__name__
        if plain.layout != torch.strided:  # to make it dense is work that is left to whoever uses it
            plain, kind = plain.to_dense(), f"{kind}, {str(plain.layout).removeprefix('torch.')}"
        plain = plain.as_subclass(torch.Tensor)
        plain = plain.dequantize() if plain.is_quantized else plain
        plain = plain.cpu().resolve_conj().resolve_neg().contiguous()
        raw = plain.reshape(-1).view(torch.uint8).numpy()
        dtype = str(value.dtype).removeprefix("torch.")
        self._put(place, kind, tuple(value.shape), dtype, raw, lambda: _numbers(torch, plain))

    def _array(self, place: str, value: Any) -> None:
        numpy = _numpy()
        kind, array = type(value).__name__, numpy.asarray(value)
        if isinstance(value, numpy.ma.MaskedArray):
            self._items(place, [value.filled(0), numpy.ma.getmaskarray(value)], kind)
        elif array.dtype.hasobject and not array.dtype.names:
            self._items(place, array.tolist(), kind)
        elif array.dtype.names:
            self._entries(place, {name: array[name] for name in array.dtype.names}, kind)
        else:
            numeric = (lambda: array) if array.dtype.kind in "biuf" else None
            self._put(place, kind, array.shape, str(array.dtype), array.tobytes(), numeric)

    def _image(self, place: str, value: Any) -> None:
        """A Pillow image, of whichever class. One that is still to be decoded leaves that work to whoever uses it."""
        kind = "Image, not yet decoded" if getattr(value, "tile", None) else "Image"
        raw = value.tobytes()
        shape = (value.height, value.width, len(value.getbands()))
        palette = bytes(value.getpalette() or []) if value.mode == "P" else b""
        eight = len(raw) == shape[0] * shape[1] * shape[2]
        numbers = (lambda: _numpy().frombuffer(raw, "u1")) if eight else None
        self._put(place, kind, shape, value.mode, raw + palette, numbers)

    def _mapping(self, place: str, value: Mapping[Any, Any] | ItemsView[Any, Any]) -> None:
        items = value if isinstance(value, ItemsView) else value.items()
        self._entries(place, {self._text(repr(key)): one for key, one in items}, type(value).__name__)

    def _entries(self, place: str, entries: Mapping[str, Any], kind: str, way: str = "[{}]") -> None:
        names = sorted(entries)
        self._put(place, kind, (), ", ".join(names), b"")
        for name in names:
            self._add(place + way.format(name), entries[name])

    def _sequence(self, place: str, value: Any) -> None:
        kind = type(value).__name__
        if hasattr(value, "_fields"):
            self._entries(place, dict(zip(value._fields, value, strict=True)), kind, ".{}")
        elif value and all(type(one) in NUMBERS for one in value):
            dtype = ", ".join(sorted({type(one).__name__ for one in value}))
            text = repr([one if isinstance(one, float) else hex(one) for one in value]).encode()
            self._put(place, kind, (len(value),), dtype, text, lambda: _numpy().array([float(one) for one in value]))
        else:
            self._items(place, value, kind)

    def _items(self, place: str, items: Sequence[Any], kind: str) -> None:
        self._put(place, kind, (len(items),), "", b"")
        for index, one in enumerate(items):
            self._add(f"{place}[{index}]", one)

    def _set(self, place: str, value: Any) -> None:
        """A set by the leaves of its members: the repr of one can leave something out, and of a set has any order."""
        members = []
        for one in value:
            taken = Leaves(self._folder)
            taken._above = [*self._above]
            taken.add("member", "", one)
            self.unread |= taken.unread
            members.append(repr(taken.found))
        self._put(place, type(value).__name__, (len(members),), "", "\n".join(sorted(members)).encode())

    def _values(self, place: str, value: ValuesView[Any]) -> None:
        self._items(place, list(value), type(value).__name__)

    def _arraylike(self, place: str, value: Any) -> None:
        """An object that NumPy can read, by its values and its public attributes, such as a label."""
        self._array(place, _numpy().asarray(value))
        held = {name: one for name, one in getattr(value, "__dict__", {}).items() if not name.startswith("_")}
        if held:  # what is private may be a cache, as in a table of pandas
            self._entries(place, held, type(value).__name__, ".{}")

    def _object(self, place: str, value: Any) -> None:
        """An object by its attributes."""
        slots = [name for one in type(value).__mro__ for name in getattr(one, "__slots__", ())]
        held = {name: getattr(value, name) for name in slots if isinstance(name, str) and hasattr(value, name)}
        held.update(getattr(value, "__dict__", {}))
        held.pop("__dict__", None)
        held.pop("__weakref__", None)
        if not held:
            self._unknown(place, value)
            return
        self._entries(place, held, type(value).__name__, ".{}")


def _numpy() -> Any:
    import numpy

    return numpy


def _numbers(torch: Any, plain: Any) -> Any:
    """The values of a tensor as an array; those of a dtype that NumPy lacks as float32."""
    if plain.is_complex():
        plain = torch.view_as_real(plain)
    try:
        return plain.numpy()
    except TypeError:
        return plain.to(torch.float32).numpy()


def _is(module: str, name: str) -> Callable[[Any], bool]:
    """Whether a value is of a class in a module that may not be imported."""

    def fits(value: Any) -> bool:
        found = getattr(sys.modules.get(module), name, None)
        return found is not None and isinstance(value, found)

    return fits


def _by_repr(value: Any) -> bool:
    """Whether a value is of a type whose repr says all of it."""
    own: Any = type(value).__repr__
    module = type(value).__module__
    known = (module == "torch" or module.partition(".")[0] in PLAIN) and own is not object.__repr__
    return value is None or isinstance(value, enum.Enum | os.PathLike | complex) or known


def _has_attributes(value: Any) -> bool:
    return dataclasses.is_dataclass(value) or hasattr(value, "__dict__") or hasattr(type(value), "__slots__")


KINDS: tuple[tuple[Callable[[Any], bool], Callable[[Leaves, str, Any], None]], ...] = (
    (lambda one: type(one) in NUMBERS, Leaves._number),
    (lambda one: isinstance(one, str) and not isinstance(one, enum.Enum), Leaves._string),
    (lambda one: isinstance(one, bytes | bytearray | memoryview), Leaves._bytes),
    (_is("mmap", "mmap"), Leaves._bytes),
    (lambda one: isinstance(one, io.BytesIO | io.StringIO), Leaves._buffer),
    (_is("torch", "Tensor"), Leaves._tensor),
    (_is("numpy", "ndarray"), Leaves._array),
    (_is("numpy", "generic"), Leaves._array),
    (_is("array", "array"), Leaves._array),
    (_is("PIL.Image", "Image"), Leaves._image),
    (lambda one: isinstance(one, Mapping | ItemsView), Leaves._mapping),
    (lambda one: isinstance(one, list | tuple | deque), Leaves._sequence),
    (lambda one: isinstance(one, ValuesView), Leaves._values),
    (lambda one: isinstance(one, Set), Leaves._set),
    (lambda one: type(one).__name__ in NAMED, Leaves._thing),
    (_by_repr, Leaves._plain),
    (lambda one: isinstance(one, NUMBERS), Leaves._number),
    (lambda one: hasattr(type(one), "__array__"), Leaves._arraylike),
    (_has_attributes, Leaves._object),
    (lambda one: True, Leaves._unknown),
)
