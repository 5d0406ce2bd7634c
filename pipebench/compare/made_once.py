"""Makes a user's loader: by calling the user's function, or as a copy of one that was made before the rounds.

Each round measures in a fresh process. A loader that takes long to make (it lists a folder, or unpacks an archive)
would be made again in every round. If a copy costs less, the server of a side makes it once, and each round's process
copies it into memory of its own, because its place in memory must be drawn anew in every round.
"""

from __future__ import annotations

import copy
import inspect
import os
import threading
import time
from collections.abc import Callable
from typing import Any

from pipebench.compare.bare_dataset import dataset_of, first_samples

LONG_S = 0.02  # a loader that is made faster than this is made in each round


class Loaders:
    """The loaders that the user's function `make` returns, by the settings that it takes."""

    def __init__(self, make: Callable[[], Callable[..., Any]]) -> None:
        self._make = make
        self._kept: dict[tuple[Any, ...], Any] = {}

    def get(self, **wanted: Any) -> tuple[Any, set[str]]:
        """A loader, and the names of the settings that its function accepted."""
        taken = self._taken(wanted)
        kept = self._kept.get(_key(taken))
        return (self._called(taken) if kept is None else copy.deepcopy(kept)), set(taken)

    def worth_keeping(self, **wanted: Any) -> bool:
        """Whether a copy costs less than making it anew, and is as good. Makes one: ask in a process that ends soon.

        A loader that leaves a thread, an open file or a mapped file behind is made in each round: processes cannot
        share the first two, and a copy of a mapped file would lie in memory.
        """
        taken = self._taken(wanted)
        if _key(taken) in self._kept:
            return False
        before, begin = _left_behind(), time.perf_counter()
        loader = self._called(taken)
        made_s = time.perf_counter() - begin
        if made_s < LONG_S or _left_behind() - before:
            return False
        return _copy_s(loader) < made_s

    def keep(self, **wanted: Any) -> None:
        """Makes the loader that `get` then copies."""
        taken = self._taken(wanted)
        self._kept[_key(taken)] = self._called(taken)

    def _taken(self, wanted: dict[str, Any]) -> dict[str, Any]:
        parameters = inspect.signature(self._make()).parameters
        anything = any(one.kind is one.VAR_KEYWORD for one in parameters.values())
        return {name: value for name, value in wanted.items() if anything or name in parameters}

    def _called(self, taken: dict[str, Any]) -> Any:
        """Calls the user's function.

        torch refuses some settings for loaders without workers, such as `prefetch_factor`. A function that always gives
        them is asked for one worker instead; who needs none changes the number afterwards.
        """
        try:
            return self._make()(**taken)
        except ValueError:
            if taken.get("num_workers") != 0:
                raise
        return self._make()(**{**taken, "num_workers": 1})


def _key(taken: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(sorted((name, value if isinstance(value, int) else "") for name, value in taken.items()))


def _copy_s(loader: Any) -> float:
    """Seconds for a copy that gives a sample as the loader does; infinity if it cannot be copied."""
    begin = time.perf_counter()
    try:
        copied = copy.deepcopy(loader)
        elapsed = time.perf_counter() - begin
        first_samples(copied, dataset_of(copied), 1)
    except Exception:  # whatever the user's objects raise: then it is made in each round
        return float("inf")
    return elapsed


def _left_behind() -> set[str]:
    """The threads of this process, its open files, and the files that are mapped, without libraries."""
    found = {f"thread {one.ident}" for one in threading.enumerate()}
    try:
        found |= {f"task {one}" for one in os.listdir("/proc/self/task")}
        found |= {f"{name} {os.readlink(f'/proc/self/fd/{name}')}" for name in _descriptors()}
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
            files = {parts[5].strip() for line in maps if len(parts := line.split(maxsplit=5)) == 6}
        return found | {one for one in files if one.startswith("/") and ".so" not in one}
    except OSError:
        return found


def _descriptors() -> list[str]:
    """The numbers of the open files, without the one that lists them."""
    return [name for name in os.listdir("/proc/self/fd") if os.path.lexists(f"/proc/self/fd/{name}")]
