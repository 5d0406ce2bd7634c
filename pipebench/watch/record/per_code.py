"""Remembers what is known of a function's code, until the end of the recording.

What torch has compiled would else outlive torch's own modules at the end of the process, and complain on stderr.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

_R = TypeVar("_R")
_caches: list[Any] = []


def per_code(most: int) -> Callable[[Callable[..., _R]], functools._lru_cache_wrapper[_R]]:
    """`functools.lru_cache` of so many entries, which `forget` empties."""

    def remembered(function: Callable[..., _R]) -> functools._lru_cache_wrapper[_R]:
        cache = functools.lru_cache(maxsize=most)(function)
        _caches.append(cache)
        return cache

    return remembered


def forget() -> None:
    """Lets go of all code."""
    for one in _caches:
        one.cache_clear()
