"""The line of the user's own code that works in Python inside forward, as far as its writer can change that.

What layers and operations of torch do is training itself, and no line is told for it.
"""

from __future__ import annotations

import dis
import itertools
import os
import sys
from collections.abc import Collection
from types import CodeType, FrameType
from typing import NamedTuple

from pipebench.watch.record.own_code import WAITS, line_reached, owner, plain_name
from pipebench.watch.record.per_code import per_code
from pipebench.watch.script.loop_place import outwards
from pipebench.watch.script.own_python import NESTED, loops_inside

_TORCH = f"{os.sep}torch{os.sep}"
_DRAWS = "_next_index"  # of torch's iterators: it asks the batch sampler
_TRAINS = tuple(_TORCH + one for one in ("autograd", "nn", "optim", "amp", "_dynamo"))
# Libraries whose functions are no layers. Those of the standard library have no folder of installed packages.
_LIBRARIES = ("numpy", "scipy", "PIL", "cv2", "pandas", "sklearn", "skimage", "matplotlib")
# Libraries that judge, decode or show what a model gave: these compute no model themselves.
_JUDGE = ("torchmetrics", "evaluate", "nltk", "sacrebleu", "rouge_score", "jiwer", "pycocotools", "tokenizers")
# Functions in C, which leave no frame. Of these names torch has none that a model computes with.
_BUILT_IN = frozenset({
    "list", "tuple", "dict", "set", "sorted", "zip", "map", "enumerate", "sum", "any", "all", "int", "float", "str",
    "print", "open",
})  # fmt: skip
_METHODS = frozenset({
    "tolist", "item", "cpu", "numpy", "array", "asarray", "tensor", "as_tensor", "FloatTensor", "LongTensor",
    "IntTensor", "sample", "choice", "choices", "shuffle", "permutation", "integers", "random", "append",
    "appendleft", "copy", "extend", "insert", "popleft", "join", "encode", "decode", "loads", "dumps", "read",
    "write", "sleep",
})  # fmt: skip
_WAITS_FOR_TENSORS = ("tolist", "item", "cpu", "numpy", "int", "float")  # of these, a device may be at work
_JOINS = ("stack", "cat", "concat", "concatenate", "hstack", "vstack")  # Python work, if they join a list of many
_BARE = ("LOAD_GLOBAL", "LOAD_NAME")
_LOADS = ("LOAD_ATTR", "LOAD_METHOD", *_BARE, "LOAD_FAST", "LOAD_FAST_BORROW", "LOAD_DEREF")  # of 3.14, too
# In loops inside one another, these are about one element.
_ELEMENTS = ("BINARY_SUBSCR", "STORE_SUBSCR", "BINARY_SLICE", "STORE_SLICE", "COMPARE_OP", "CONTAINS_OP", "FOR_ITER")


class OwnLine(NamedTuple):
    """A line of a function of the user's own, and what it calls there ("": the interpreter itself works)."""

    file: str
    function: str
    line: int
    calls: str = ""


def own_line(frame: FrameType | None, loop: int, inside: range | None) -> OwnLine | None:
    """The innermost line of the user's own code in a loop, if it works in Python. None: layers, or operations of torch.

    Or if it waits in a module of `WAITS`: the reader knows whether that may be for a device.
    `loop` is the frame of the loop by identity, and `inside` are its instructions.
    """
    one, inner = _innermost(frame, loop)
    if one is None:
        return None
    called = (_by_library(inner) or _waiting(inner)) if inner else _by_itself(one, loop, inside)
    return None if called is None else _line_at(one, called)


def innermost_line(frame: FrameType | None, loop: int) -> OwnLine | None:
    """The innermost line of the user's own code in a loop, whatever it calls. `loop` is as in `own_line`."""
    one, _ = _innermost(frame, loop)
    return None if one is None else _line_at(one)


def _innermost(frame: FrameType | None, loop: int) -> tuple[FrameType | None, list[CodeType]]:
    """The innermost frame of the user's own code, up to that of the loop, and the code below it, the deepest first."""
    inner: list[CodeType] = []
    for one in outwards(frame):
        if not owner(one.f_code.co_filename):
            return one, inner
        if id(one) == loop:
            break
        inner.append(one.f_code)
    return None, inner


def _line_at(frame: FrameType, calls: str = "") -> OwnLine:
    return OwnLine(frame.f_code.co_filename, name_of(frame.f_code), line_reached(frame), calls)


def line_of_sampler(frame: FrameType | None) -> OwnLine | None:
    """The innermost line of the user's own code in what gives a loader its indices. None: the thread is not there."""
    found = None
    for one in outwards(frame):
        code = one.f_code
        if code.co_name == _DRAWS and _TORCH in code.co_filename:
            return found
        if found is None and not owner(code.co_filename):
            found = _line_at(one)
    return None


def works_apart(frame: FrameType | None, loop: int, inside: range | None, calling: Collection[CodeType]) -> bool:
    """Whether Python of the user's own is at work besides a model, or a library that it calls and that is no torch.

    The frame is in no model. `calling` are functions that lead to a model's call: a library's, as of text generation,
    are a part of that. `loop` and `inside` are as in `own_line`.
    """
    one, inner = _innermost(frame, loop)
    if one is None:
        return False
    called = _by_itself(one, loop, inside) if not inner else _by_any_library(inner, calling)
    return called is not None and called.rpartition(".")[2] not in _WAITS_FOR_TENSORS


def _by_any_library(inner: list[CodeType], calling: Collection[CodeType]) -> str | None:
    """As `_by_library`, also where another library calls the one that is known, as one for pictures or metrics."""
    if _trains(inner) or any(code in calling for code in inner):
        return None
    if (name := owner(inner[-1].co_filename)) in _JUDGE:
        return name
    return _by_library(inner) or _by_library(inner[:1])


def name_of(code: CodeType) -> str:
    """The name that a function has for its reader; "" for the code of a module, or for a lambda's."""
    name = plain_name(code.co_qualname)
    return "" if name.startswith("<") else name


def _by_library(inner: list[CodeType]) -> str | None:
    """What the line calls, of which the frames are `inner`, the deepest first. None: it is, or may be, training."""
    if _trains(inner):
        return None
    first = inner[-1].co_filename
    name = owner(first)
    standard = not first.startswith("<") and name in sys.stdlib_module_names
    known = name in _LIBRARIES or (standard and name not in WAITS)
    return _name(name, inner[-1]) if known else None


def _waiting(inner: list[CodeType]) -> str | None:
    """What a line calls that waits in a module for that, or whose library does; None: it does not, or trains."""
    name = owner(inner[0].co_filename)
    return _name(name, inner[0]) if name in WAITS and not _trains(inner) else None


def _name(library: str, code: CodeType) -> str:
    return f"{library}.{plain_name(code.co_qualname).rpartition('.')[2]}"


def _trains(inner: list[CodeType]) -> bool:
    return any(part in code.co_filename for code in inner for part in _TRAINS)


def _by_itself(frame: FrameType, loop: int, inside: range | None) -> str | None:
    """What the line calls in C; "" if the interpreter works there. None: it may be an operation of torch."""
    if called := _called(frame.f_code, frame.f_lasti):
        return called
    name = _operation(frame.f_code, frame.f_lasti)
    if "JUMP_BACKWARD" in name:  # there, Python hands its lock over, if no function in C has let it go
        return ""
    return "" if name in _ELEMENTS and loops_inside(frame, loop, inside) >= NESTED else None


@per_code(4096)
def _operation(code: CodeType, last: int) -> str:
    return next((one.opname for one in _instructions(code) if one.offset == last), "")


@per_code(4096)
def _called(code: CodeType, last: int) -> str:
    """The name of a function in C that is called at this instruction, if it is one of those above; else ""."""
    told = _instructions(code)
    at = next((one for one in told if one.offset == last), None)
    if at is None or at.opname.removeprefix("PRE") not in ("CALL", "CALL_KW", "CALL_FUNCTION_EX"):
        return ""
    spans = [one for one in told if one.offset < last and one.opname in _LOADS and _begins(at, one)]
    named = max(spans, key=_end, default=None)
    if named is None or not isinstance(named.argval, str):
        return ""
    alone = len({_end(one) for one in spans}) == 1  # nothing before a dot
    if alone:
        return named.argval if named.opname in _BARE and named.argval in _BUILT_IN else ""
    if named.argval in _JOINS:
        return f"{_first(spans)}{named.argval}" if not _few_are_joined(told, named, at) else ""
    return f"{_first(spans)}{named.argval}" if named.argval in _METHODS else ""


def _first(spans: list[dis.Instruction]) -> str:
    """The module before the name, as in `torch.stack`; "" for a method of something."""
    first = min(spans, key=_end)
    return f"{first.argval}." if first.opname in _BARE and len({_end(one) for one in spans}) == 2 else ""


def _few_are_joined(told: tuple[dis.Instruction, ...], named: dis.Instruction, call: dis.Instruction) -> bool:
    """Whether what is joined is written out, as `[a, b]`: then it is an operation of the model."""
    return any(
        one.opname in ("BUILD_LIST", "BUILD_TUPLE") and bool(one.argval) and not isinstance(after.argval, CodeType)
        for one, after in itertools.pairwise(told)
        if named.offset < one.offset < call.offset
    )


def _begins(call: dis.Instruction, one: dis.Instruction) -> bool:
    """Whether `one` loads the begin of what `call` calls."""
    a, b = call.positions, one.positions
    if a is None or b is None or None in (*a, *b):
        return False
    return (a.lineno, a.col_offset) == (b.lineno, b.col_offset) and _end(one) < _end(call)


def _end(one: dis.Instruction) -> tuple[int, int]:
    found = one.positions
    return ((found.end_lineno or 0), (found.end_col_offset or 0)) if found is not None else (0, 0)


@per_code(256)
def _instructions(code: CodeType) -> tuple[dis.Instruction, ...]:
    return tuple(dis.get_instructions(code))
