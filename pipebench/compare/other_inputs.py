"""Other inputs for a function that is timed on one and the same: a cache shows in what they cost and what they give.

Such inputs are like the timed ones, with other contents: an array with its values moved, bytes with one more at their
end, a path by another name. They may make no sense to the function, so nothing but a cache is judged by them. This file
runs inside a side of a comparison (`round_process` reads it by its path). It uses the standard library, and NumPy,
torch and Pillow only where the benchmark has imported them.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import functools
import os
import sys
import tempfile
import time
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any

Call = Callable[[], Any]

WAYS = ("one more byte", "bytes moved")  # what becomes of bytes: most decoders ignore a byte after the end
INPUTS = 3
LONG_S = 0.5  # a call that takes longer is made on one other input only: counting its steps makes it many times slower
TOO_LONG_S = 5.0
DEEPEST = 8
FEWEST = 3  # values of an array or a list of numbers; fewer are rather a size or a position


class Others:
    """Makes callables with other inputs: `number` says which, `way` what becomes of bytes. `made` are these inputs.

    `links` is an empty folder for the other names of paths.
    """

    def __init__(self, number: int, way: str, links: str) -> None:
        self.made: list[Any] = []
        self._number, self._way, self._links = number, way, links

    def call(self, call: Call) -> Call | None:
        """The callable with other inputs; None if it has none that could be exchanged.

        Its inputs are the arguments that a `partial` has bound. If none of them can be exchanged, they are what the
        function took from around it (`lambda: decode(image)`), or the attributes of the object whose method it is.
        """
        made = self._callable(call, 0)
        return made if self.made else None

    def _callable(self, call: Any, depth: int) -> Any:
        if depth > DEEPEST:
            return call
        if isinstance(call, functools.partial):
            given = [self._value(one, 0) for one in call.args]
            named = {name: self._value(one, 0) for name, one in call.keywords.items()}
            return functools.partial(call.func if self.made else self._callable(call.func, depth + 1), *given, **named)
        if isinstance(call, types.FunctionType):
            return self._function(call, depth)
        if isinstance(call, types.MethodType):
            return types.MethodType(call.__func__, self._thing(call.__self__, 0))
        return self._thing(call, 0) if hasattr(call, "__dict__") and not isinstance(call, type) else call

    def _function(self, call: types.FunctionType, depth: int) -> Any:
        """The function with other values in its closure and its defaults; if there are none, with other functions.

        A default of a function that it calls is rather a table or a memo.
        """
        cells, defaults = call.__closure__ or (), (call.__defaults__ or ()) if depth == 0 else ()
        ways: tuple[Callable[[Any], Any], ...] = (lambda one: self._value(one, 0), lambda one: self._inner(one, depth))
        for exchanged in ways:
            held = tuple(types.CellType(exchanged(one.cell_contents)) if _is_filled(one) else one for one in cells)
            given = tuple(map(exchanged, defaults))
            if self.made:
                given = given or call.__defaults__ or ()
                made = types.FunctionType(call.__code__, call.__globals__, call.__name__, given, held)
                made.__kwdefaults__ = call.__kwdefaults__
                return made
        return call

    def _inner(self, value: Any, depth: int) -> Any:
        inner = isinstance(value, types.FunctionType | types.MethodType | functools.partial)
        return self._callable(value, depth + 1) if inner else value

    def _thing(self, value: Any, depth: int) -> Any:
        """A copy of an object with other values in its attributes, if it has any that can be exchanged."""
        held = {name: self._value(one, depth + 1) for name, one in list(getattr(value, "__dict__", {}).items())}
        changed = {name: one for name, one in held.items() if one is not value.__dict__[name]}
        if not changed:
            return value
        made = copy.copy(value)
        made.__dict__.update(changed)
        return made

    def _value(self, value: Any, depth: int) -> Any:
        """The value with other contents; the value itself if it has none that can be exchanged."""
        if depth > DEEPEST:
            return value
        made = next((make(self, value, depth) for fits, make in KINDS if fits(value)), value)
        if made is not value and not isinstance(value, list | tuple | dict) and not dataclasses.is_dataclass(value):
            self.made.append(made)
        return made

    def _items(self, value: Any, depth: int) -> Any:
        if len(value) >= FEWEST and all(type(one) in (int, float) for one in value):
            return self._numbers(value)
        items = [self._value(one, depth + 1) for one in value]
        if all(one is other for one, other in zip(items, value, strict=True)):
            return value
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)

    def _numbers(self, value: Any) -> Any:
        count = 1 + self._number % (len(value) - 1)
        moved = [*value[count:], *value[:count]]
        if moved == list(value):
            return value
        self.made.append(type(value)(*moved) if hasattr(value, "_fields") else type(value)(moved))
        return self.made[-1]

    def _entries(self, value: dict[Any, Any], depth: int) -> Any:
        made = {name: self._value(one, depth + 1) for name, one in value.items()}
        return value if all(made[name] is one for name, one in value.items()) else made

    def _array(self, value: Any, depth: int) -> Any:
        numpy = sys.modules["numpy"]
        if value.dtype.kind not in "biufc" or value.size < FEWEST:
            return value
        plain = numpy.asarray(value)
        moved = numpy.roll(plain, self._number + 1)
        if numpy.array_equal(moved, plain):
            moved = ~plain if plain.dtype.kind == "b" else plain + plain.dtype.type(self._number + 1)
        made = copy.deepcopy(value)
        made[...] = moved
        return made

    def _tensor(self, value: Any, depth: int) -> Any:
        torch = sys.modules["torch"]
        if value.layout != torch.strided or value.is_quantized or value.is_nested or value.numel() < FEWEST:
            return value
        with torch.no_grad():
            plain = value.detach().as_subclass(torch.Tensor)
            moved = plain.roll(self._number + 1)
            if torch.equal(moved, plain):
                moved = ~plain if plain.dtype == torch.bool else plain + self._number + 1
            made = copy.deepcopy(value)
            made.detach().as_subclass(torch.Tensor).copy_(moved)
        return made

    def _image(self, value: Any, depth: int) -> Any:
        made = value.copy()
        raw = value.tobytes()
        step = max(1, len(raw) // max(1, value.width * value.height)) * (self._number + 1)
        moved = raw[step:] + raw[:step]
        made.frombytes(moved if moved != raw else bytes((one + self._number + 1) % 256 for one in raw))
        return made

    def _bytes(self, value: Any, depth: int) -> Any:
        count = 1 + self._number % max(1, len(value) - 1)
        moved = bytes(value)[count:] + bytes(value)[:count]
        made = type(value)(bytes(value) + bytes([self._number + 1]) if self._way == WAYS[0] else moved)
        return made if made != value else value

    def _path(self, value: Any, depth: int) -> Any:
        """The same file or folder by another name: below a link to the top of all folders, so that all paths hold."""
        text = os.fspath(value)
        if not isinstance(text, str) or not (os.sep in text or "." in text.strip(".")) or not os.path.exists(text):
            return value
        link = os.path.join(self._links, str(self._number))
        with contextlib.suppress(FileExistsError):
            os.symlink(os.sep, link)
        made = type(value)(link + os.path.abspath(text))
        str(made), hash(made)  # a Path keeps both
        return made


def _is_filled(cell: types.CellType) -> bool:
    try:
        _ = cell.cell_contents
    except ValueError:
        return False
    return True


def _is(module: str, name: str) -> Callable[[Any], bool]:
    """Whether a value is of a class in a module that may not be imported."""

    def fits(value: Any) -> bool:
        found = getattr(sys.modules.get(module), name, None)
        return found is not None and isinstance(value, found)

    return fits


def _is_data(value: Any) -> bool:
    return dataclasses.is_dataclass(value) and not isinstance(value, type)


KINDS: tuple[tuple[Callable[[Any], bool], Callable[[Others, Any, int], Any]], ...] = (
    (_is("torch", "Tensor"), Others._tensor),
    (_is("numpy", "ndarray"), Others._array),
    (_is("PIL.Image", "Image"), Others._image),
    (lambda one: type(one) in (bytes, bytearray), Others._bytes),
    (lambda one: type(one) is str or isinstance(one, os.PathLike), Others._path),
    (lambda one: type(one) in (list, tuple) or (isinstance(one, tuple) and hasattr(one, "_fields")), Others._items),
    (lambda one: type(one) is dict, Others._entries),
    (_is_data, Others._thing),
)


def examined(timed: Call, fresh: Callable[[], Call], seed: Call, counted: Any, contents: Any) -> dict[str, Any]:
    """Calls a function on other inputs, twice on each, and counts the steps that it takes.

    `timed` is the callable that is timed; `fresh` gives it with its inputs set up anew. `seed` comes before each call;
    `counted` counts the steps of a `with` block; `contents` takes a value apart for comparison.

    Returns `repeated`: on how many inputs it took fewer steps the second time, for the same output, and on how many it
    was called; and `unchanged`: on how many it gave what it gives for the timed input. Or `unseen`: why it cannot be
    called on other inputs.
    """
    seed()
    begin = time.perf_counter()
    output = timed()
    if (call_s := time.perf_counter() - begin) > TOO_LONG_S:
        return {"unseen": "a call takes too long to count its steps"}
    known = contents(output)
    numbers = range(1, 2 if call_s > LONG_S else 1 + INPUTS)
    links = tempfile.mkdtemp(prefix="pipebench-inputs-", dir=os.environ.get("PIPEBENCH_AB"))
    failed: dict[str, Any] = {}
    try:
        for way in WAYS:
            try:
                return _by(way, links, numbers, fresh, known, seed, counted, contents)
            except Exception as error:  # it need not work on such inputs
                failed = {"unseen": f"it does not work on other inputs ({type(error).__name__})"}
        return failed
    finally:
        for name in os.listdir(links):
            os.unlink(os.path.join(links, name))
        os.rmdir(links)


def _by(
    way: str, links: str, numbers: Sequence[int], fresh: Callable[[], Call], known: Any, seed: Call, counted: Any,
    contents: Any,
) -> dict[str, Any]:  # fmt: skip
    alive = [Others(0, way, links)]  # another object at the place of an earlier one would have its identity
    warm = alive[0].call(fresh())
    if warm is None:
        return {"unseen": "none of its inputs can be exchanged for another"}
    seed()
    warm()  # what is set up once for such inputs is set up now

    def on_other(number: int) -> Iterator[tuple[int, Any]]:
        """The steps and the output of a call, and of a second one on the same input. A changed input is made anew."""
        call, others, before = None, Others(number, way, links), None
        for _ in range(2):
            if call is None or contents(others.made) != before:
                others = Others(number, way, links)
                alive.append(others)
                call = others.call(fresh())
                before = contents(others.made)
            if call is None:
                raise ValueError("no other input")
            seed()
            with counted() as steps:
                output = call()
            yield steps.count, contents(output)

    fewer = unchanged = 0
    for number in numbers:
        (first, output), (second, again) = on_other(number)
        fewer += second < first and output == again
        unchanged += output == known
    return {"repeated": (fewer, len(numbers)), "unchanged": (unchanged, len(numbers))}
