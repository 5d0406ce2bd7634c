"""Each entry of a Compose as a stage of its own.

torchvision's two Composes are watched at their class: no object of the script changes. For containers of other
libraries (albumentations, the script's own) the *classes* of their entries are watched; plain functions among them are
wrapped in the list itself, and only in a worker's own copy of the dataset.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterator
from typing import Any

from pipebench.watch.patches import HIDDEN, Patches, in_place_of
from pipebench.watch.track import local, stages, timed

_MOST_OBJECTS = 500
_FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType, types.MethodType, functools.partial)


def watch_v1(patches: Patches, module: Any) -> None:
    """torchvision.transforms.Compose: `for t in self.transforms: img = t(img)`."""
    plain = module.Compose.__call__
    if _looks_like(plain, ("transforms",)):
        patches.replace(module.Compose, "__call__", in_place_of(_each_v1, plain, "CALL"))


def _each_v1(plain: Any) -> Any:
    def __call__(self: Any, img: Any) -> Any:
        track = local.track
        if track is None:
            for transform in self.transforms:
                img = transform(img)
            return img
        before = track.current
        try:
            for transform in self.transforms:
                track.switch(stages.of_transform(transform))
                img = transform(img)
            return img
        finally:
            track.switch(before)

    return __call__


def watch_v2(patches: Patches, module: Any) -> None:
    """torchvision.transforms.v2.Compose, which unpacks when it was given several inputs."""
    plain = module.Compose.forward
    if _looks_like(plain, ("len", "transforms")):
        patches.replace(module.Compose, "forward", in_place_of(_each_v2, plain, "CALL_FUNCTION_EX"))


def _each_v2(plain: Any) -> Any:
    def forward(self: Any, *inputs: Any) -> Any:
        track = local.track
        unpack = len(inputs) > 1
        outputs: Any = None
        if track is None:
            for transform in self.transforms:
                outputs = transform(*inputs)
                inputs = outputs if unpack else (outputs,)
            return outputs
        before = track.current
        try:
            for transform in self.transforms:
                track.switch(stages.of_transform(transform))
                outputs = transform(*inputs)
                inputs = outputs if unpack else (outputs,)
            return outputs
        finally:
            track.switch(before)

    return forward


def _looks_like(function: Any, names: tuple[str, ...]) -> bool:
    """Whether this is the loop that we know how to run: it uses these names and no others."""
    code = getattr(function, "__code__", None)
    return code is not None and code.co_names == names and not hasattr(function, "__wrapped__")


def watch_tree(dataset: Any, patches: Patches, may_change: bool) -> None:
    """Finds transforms in `dataset` and what it wraps. `may_change` is true for a worker's own copy only."""
    for holder, name, found in _transforms(dataset):
        if isinstance(found, (list, tuple)):
            for place, entry in enumerate(found):
                _watch_entry(entry, patches, found if may_change and isinstance(found, list) else None, place)
        elif not isinstance(found, _FUNCTIONS):
            _watch_class(type(found), patches)
        elif may_change and isinstance(holder, dict) and getattr(found, "__name__", "") != "watched":
            holder[name] = timed(found, stages.of_transform(found))


def _watch_entry(entry: Any, patches: Patches, container: list[Any] | None, place: int) -> None:
    if not isinstance(entry, _FUNCTIONS):
        _watch_class(type(entry), patches)
    elif container is not None:
        container[place] = timed(entry, stages.of_transform(entry))


def _watch_class(kind: type, patches: Patches) -> None:
    """Times `__call__` of one class, which may inherit it; nothing else of the class changes."""
    call = getattr(kind, "__call__", None)  # noqa: B004
    if call is None or kind.__module__ == "builtins" or _is_compose(kind):
        return
    if getattr(call, "__code__", None) is not None and call.__code__.co_filename == HIDDEN and "__call__" in vars(kind):
        return
    plain = getattr(call, "__wrapped__", call) if getattr(call, "_pipebench_call", False) else call
    wrapped: Callable[..., Any] = timed(plain, stages.number("transform", kind.__name__))
    wrapped._pipebench_call = True  # type: ignore[attr-defined]
    patches.replace(kind, "__call__", wrapped)


def _is_compose(kind: type) -> bool:
    """torchvision's own Composes are watched already, entry by entry."""
    return any(
        base.__name__ == "Compose" and base.__module__.startswith("torchvision.transforms") for base in kind.__mro__
    )


def _transforms(dataset: Any) -> Iterator[tuple[Any, str, Any]]:
    """(attributes, name, transform or list of transforms) for every transform found within `dataset`."""
    seen: set[int] = set()
    waiting = [dataset]
    while waiting and len(seen) < _MOST_OBJECTS:
        holder = waiting.pop()
        if id(holder) in seen or not hasattr(holder, "__dict__") or isinstance(holder, (type, types.ModuleType)):
            continue
        seen.add(id(holder))
        attributes = vars(holder)
        for name, value in list(attributes.items()):
            if _names_a_transform(name) and _is_transform(value):
                waiting.append(value)
                if not _is_compose(type(holder)):
                    yield attributes, name, value
            elif name.lstrip("_") in ("dataset", "datasets", "data", "source", "base"):
                waiting.extend(value if isinstance(value, (list, tuple)) and len(value) < 100 else [value])


def _names_a_transform(name: str) -> bool:
    return "transform" in name or "augment" in name or name.lstrip("_") in ("tfm", "tfms", "preprocess", "transforms")


def _is_transform(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return bool(value) and len(value) < 100 and all(callable(one) for one in value)
    return callable(value) and not isinstance(value, type)
