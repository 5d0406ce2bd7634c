"""Times the functions that a dataset calls by name while it makes a sample, such as `load_mosaic` or `get`.

Their names are read from the code of `__getitem__` (or what stands for it), and from the code of what that calls. A
method is one of its class, also of an object that the dataset holds, such as a reader. A dataset inside another one is
a row by its `__getitem__`, however it is reached. What is not the dataset's own is touched only in a worker's own
process, but for datasets and callable objects of the user's own classes. Of a function behind `functools.lru_cache`,
the misses are timed: its own code is another one while the cache around it stays as it is.
"""

from __future__ import annotations

import functools
import inspect
import os
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from pipebench.watch.record.exclusive_time import stages
from pipebench.watch.record.own_code import is_standard
from pipebench.watch.record.patches import Patches, is_ours, is_wrapper
from pipebench.watch.record.worker_lines import Holds
from pipebench.watch.stages import in_place

GETTERS = ("__getitem__", "__getitems__", "__iter__", "__next__")
_DEEPEST = 3
_MOST = 60
_WRAPPERS = 8  # of torch around one dataset
# arrays and modules; `finding_transforms` sees to the latter. Of arrays in files, the user's line that reads is told
_WITHOUT_READERS = ("torch", "numpy", "builtins", "zarr", "h5py", "xarray")
_TORCHS_DATA = "torch.utils.data"
_STANDARD = os.path.dirname(os.__file__) + os.sep
_INSTALLED = ("site-packages", "dist-packages")
_FUNCTIONS = (types.FunctionType, functools._lru_cache_wrapper)
_OF_LINK = "mask_function"  # of Hugging Face's `filter`: the row of that link has its time, see `iterables`


class _Allowed(NamedTuple):
    """What may be timed. `may_change` is true in a worker only. Classes of `transforms` have rows of their own."""

    may_change: bool
    transforms: frozenset[type] = frozenset()


class _Called(NamedTuple):
    """A function, what holds it, its name there, the name of its row, and the object that is its `self`.

    `dictionary` tells a holder that is a dict from an object.
    """

    holder: Any
    name: str
    function: Any
    row: str
    of: Any
    dictionary: bool = False


def functions_called(
    datasets: Sequence[Any], may_change: bool, transforms: frozenset[type] = frozenset()
) -> list[tuple[types.FunctionType, str, Holds]]:
    """The functions that these datasets call, the names of their rows, and what their caches hold.

    The first of the datasets holds the others. `may_change` is true in a worker only. `transforms` are the classes of
    objects that have rows anyway.
    """
    allowed = _Allowed(may_change, transforms)
    found = [(plain_function(one.function), one.row, held_by(one.function)) for one in _all(datasets, allowed)]
    return [(function, row, holds) for function, row, holds in found if function is not None]


def watch_called(functions: Iterable[tuple[types.FunctionType, str, Holds]], patches: Patches) -> None:
    """Times these functions, but those that are timed already."""
    for function, row, holds in functions:
        if in_place.can_be_timed(function):
            stage = stages.number("function", row, holds=holds)
            in_place.watch(function, stage, patches, whole=True)


def replace_called(
    datasets: Sequence[Any],
    patches: Patches,
    row: str,
    wrap: Callable[..., Any],
    transforms: frozenset[type] = frozenset(),
) -> int:
    """Replaces the functions whose row is called `row`, in a worker's own copy of these datasets. Returns how many.

    `wrap` gets a function, or the cache around it, and as `of_object` whether its first argument is the object that it
    is a method of.
    """
    found = [one for one in _all(datasets, _Allowed(True, transforms)) if one.row == row]
    for one in found:
        method = one.of is not None and not isinstance(one.function, staticmethod)
        _replace(one, patches, functools.partial(wrap, of_object=method))
    return len(found)


def _all(datasets: Sequence[Any], allowed: _Allowed) -> list[_Called]:
    seen = {id(getter.__code__) for getter in _of_whole_samples(datasets)}
    kinds = [*map(type, datasets)]
    found = [one for dataset in datasets for one in _inner(kinds, dataset, seen, allowed)]
    return found + [
        one
        for dataset in datasets
        if not _without_readers(type(dataset))
        for getter in _getters(dataset)
        for one in _from(getter, dataset, seen, allowed, 0)
    ]


def _of_whole_samples(datasets: Sequence[Any]) -> Iterator[types.FunctionType]:
    """The getters in the row of the whole sample: of the first dataset, or of what torch's wrappers of one hold."""
    for one in datasets[:1]:
        inside = one
        for _ in range(_WRAPPERS):
            held = _attributes(inside).get("dataset")
            if held is None or not type(inside).__module__.startswith(_TORCHS_DATA):
                break
            inside = held
        yield from _getters(inside)


def _inner(kinds: Sequence[type], dataset: Any, seen: set[int], allowed: _Allowed) -> Iterator[_Called]:
    """The getters of single samples and of batches of a dataset inside another one, each once.

    `kinds` are the classes of all datasets: a getter that several of them inherit has the name of its own class.
    """
    for name in GETTERS[:2]:
        owner, getter = in_class(type(dataset), name)
        if owner is None or not isinstance(getter, types.FunctionType) or id(getter.__code__) in seen:
            continue
        if _without_readers(owner) or not (allowed.may_change or is_own(getter)):
            continue
        if len(seen) < _MOST:
            seen.add(id(getter.__code__))
            same = {kind for kind in kinds if in_class(kind, name)[1] is getter}
            of = type(dataset) if len(same) == 1 else owner
            yield _Called(owner, name, getter, f"{of.__name__}.{name}", dataset)


def _without_readers(kind: type) -> bool:
    return kind.__module__.split(".")[0] in _WITHOUT_READERS


def _attributes(one: Any) -> dict[str, Any]:
    return getattr(one, "__dict__", {})


def _getters(dataset: Any) -> Iterator[types.FunctionType]:
    for name in GETTERS:
        _, found = in_class(type(dataset), name)
        if isinstance(found, types.FunctionType) and not _is_torchs(found):
            yield found


def _is_torchs(getter: Any) -> bool:
    return str(getattr(getter, "__module__", "")).startswith(_TORCHS_DATA)


def in_class(kind: type, name: str, caller: Any = None) -> tuple[type | None, Any]:
    """The class that defines an attribute, and what it holds; without running a descriptor.

    If `caller` is a method of that name, this is what `super()` finds in it.
    """
    defined = [(base, vars(base)[name]) for base in kind.__mro__ if name in vars(base)]
    callers = [getattr(found, "__wrapped__", found) is caller for _, found in defined]
    return next(iter(defined[callers.index(True) + 1 if any(callers) else 0 :]), (None, None))


def _from(
    function: types.FunctionType, dataset: Any, seen: set[int], allowed: _Allowed, depth: int
) -> Iterator[_Called]:
    """What `function` calls, and what that calls in turn: in the same package, in the user's code, and in a getter.

    What a library does inside an object that the user's own code asks for an item is not followed.
    """
    for found in _named(function, dataset, allowed):
        lazy = _generator_function(found.function)
        plain = lazy or plain_function(found.function)
        if plain is None or id(plain.__code__) in seen or len(seen) >= _MOST:
            continue
        seen.add(id(plain.__code__))
        if not lazy:
            yield found
        of_dataset = found.name in GETTERS and (found.of is dataset or not is_own(function))
        follows = of_dataset or _package(plain) == _package(function) or is_own(plain)
        if depth < _DEEPEST and follows:
            yield from _from(plain, found.of, seen, allowed, depth + 1)


def _named(function: types.FunctionType, dataset: Any, allowed: _Allowed) -> Iterator[_Called]:
    """Methods of the dataset, and functions that `function` finds among its globals, by the names in its code."""
    names = [*dict.fromkeys(_names(function.__code__))]
    kind, held, known = type(dataset), _attributes(dataset), function.__globals__
    for name in names:
        owner, found = in_class(kind, name, function)
        if owner is not None and name in GETTERS:
            yield _Called(owner, name, None if _is_torchs(found) else found, f"{owner.__name__}.{name}", dataset)
        elif owner is not None and not name.startswith("__"):
            yield _Called(owner, name, found, f"{kind.__name__}.{name}", dataset)
        elif name in held and name != _OF_LINK:
            yield from _of_held(held, name, names, allowed)
        elif allowed.may_change:
            yield from _of_globals(known, name, names)


def _of_globals(known: dict[str, Any], name: str, names: list[str]) -> Iterator[_Called]:
    """What the code that uses a global calls: a function, or functions of a module."""
    if isinstance(known.get(name), types.ModuleType):
        yield from _in_module(known[name], names)
    elif name in known:
        yield _Called(known, name, known[name], name, None, True)


def _of_held(held: dict[str, Any], name: str, names: list[str], allowed: _Allowed) -> Iterator[_Called]:
    """What the code that uses an attribute calls: a function, or methods of the object that it holds."""
    one = held[name]
    yield from _call_of(one, allowed.transforms)
    if allowed.may_change:
        yield _Called(held, name, one, name, None, True)
        yield from _methods(one, names)


def _call_of(one: Any, transforms: frozenset[type]) -> Iterator[_Called]:
    """`__call__` of an object whose class is the user's own, and no module, which may be one of the model."""
    kind = type(one)
    owner, found = in_class(kind, "__call__")
    module = getattr(sys.modules.get("torch.nn"), "Module", ())
    if kind in transforms or isinstance(one, module):
        return
    if isinstance(found, types.FunctionType) and is_own(found):
        yield _Called(owner, "__call__", found, f"{kind.__name__}.__call__", one)


def _methods(one: Any, names: list[str]) -> Iterator[_Called]:
    """Methods of an object that a dataset holds, by the names in the code that uses it.

    `one[index]` has no name there.
    """
    kind = type(one)
    if _without_readers(kind):
        return
    for name in ("__getitem__", *(name for name in names if not name.startswith("__"))):
        owner, found = in_class(kind, name)
        if isinstance(found, _FUNCTIONS):
            yield _Called(owner, name, found, f"{kind.__name__}.{name}", one)


def _in_module(module: types.ModuleType, names: list[str]) -> Iterator[_Called]:
    """Functions of a library that is called by its module's name. The standard library is left alone."""
    file = getattr(module, "__file__", None) or ""
    if any(place in file for place in _INSTALLED) or (file and not file.startswith(_STANDARD)):
        for name in names:
            if isinstance(vars(module).get(name), _FUNCTIONS):
                yield _Called(module, name, vars(module)[name], f"{module.__name__.split('.')[0]}.{name}", None)


def _names(code: types.CodeType) -> Iterator[str]:
    """The names of globals and attributes in a piece of code, and in the functions that it makes."""
    for one in with_inner(code):
        yield from one.co_names


def with_inner(code: types.CodeType) -> Iterator[types.CodeType]:
    """A piece of code, and that of the functions which it makes."""
    yield code
    for one in code.co_consts:
        if isinstance(one, types.CodeType):
            yield from with_inner(one)


def _generator_function(found: Any) -> types.FunctionType | None:
    """A generator function. A call of it does no work, but what it calls works inside the row that takes its items."""
    inner = _without_static(found)
    lazy = isinstance(inner, types.FunctionType) and inspect.isgeneratorfunction(inner) and not is_wrapper(inner)
    return inner if lazy and not is_standard(inner.__code__.co_filename) else None


def plain_function(found: Any) -> types.FunctionType | None:
    """The function that is to be timed; None if a call of it tells nothing, or if it is not a function."""
    inner = uncached(_without_static(found))
    if not in_place.can_be_timed(inner):
        return None
    file = inner.__code__.co_filename
    return None if is_ours(file) or is_standard(file) else inner


def uncached(found: Any) -> Any:
    """The function that an `lru_cache` calls when it misses; anything else is what it is."""
    return getattr(found, "__wrapped__", found) if isinstance(found, functools._lru_cache_wrapper) else found


def held_by(found: Any) -> Holds:
    """How many results an `lru_cache` holds; None of what is none."""
    inner = _without_static(found)
    if not isinstance(inner, functools._lru_cache_wrapper) or not hasattr(inner, "cache_parameters"):
        return None
    most = inner.cache_parameters()["maxsize"]
    return "all" if most is None else most


def _without_static(found: Any) -> Any:
    return found.__func__ if isinstance(found, staticmethod) else found


def _package(function: types.FunctionType) -> str:
    return (function.__module__ or "").split(".")[0]


def is_own(function: types.FunctionType) -> bool:
    """Whether a function is the user's own: neither installed nor of the standard library."""
    file = function.__code__.co_filename
    return not (is_standard(file) or any(place in file for place in _INSTALLED))


def _replace(found: _Called, patches: Patches, wrap: Callable[[Any], Any]) -> None:
    plain = _without_static(found.function)
    wrapped = wrap(plain)
    if not found.dictionary:
        patches.replace(found.holder, found.name, staticmethod(wrapped) if plain is not found.function else wrapped)
        return
    module, name = sys.modules.get(plain.__module__), plain.__name__
    if module is not None and vars(module).get(name) is plain:
        patches.replace(module, name, wrapped)
    found.holder[found.name] = wrapped
