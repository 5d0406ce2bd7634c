"""Counts what looks at a training loop have found: at which places of the user's, and how often. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from types import CodeType
from typing import NamedTuple

from pipebench.watch.script.frozen_modules import FrozenModules
from pipebench.watch.script.loop_place import Place, called_from, leaves_after, own_calls, told_at
from pipebench.watch.script.own_line import OwnLine
from pipebench.watch.script.unused_graphs import UnusedGraphs


class Key(NamedTuple):
    """Where looks are counted: as in `PlaceLooks`."""

    line: int
    functions: tuple[str, ...]
    early: bool = False
    file: str = ""
    after: bool = False
    own: int = 0


class PlaceCount:
    """What looks at one place found."""

    def __init__(self) -> None:
        self.looks = self.turns = self.ns = self.cpu_ns = 0
        self.last = -1


@dataclass
class OfLoader:
    """What is not written yet of one loader's loop."""

    file: str = ""
    turns: int = 0
    found: dict[Key, PlaceCount] = field(default_factory=dict)
    forward_looks: int = 0
    later_looks: int = 0
    lines: Counter[OwnLine] = field(default_factory=Counter)
    drawn: Counter[OwnLine] = field(default_factory=Counter)
    frozen: FrozenModules = field(default_factory=FrozenModules)
    graphs: UnusedGraphs = field(default_factory=UnusedGraphs)
    model: dict[CodeType, int] = field(default_factory=dict)  # the lines from the loop to a model's call, first of each
    sought: bool = False  # whether a look has met forward, and no model yet
    trained: dict[CodeType, int] = field(default_factory=dict)  # the same to the last step, without a loader


def after_model(own: OfLoader, place: Place) -> Key | None:
    """Where a look is counted that found Python at work between the model and the backward; None: it did not."""
    leaves = leaves_after(place.path, own.model) if place.python and not place.trains else None
    return None if leaves is None else told(own, place, leaves, early=False)._replace(after=True)


def told(own: OfLoader, place: Place, at: int, *, early: bool) -> Key:
    """Where a look is counted of which the user's own line is told, as near as possible to the call number `at`."""
    nearest = told_at(place.path, at)
    code, line = place.path[nearest]
    file, at = code.co_filename, max(nearest, at)
    found = Key(line, called_from(place.path, at), early, "" if file == own.file else file)
    return found._replace(own=own_calls(place.path, at))
