"""Which loader of one watched run is which of another: by the place where it was made, then by what it loads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import Any

from pipebench.results.watched import LoaderResult, WatchResult

# The best first. Lines move in an edited script, so the line alone says less than what is loaded and what for. A loop
# without a loader (number 0) is only like another.
_KEYS: tuple[Callable[[LoaderResult], tuple[Any, ...]], ...] = (
    lambda one: (one.loader == 0, one.file, one.line, one.dataset, one.training),
    lambda one: (one.loader == 0, one.dataset, one.training),
    lambda one: (one.loader == 0, one.file, one.line),
    lambda one: (one.loader == 0, one.training),
    lambda one: (one.loader == 0,),
)


def matched(base: WatchResult, head: WatchResult) -> dict[int, int]:
    """The loaders of the head by number, each with the number of the same loader of the base."""
    found: dict[int, int] = {}
    for key in _KEYS:
        left = [one for one in base.loaders if one.loader not in found.values()]
        for one in head.loaders:
            if one.loader not in found and (same := next((our for our in left if key(our) == key(one)), None)):
                found[one.loader] = same.loader
                left.remove(same)
    return found


def aligned(base: WatchResult, head: WatchResult) -> WatchResult:
    """The head with the numbers that its loaders have in the base. A loader of its own gets a number of its own."""
    numbers = matched(base, head)
    taken = {one.loader for one in base.loaders}
    for one in head.loaders:
        own = one.loader if one.loader not in taken else next(free for free in count(1) if free not in taken)
        taken.add(numbers.setdefault(one.loader, own))
    if all(old == new for old, new in numbers.items()):
        return head
    return replace(
        head,
        loaders=tuple(replace(one, loader=numbers[one.loader]) for one in head.loaders),
        loaders_in_loop=tuple(numbers.get(one, one) for one in head.loaders_in_loop),
        stages=tuple(replace(one, loader=numbers.get(one.loader, one.loader)) for one in head.stages),
        costs=tuple(replace(one, loader=numbers.get(one.loader, one.loader)) for one in head.costs),
    )
