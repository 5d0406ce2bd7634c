"""Finds the transforms that a dataset holds, also through wrappers and containers, and times them.

Objects are inspected through `vars` only, so no code of the script runs. For objects, their *class* is watched. Plain
functions are timed where they are, and only in a worker. What holds them stays as it is.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import itertools
import sys
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from pipebench.watch.record.exclusive_time import FUNCTIONS, innermost, stages
from pipebench.watch.record.own_code import users_class
from pipebench.watch.record.patches import Patches, is_wrapper
from pipebench.watch.stages import called, in_place, iterables
from pipebench.watch.stages.held_modules import HeldModules
from pipebench.watch.stages.transforms import timed_call, watched_by_library

_MOST_OBJECTS = 500
_MOST_ENTRIES = 100
_MOST_DATASETS, _DEEPEST_LISTS = 32, 2
_HOLDS_DATA = (
    "dataset", "datasets", "data", "source", "sources", "base", "inner", "wrapped", "ds", "datapipe", "datapipes",
    "source_datapipe", "ex_iterable", "ex_iterables", "d", "tls",  # Hugging Face's streaming datasets; fastai's loader
)  # fmt: skip
_TRANSFORM = (
    "tfm", "tfms", "preprocess", "preprocessing", "format_kwargs",  # the last: Hugging Face's datasets
    "after_item", "before_batch",  # fastai's loader
    "steps", "ops", "operations", "aug", "augs",  # what a pipeline of the user's own holds
)  # fmt: skip
_STEPS = ("transforms", "fs")  # what a Compose, or fastai's Pipeline, holds its entries in
_MODULE_LISTS = ("Sequential", "ModuleList")


class _InTuple:
    """A tuple that an object's attribute holds: an entry is replaced by giving the attribute a new tuple."""

    def __init__(self, attributes: dict[str, Any], name: str) -> None:
        self._attributes, self._name = attributes, name

    def __setitem__(self, place: int, entry: Any) -> None:
        found = self._attributes[self._name]
        self._attributes[self._name] = (*found[:place], entry, *found[place + 1 :])


def watch_tree(dataset: Any, patches: Patches, may_change: bool) -> HeldModules:
    """Times the transforms within `dataset`. `may_change` is true for a worker's own copy only.

    Returns the modules whose class is left alone, because it may be one of the model.
    """
    data = [dataset]
    found = list(_transforms(dataset, data))
    functions = called.functions_called(data, may_change, _classes(found))
    iterables.watch_chain(data[1:], patches)
    stages.tell_apart(entry for _, _, entry, _ in found)
    modules: dict[int, Any] = {}
    for _, _, entry, by_library in found:
        if by_library:
            continue
        inner = innermost(entry)
        if not isinstance(inner, (*FUNCTIONS, type)):
            if _may_be_in_model(type(inner)) and not may_change:
                modules[id(inner)] = inner
            else:
                _watch_class(type(inner), patches)
        elif may_change and (plain := called.plain_function(getattr(inner, "__func__", inner))) is not None:
            in_place.watch(plain, stages.of_transform(entry), patches)
    called.watch_called(functions, patches)
    return HeldModules((one, stages.of_transform(one)) for one in modules.values())


def transform_lists(dataset: Any) -> list[list[Any]]:
    """The lists of transforms within `dataset`, such as those of a Compose, each once."""
    found = {id(one): one for one, _, _, _ in _transforms(dataset, []) if type(one) is list}
    return list(found.values())


def replace_stage(
    dataset: Any,
    patches: Patches,
    name: str,
    of_objects: Callable[[Any, frozenset[int]], Any],
    of_function: Callable[[Any], Any],
) -> int:
    """Replaces the transforms whose row is called `name`, in a worker's own copy of `dataset`. Returns how many.

    `of_objects` gets the `__call__` of a class and the ids of its objects that are meant, and `of_function` a function.
    """
    found = list(_transforms(dataset, []))
    stages.tell_apart(entry for _, _, entry, _ in found)
    numbers = [stages.of_transform(one) for _, _, one, _ in found]
    rows = {number for key, number in stages.known.items() if (key.kind, key.name) == ("transform", name)}
    wanted = [one for one, number in zip(found, numbers, strict=True) if number in rows]
    objects: dict[type, set[int]] = {}
    for container, place, entry, _ in wanted:
        if not isinstance(entry, FUNCTIONS) and _takes_object(type(entry)):
            objects.setdefault(type(entry), set()).add(id(entry))
        elif isinstance(entry, FUNCTIONS) and container is not None:
            container[place] = of_function(entry)
            patches.on_undo(functools.partial(container.__setitem__, place, entry))
    for kind, ids in objects.items():
        patches.replace(kind, "__call__", of_objects(kind.__call__, frozenset(ids)))
    return len(wanted)


def replace_called(dataset: Any, patches: Patches, row: str, wrap: Callable[..., Any]) -> int:
    """Replaces a function that a dataset within `dataset` calls, by the name of its row: `called.replace_called`."""
    data = [dataset]
    classes = _classes(_transforms(dataset, data))
    return called.replace_called(data, patches, row, wrap, classes)


def _classes(found: Iterable[tuple[Any, Any, Any, bool]]) -> frozenset[type]:
    return frozenset(type(innermost(entry)) for _, _, entry, _ in found)


def _watch_class(kind: type, patches: Patches) -> None:
    """Times `__call__` of one class, its own or inherited. Nothing else of the class changes."""
    call = getattr(kind, "__call__", None)  # noqa: B004  # of the class, not whether it can be called
    if call is None or kind.__module__ == "builtins":
        return
    if not _takes_object(kind) or watched_by_library(kind) or (is_wrapper(call) and "__call__" in vars(kind)):
        return
    plain = getattr(call, "__wrapped__", call) if getattr(call, "_pipebench_call", False) else call
    wrapped: Any = timed_call(plain, stages.of_class(kind))
    wrapped._pipebench_call = True
    with contextlib.suppress(TypeError):  # a class written in C, such as that of `functools.lru_cache`
        patches.replace(kind, "__call__", wrapped)


def _takes_object(kind: type) -> bool:
    """Whether `__call__` is a method that gets the object: none of the class, no static one, no other callable."""
    _, held = called.in_class(kind, "__call__")
    without = staticmethod, classmethod, functools.partialmethod, types.BuiltinFunctionType
    return inspect.isroutine(held) and not isinstance(held, without)


def _may_be_in_model(kind: type) -> bool:
    """Whether the trained model may contain modules of this class; in the script's process, it is left alone."""
    module = getattr(sys.modules.get("torch.nn"), "Module", None)
    if module is None or not issubclass(kind, module):
        return False
    return not any(base.__module__.startswith("torchvision.transforms") for base in kind.__mro__)


def _transforms(dataset: Any, data: list[Any]) -> Iterator[tuple[Any, Any, Any, bool]]:
    """For each transform within `dataset`: what holds it (None: not to be changed), its place there, the transform.

    The last value says that the library of what holds it is patched, so that the transform is timed there. `data` gets
    the datasets inside.
    """
    seen: set[int] = set()
    waiting = [dataset]
    while waiting and len(seen) < _MOST_OBJECTS:
        holder = waiting.pop(0)
        if id(holder) in seen or not has_attributes(holder) or isinstance(holder, (type, types.ModuleType)):
            continue
        seen.add(id(holder))
        watched = watched_by_library(type(holder))
        for container, place, found, transform in _held(holder):
            waiting.append(found)
            if transform:
                yield container, place, found, watched
            elif transform is not None and len(data) < _MOST_ENTRIES:
                data.append(found)


def has_attributes(one: Any) -> bool:
    """Whether an object has a `__dict__`. A partial makes its own when it is asked, and then pickles otherwise."""
    return not isinstance(one, functools.partial) and hasattr(one, "__dict__")


def _held(holder: Any) -> Iterator[tuple[Any, Any, Any, bool | None]]:
    """For each transform or dataset that `holder` holds: container, place, object, and whether it is a transform.

    None: it is neither, and may hold some, as a helper of the dataset does.
    """
    attributes, named = vars(holder), _named_in_call(type(holder))
    for name, value in list(attributes.items()):
        if name == "pipeline" and isinstance(value, list):  # webdataset: its stages are rows already
            yield from ((None, None, one, False) for stage in value for one in _arguments(stage))
        else:
            yield from _of_attribute(attributes, name, value, named)
    for place, entry in enumerate(_modules(holder) or ()):
        yield None, place, entry, True


def _of_attribute(
    attributes: dict[str, Any], name: str, value: Any, named: tuple[str, ...]
) -> Iterator[tuple[Any, Any, Any, bool | None]]:
    entries = _entries(attributes, name, value)
    inside = _datasets_in(value, 0)
    if inside or _is_data(name, value):
        yield from ((None, None, one, False) for one in inside or (one for _, _, one in entries))
    elif _names_a_transform(name) or _holds_transforms(value) or _is_step(value, name, named) or _is_pipeline(value):
        yield from ((*one, True) for one in entries if _is_transform(one[2]))
    elif modules := [one for one in entries if _is_module(one[2])]:
        yield from ((*one, True) for one in modules)
    elif _is_helper(value):
        yield None, None, value, None


def _named_in_call(kind: type) -> tuple[str, ...]:
    """The names in the code of the user's own `__call__`: the steps of a transform are among them."""
    call = getattr(kind, "__call__", None)  # noqa: B004  # of the class, not whether it can be called
    plain = getattr(call, "__wrapped__", call)
    return plain.__code__.co_names if isinstance(plain, types.FunctionType) and called.is_own(plain) else ()


def _is_step(value: Any, name: str, named: tuple[str, ...]) -> bool:
    """Whether a transform's own `__call__` uses this object. A bare function may be too short to be timed."""
    return name in named and not isinstance(value, FUNCTIONS)


def _entries(attributes: Any, name: Any, value: Any) -> list[tuple[Any, Any, Any]]:
    """The objects in a list or dict with their places; any other value is one object, held by `attributes`."""
    if isinstance(value, dict):
        return [(value, key, one) for key, one in itertools.islice(dict.items(value), _MOST_ENTRIES)]
    if _is_fastcores(value):
        return _entries(vars(value), "items", vars(value)["items"])
    if type(value) in (list, tuple):
        container = value if type(value) is list else _InTuple(attributes, name)
        return [(container, place, one) for place, one in enumerate(value[:_MOST_ENTRIES])]
    return [(attributes, name, value)]


def _is_fastcores(value: Any) -> bool:
    """Whether this is fastcore's list."""
    return type(value).__name__ == "L" and isinstance(vars(value).get("items"), list)


def _is_pipeline(value: Any) -> bool:
    """Whether this is the list of the transforms that fastai's Pipeline holds."""
    held = vars(value)["items"][:_MOST_ENTRIES] if _is_fastcores(value) else []
    kinds = {base for one in held for base in type(one).__mro__}
    return any(base.__name__ == "Transform" and base.__module__.startswith("fast") for base in kinds)


def _is_helper(value: Any) -> bool:
    """Whether this is an object of a class of the user's own, which is no dataset and no function."""
    return not isinstance(value, (*FUNCTIONS, type)) and has_attributes(value) and users_class(type(value))


def _holds_transforms(value: Any) -> bool:
    """Whether this is a Compose of any library: it can be called and has a list or dict `transforms`."""
    if not _is_transform(value) or not has_attributes(value):
        return False
    own = vars(value)
    found = next((own[name] for name in _STEPS if name in own), None)
    several = isinstance(found, (list, tuple, dict)) or type(found).__name__ == "L"
    return bool(_modules(value)) or (several and bool(found))


def _modules(value: Any) -> list[Any] | None:
    """The transforms in a `torch.nn.Sequential`, or in a module that holds a `ModuleList` of them."""
    held = vars(value).get("_modules")
    if not isinstance(held, dict):
        return None
    if not any(base.__name__ in _MODULE_LISTS for base in type(value).__mro__):
        return [held["transforms"]] if "transforms" in held else None
    return list(itertools.islice(held.values(), _MOST_ENTRIES))


def _arguments(stage: Any) -> list[Any]:
    """The functions that a webdataset stage calls, or the stage itself if it is an object of the script."""
    if isinstance(stage, FUNCTIONS) or not has_attributes(stage):
        return []
    own = vars(stage)
    arguments, named = own.get("args"), own.get("kw")
    if isinstance(arguments, tuple) and isinstance(named, dict):
        return [one for one in (*arguments, *named.values()) if callable(one)]
    return [stage]


def _is_data(name: str, value: Any) -> bool:
    """Whether this is a dataset inside another one: by its attribute's name, or because it is a torch dataset."""
    return name.lstrip("_") in _HOLDS_DATA or _is_torchs(value)


def _datasets_in(value: Any, depth: int) -> list[Any]:
    """The datasets in a list, tuple or dict, and in those that it holds; none where it begins with anything else."""
    if isinstance(value, dict):
        entries = [*itertools.islice(dict.values(value), _MOST_DATASETS)]
    else:
        entries = [*value[:_MOST_DATASETS]] if type(value) in (list, tuple) else []
    if not entries or depth > _DEEPEST_LISTS:
        return []
    deeper = [_datasets_in(one, depth + 1) for one in entries] if type(entries[0]) in (list, tuple, dict) else []
    found = [one for several in deeper for one in several] + [one for one in entries if _gives_samples(one)]
    return found[:_MOST_DATASETS]


def _gives_samples(one: Any) -> bool:
    """Whether this is a dataset of torch's kind, or an object with a `__getitem__` of the user's own."""
    if _is_torchs(one) or callable(one):
        return _is_torchs(one)
    _, getter = called.in_class(type(one), "__getitem__")
    return isinstance(getter, types.FunctionType) and called.is_own(getter) and has_attributes(one)


def _is_torchs(value: Any) -> bool:
    dataset = getattr(sys.modules.get("torch.utils.data"), "Dataset", None)
    return dataset is not None and isinstance(value, dataset)


def _names_a_transform(name: str) -> bool:
    return "transform" in name or "augment" in name or name.lstrip("_") in _TRANSFORM


def _is_module(value: Any) -> bool:
    """Whether this is a `torch.nn.Module`: torchaudio's and kornia's transforms are, and models that make features."""
    module = getattr(sys.modules.get("torch.nn"), "Module", None)
    return module is not None and isinstance(value, module)


def _is_transform(value: Any) -> bool:
    return callable(value) and not isinstance(value, type)
