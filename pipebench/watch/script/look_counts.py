"""Counts what looks at a training loop have found: at which places of the user's, and how often. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import NamedTuple

from pipebench.watch.record.own_code import owner, plain_name
from pipebench.watch.record.trial_lines import FullCollected, LineLooks, LoopLooks, ModuleLooks, PlaceLooks
from pipebench.watch.script.frozen_modules import FrozenModules
from pipebench.watch.script.loop_place import Place, called_from, leaves_after, own_calls, told_at
from pipebench.watch.script.own_line import OwnLine, name_of
from pipebench.watch.script.unused_graphs import UnusedGraphs

MOST_PLACES = 300


class Key(NamedTuple):
    """Where looks are counted: as in `PlaceLooks`."""

    line: int
    functions: tuple[str, ...]
    early: bool = False
    file: str = ""
    after: bool = False
    own: int = 0
    apart: bool = False


class Loop(NamedTuple):
    """The loop that took the last batch: its loader, its frame by identity, and how many batches it took.

    Between passes, it is the loop around them. `inside` are the instructions of the loop, if they are known. `code` is
    that of the frame: another one may have its identity once it is gone.
    """

    loader: int
    turn: int
    frame: int
    code: CodeType
    inside: range | None


class PlaceCount:
    """What looks at one place found."""

    def __init__(self) -> None:
        self.looks = self.turns = self.ns = self.cpu_ns = self.models = 0
        self.last = -1

    def add(self, other: PlaceCount) -> None:
        for name in ("looks", "turns", "ns", "cpu_ns", "models"):
            setattr(self, name, getattr(self, name) + getattr(other, name))


@dataclass
class OfLoader:
    """What is not written yet of one loader's loop."""

    file: str = ""
    turns: int = 0
    found: dict[Key, PlaceCount] = field(default_factory=dict)
    forward_looks: int = 0
    later_looks: int = 0
    outside_looks: int = 0
    outside_ns: int = 0
    lines: Counter[OwnLine] = field(default_factory=Counter)
    drawn: Counter[OwnLine] = field(default_factory=Counter)
    early_lines: Counter[OwnLine] = field(default_factory=Counter)
    forward_lines: Counter[OwnLine] = field(default_factory=Counter)
    besides: Counter[OwnLine] = field(default_factory=Counter)
    frozen: FrozenModules = field(default_factory=FrozenModules)
    graphs: UnusedGraphs = field(default_factory=UnusedGraphs)
    model: dict[CodeType, int] = field(default_factory=dict)  # the lines from the loop to a model's call, first of each
    met: dict[CodeType, dict[int, tuple[int, int]]] = field(default_factory=dict)  # see `note_first`
    sought: bool = False  # whether a look has met forward, and no model yet
    trained: dict[CodeType, int] = field(default_factory=dict)  # the same to the last step, without a loader
    calling: set[CodeType] = field(default_factory=set)  # what led to a model's call, in a loop that has not trained

    def emptied(self) -> OfLoader:
        """The same after it was written: what it has learned of the loop stays."""
        learned = ("file", "frozen", "graphs", "model", "met", "sought", "trained", "calling")
        return OfLoader(**{name: getattr(self, name) for name in learned})

    def written(
        self, loader: int, modules: tuple[list[ModuleLooks], list[ModuleLooks]], collected: FullCollected
    ) -> LoopLooks:
        """What is written of the loop. `modules` are those that stay as they are, and those with unused gradients."""
        places = [
            PlaceLooks(key.line, list(key.functions), one.looks, one.turns, one.ns, one.cpu_ns, *key[2:], one.models)
            for key, one in list(self.found.items())
        ]
        lines, drawn, *others = (
            [LineLooks(*one, looks) for one, looks in list(found.items())]
            for found in (self.lines, self.drawn, self.early_lines, self.besides, self.forward_lines)
        )
        looks = self.forward_looks, self.later_looks, *modules, lines, collected, *self.graphs.take(), drawn
        return LoopLooks(loader, self.file, self.turns, places, *looks, self.outside_looks, self.outside_ns, *others)

    def note_later(self, place: Place, frame: FrameType | None, loop: int, trains: bool) -> None:
        """Counts a look that is not before a backward. `loop` is the frame of the loop, by identity."""
        self.later_looks += place.models
        if place.models and not trains:
            self.calling.update(code for code, _ in place.path)
        self.graphs.note(frame, loop)

    def include(self, found: Mapping[Key, PlaceCount]) -> None:
        for key, one in list(found.items()):
            self.found.setdefault(key, PlaceCount()).add(one)

    def count_forward(self, at_work: OwnLine | None, inner: OwnLine | None) -> None:
        """Counts a look between the model's first call and the backward, with its lines: see `LoopLooks`."""
        self.forward_looks += 1
        count_line(self.lines, at_work)
        count_line(self.forward_lines, inner)

    def count_inner(self, key: Key, path: Sequence[tuple[CodeType, int]]) -> None:
        """Counts the innermost line of a look that found the loop before the model, or besides training."""
        if key.early >= key.after:  # both: after the last step
            count_line(self.early_lines if key.early > key.after else self.besides, line_of(path))


def count_line(found: Counter[OwnLine], one: OwnLine | None) -> None:
    """Counts a look that found this line, if there is one, and room for it."""
    if one is not None and (one in found or len(found) < MOST_PLACES):
        found[one] += 1


def line_of(path: Sequence[tuple[CodeType, int]]) -> OwnLine:
    """The innermost line of the user's own code on a way from the loop, and the library's function that it calls."""
    at = max((at for at, (code, _) in enumerate(path) if not owner(code.co_filename)), default=0)
    code, line = path[at]
    called, _ = path[min(at + 1, len(path) - 1)]
    calls = f"{owner(called.co_filename)}.{plain_name(called.co_qualname)}" if at + 1 < len(path) else ""
    return OwnLine(code.co_filename, name_of(code), line, calls)


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
