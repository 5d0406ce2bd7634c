"""Counts the JPEGs that OpenCV decodes whole, and those that are made much smaller at once.

Its decoder gives a half, a quarter or an eighth of their size for less. Nothing here keeps an image alive.
"""

from __future__ import annotations

import contextlib
import functools
import weakref
from collections.abc import Callable, Mapping
from typing import Any

from pipebench.watch.record.exclusive_time import OnlyHere, StageTimer, local
from pipebench.watch.record.patches import unseen

_JPEG = (".jpg", ".jpeg", ".jpe")
_WHOLE = (0, 1)  # cv2.IMREAD_GRAYSCALE, and cv2.IMREAD_COLOR, the default


def _read(timer: StageTimer, args: tuple[Any, ...], named: Mapping[str, Any], found: Any) -> None:
    name = args[0] if args else named.get("filename")
    flags = args[1] if len(args) > 1 else named.get("flags", 1)
    timer.jpeg = None
    if str(name).lower().endswith(_JPEG) and flags in _WHOLE and found is not None:
        timer.jpeg = weakref.ref(found)
        timer.shrunk = timer.shrunk._replace(read=timer.shrunk.read + 1)


def _converted(timer: StageTimer, args: tuple[Any, ...], named: Mapping[str, Any], found: Any) -> None:
    if _is_last(timer, args, named):
        timer.jpeg = weakref.ref(found)


def _resized(timer: StageTimer, args: tuple[Any, ...], named: Mapping[str, Any], found: Any) -> None:
    if _is_last(timer, args, named):
        before = (args[0] if args else named["src"]).shape
        factor = min(before[0] / found.shape[0], before[1] / found.shape[1])
        one = timer.shrunk
        timer.shrunk = one._replace(
            twice=one.twice + (factor >= 2),
            fourfold=one.fourfold + (factor >= 4),
            eightfold=one.eightfold + (factor >= 8),
        )
        timer.jpeg = None


def _is_last(timer: StageTimer, args: tuple[Any, ...], named: Mapping[str, Any]) -> bool:
    image = args[0] if args else named.get("src")
    return timer.jpeg is not None and image is not None and timer.jpeg() is image


_NOTED: Mapping[tuple[str, str], Callable[..., None]] = {
    ("cv2", "imread"): _read, ("cv2", "cvtColor"): _converted, ("cv2", "resize"): _resized,
}  # fmt: skip


def noted(module: str, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, with a count of what it gave where that says something. It cannot fail the script."""
    note = _NOTED.get((module, name))
    if note is None:
        return function
    ours, here = local, OnlyHere(note=note, without_errors=contextlib.suppress)

    @unseen
    @functools.wraps(function)
    def watched(*args: Any, **kwargs: Any) -> Any:
        found = function(*args, **kwargs)
        timer = ours.timer
        if timer is not None:
            with here.without_errors(Exception):
                here.note(timer, args, kwargs, found)
        return found

    return watched
