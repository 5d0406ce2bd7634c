"""Times each entry of a Compose as a stage of its own.

torchvision's two Composes, and the base classes of albumentations' transforms, are patched in their class: no object of
the script changes. `finding_transforms` finds the transforms of other libraries and of the script.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any

from pipebench.watch.record.exclusive_time import OnlyHere, local, stages
from pipebench.watch.record.patches import Patches, in_place_of, unseen

_ALBUMENTATIONS = ("albumentations.", "albucore.")


def watch_v1(patches: Patches, module: Any) -> None:
    """Patches torchvision.transforms.Compose, whose loop is `for t in self.transforms: img = t(img)`."""
    plain = module.Compose.__call__
    if _looks_like(plain, ("transforms",)):
        patches.replace(module.Compose, "__call__", in_place_of(_each_v1, plain, "CALL"))


def _each_v1(plain: Any) -> Any:
    def __call__(self: Any, img: Any) -> Any:
        timer = local.timer
        if timer is None or not timer.splits:
            for transform in self.transforms:
                img = transform(img)
            return img
        before = timer.current
        try:
            for transform in self.transforms:
                timer.switch(stages.of_transform(transform))
                img = transform(img)
            return img
        finally:
            timer.switch(before)

    return __call__


def watch_v2(patches: Patches, module: Any) -> None:
    """Patches torchvision.transforms.v2.Compose, which also takes several inputs and unpacks them."""
    plain = module.Compose.forward
    if _looks_like(plain, ("len", "transforms")):
        patches.replace(module.Compose, "forward", in_place_of(_each_v2, plain, "CALL_FUNCTION_EX"))


def _each_v2(plain: Any) -> Any:
    def forward(self: Any, *inputs: Any) -> Any:
        timer = local.timer
        unpack = len(inputs) > 1
        outputs: Any = None
        if timer is None or not timer.splits:
            for transform in self.transforms:
                outputs = transform(*inputs)
                inputs = outputs if unpack else (outputs,)
            return outputs
        before = timer.current
        try:
            for transform in self.transforms:
                timer.switch(stages.of_transform(transform))
                outputs = transform(*inputs)
                inputs = outputs if unpack else (outputs,)
            return outputs
        finally:
            timer.switch(before)

    return forward


def _looks_like(function: Any, names: tuple[str, ...]) -> bool:
    """Whether this is the loop that we can replace: it uses exactly these names."""
    code = getattr(function, "__code__", None)
    return code is not None and code.co_names == names and not hasattr(function, "__wrapped__")


def watch_entries(patches: Patches, module: Any) -> None:
    """Patches albumentations' transforms: all inherit one `__call__`, which is timed under the name of each class."""
    _watch_calls(patches, [module.BasicTransform])


def watch_containers(patches: Patches, module: Any) -> None:
    """Patches albumentations' containers (Compose, OneOf, ...): times them without the transforms inside."""
    kinds = [one for one in vars(module).values() if isinstance(one, type) and one.__module__ == module.__name__]
    _watch_calls(patches, [one for one in kinds if issubclass(one, module.BaseCompose)])


def _watch_calls(patches: Patches, kinds: list[Any]) -> None:
    for kind in kinds:
        if isinstance(vars(kind).get("__call__"), types.FunctionType):
            patches.replace(kind, "__call__", timed_call(kind.__call__, stages.of_transform))


def timed_call(plain: Any, stage_of: Callable[[Any], int]) -> Any:
    """Wraps a class's `__call__`: the time of each object is in its stage."""
    here = OnlyHere(stage_of=stage_of)

    @unseen
    @functools.wraps(plain)
    def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:
        timer = local.timer
        if timer is None or not timer.splits:
            return plain(self, *args, **kwargs)
        before = timer.switch(here.stage_of(self))
        try:
            return plain(self, *args, **kwargs)
        finally:
            timer.switch(before)

    return __call__


def watched_by_library(kind: type) -> bool:
    """Whether this class, or the Compose that holds its objects, is patched where its library defines it."""
    return any(
        base.__module__.startswith(_ALBUMENTATIONS)
        or (base.__name__ == "Compose" and base.__module__.startswith("torchvision.transforms"))
        for base in kind.__mro__
    )
