"""Times the functions of libraries that decode video and sound, and that make tokens of text: see `record/media.py`.

Methods of classes that are written in C are replaced as well, where the class allows it. Those of PyAV did not before
its wheels were for all versions of Python (`abi3`): there, `av.open` has a row, and the rest is in the row around it.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any

from pipebench.watch.record.exclusive_time import OnlyHere, local, stages
from pipebench.watch.record.media import MEDIA, MediaCall, row_of
from pipebench.watch.record.own_code import users_class
from pipebench.watch.record.patches import Patches, is_wrapper, unseen
from pipebench.watch.stages.webdataset import Passing, only_iterates

_groups: dict[str, set[int]] = {}
"""The numbers of the rows of each group."""


def watch_media(patches: Patches, module: Any) -> None:
    """Patches the listed functions of one imported module."""
    for call in MEDIA.get(module.__name__, ()):
        holder, _, name = call.path.rpartition(".")
        owner = getattr(module, holder, None) if holder else module
        if owner is None or (holder and not (isinstance(owner, type) and name in vars(owner))):
            continue
        plain = vars(owner).get(name)
        if not callable(plain) or is_wrapper(plain) or isinstance(plain, type):
            continue
        group = _groups.setdefault(call.group, set())
        make = _by_steps if call.steps else _timed
        with contextlib.suppress(TypeError):  # a class that cannot be changed
            patches.replace(owner, name, make(plain, _stage_of(module.__name__, call, group), group))


def _stage_of(module: str, call: MediaCall, group: set[int]) -> Callable[[tuple[Any, ...]], int]:
    """Gives the stage of a call by its arguments. A row is made by its first call."""
    known: dict[str, int] = {}

    def stage_of(args: tuple[Any, ...]) -> int:
        kind = type(args[0]) if call.by_class and args else None
        name = kind.__name__ if kind is not None else row_of(module, call)
        found = known.get(name)
        if found is None:
            own = kind is not None and users_class(kind)
            found = known[name] = stages.number(call.kind, name, call.includes_read, own=own)
            group.add(found)
        return found

    return stage_of


def _timed(plain: Any, stage_of: Callable[[tuple[Any, ...]], int], group: set[int]) -> Any:
    ours, here = local, OnlyHere(stage_of=stage_of, group=group)

    @unseen
    @functools.wraps(plain)
    def watched(*args: Any, **kwargs: Any) -> Any:
        timer = ours.timer
        if timer is None or timer.current in here.group:
            return plain(*args, **kwargs)
        before = timer.switch(here.stage_of(args))
        try:
            return plain(*args, **kwargs)
        finally:
            timer.switch(before)

    return watched


def _by_steps(plain: Any, stage_of: Callable[[tuple[Any, ...]], int], group: set[int]) -> Any:
    """Wraps a function that gives an iterator, each `next()` of which is timed."""
    ours, here = local, OnlyHere(stage_of=stage_of, group=group, stepped=_Steps, only_iterates=only_iterates)

    @unseen
    @functools.wraps(plain)
    def watched(*args: Any, **kwargs: Any) -> Any:
        found = plain(*args, **kwargs)
        timer = ours.timer
        if timer is None or timer.current in here.group or not here.only_iterates(found):
            return found
        return here.stepped(found, here.stage_of(args), here.group)

    return watched


class _Steps(Passing):
    """A proxy of an iterator that times each `next()`."""

    def __init__(self, iterator: Any, stage: int, group: set[int]) -> None:
        super().__init__(iterator)
        self._stage, self._group = stage, group

    @unseen
    def __next__(self) -> Any:
        timer = local.timer
        if timer is None or timer.current in self._group:
            return next(self._iterator)
        before = timer.switch(self._stage)
        try:
            return next(self._iterator)
        finally:
            timer.switch(before)
