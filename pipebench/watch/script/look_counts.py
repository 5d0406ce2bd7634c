"""Counts what looks at a training loop have found: at which places of the user's, and how often. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Any, NamedTuple

from pipebench.watch.record.own_code import owner, plain_name
from pipebench.watch.record.trial_lines import FullCollected, LineLooks, LoopLooks, ModuleLooks, PlaceLooks
from pipebench.watch.script.compiling import Compiling
from pipebench.watch.script.frozen_modules import FrozenModules
from pipebench.watch.script.loop_place import (
    Place,
    called_from,
    is_checkpointed,
    leaves_after,
    module_calls,
    own_calls,
    told_at,
)
from pipebench.watch.script.own_line import OwnLine, name_of
from pipebench.watch.script.unused_gradients import UnusedGradients
from pipebench.watch.script.unused_graphs import UnusedGraphs

MOST_PLACES = 300
_MOST_WITHOUT_MODEL = 2_000  # looks: more than there are until they are rare


class Way(NamedTuple):
    """The place of a look that cannot be counted there yet, and its lines: see `OfLoader.waiting`."""

    place: Place
    lines: tuple[OwnLine | None, OwnLine | None]

    def __hash__(self) -> int:
        """By identity: the hash of a code object is that of all that it holds."""
        return hash(tuple((id(code), line) for code, line in self.place.path))


class Key(NamedTuple):
    """Where looks are counted: as in `PlaceLooks`. With a `way`, that is not known yet."""

    line: int
    functions: tuple[str, ...]
    early: bool = False
    file: str = ""
    after: bool = False
    own: int = 0
    apart: bool = False
    way: Way | None = None

    def begin(self) -> Key:
        """The same without all that differs from look to look in what one line of the loop calls."""
        return self._replace(functions=self.functions[:1], own=0, apart=False, way=None)


class Loop(NamedTuple):
    """The loop that took the last batch: its loader, its frame by identity, and how many batches it took.

    Between passes, it is the loop around them. `inside` are the instructions of the loop, if they are known. `code` is
    that of the frame: another one may have its identity once it is gone. `task` gives the task that runs it, if it is a
    coroutine of asyncio's.
    """

    loader: int
    turn: int
    frame: int
    code: CodeType
    inside: range | None
    task: Callable[[], Any] | None = None


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
    """What is not written yet of one loader's loop.

    `waiting` are looks before a backward, of a loop without a loader, until one has met a model: then it is known which
    of them came before that.
    """

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
    making: int = 0
    for_threads: int = 0
    helpers: Counter[OwnLine] = field(default_factory=Counter)
    checkpointed: int = 0
    models_in: Counter[OwnLine] = field(default_factory=Counter)
    compiling: Compiling = field(default_factory=Compiling)
    frozen: FrozenModules = field(default_factory=FrozenModules)
    graphs: UnusedGraphs = field(default_factory=UnusedGraphs)
    model: dict[CodeType, int] = field(default_factory=dict)  # the lines from the loop to a model's call, first of each
    met: dict[CodeType, dict[int, tuple[int, int]]] = field(default_factory=dict)  # see `note_first`
    sought: bool = False  # whether a look has met forward, and no model yet
    unmet: list[tuple[OwnLine | None, OwnLine | None, int]] = field(default_factory=list)  # looks until then
    trained: dict[CodeType, int] = field(default_factory=dict)  # the same to the last step, without a loader
    calling: set[CodeType] = field(default_factory=set)  # what led to a model's call, in a loop that has not trained
    waiting: dict[Key, PlaceCount] = field(default_factory=dict)

    def emptied(self, *, last: bool) -> OfLoader:
        """The same after it was written: what it has learned of the loop stays. `last`: it seeks no model any more."""
        if last:
            self._without_model()
        learned = ("file", "frozen", "graphs", "model", "met", "sought", "unmet", "trained", "calling", "waiting")
        return OfLoader(**{name: getattr(self, name) for name in learned})

    def written(
        self,
        loader: int,
        modules: tuple[list[ModuleLooks], list[ModuleLooks]],
        collected: FullCollected,
        on_host: bool,
        graphs: int = 0,
    ) -> LoopLooks:
        """What is written of the loop. `modules` are those that stay as they are, and those with unused gradients.

        `graphs` is how many torch has compiled so far.
        """
        places = [
            PlaceLooks(key.line, list(key.functions), one.looks, one.turns, one.ns, one.cpu_ns, *key[2:-1], one.models)
            for key, one in list(self.found.items())
        ]
        lines, drawn, early, besides, forward, helpers, models_in = (
            [LineLooks(*one, looks) for one, looks in list(found.items())]
            for found in (
                self.lines, self.drawn, self.early_lines, self.besides, self.forward_lines, self.helpers,
                self.models_in,
            )
        )  # fmt: skip
        looks = self.forward_looks, self.later_looks, *modules, lines, collected, *self.graphs.take(), drawn
        outside = self.outside_looks, self.outside_ns
        return LoopLooks(
            loader, self.file, self.turns, places, *looks, *outside, early, besides, forward, on_host,
            making=self.making, for_threads=self.for_threads, helpers=helpers,
            checkpointed=self.checkpointed, models_in=models_in, compiling=self.compiling.written(graphs),
        )  # fmt: skip

    def note_model(self, place: Place, frame: FrameType | None, loop: int, gradients: UnusedGradients) -> None:
        """Counts a look at a model before the backward. `loop` is as in `note_later`."""
        self.frozen.note(module_calls(frame, loop), gradients)
        self.checkpointed += is_checkpointed(frame, loop)
        code, line = place.path[-1]
        if len(place.path) > 1 and not owner(code.co_filename):
            count_line(self.models_in, OwnLine(code.co_filename, name_of(code), line))

    def note_later(self, place: Place, frame: FrameType | None, loop: int, trains: bool) -> None:
        """Counts a look that is not before a backward. `loop` is the frame of the loop, by identity."""
        self.later_looks += place.models
        if place.models and not trains:
            self.calling.update(code for code, _ in place.path)
        self.graphs.note(frame, loop)

    def note_helpers(self, found: Sequence[OwnLine] | None) -> None:
        """Counts a look at the making of a batch, with what other threads do. None: the thread waits for none."""
        self.making += 1
        self.for_threads += found is not None
        for one in found or ():
            count_line(self.helpers, one)

    def include(self, found: Mapping[Key, PlaceCount]) -> None:
        for key, one in list(found.items()):
            self.found.setdefault(key, PlaceCount()).add(one)

    def count_forward(self, at_work: OwnLine | None, inner: OwnLine | None, looks: int = 1) -> None:
        """Counts looks between the model's first call and the backward, with their lines: see `LoopLooks`.

        While no look has met a model, nobody knows what comes before it.
        """
        if not self.model:
            if looks and len(self.unmet) < _MOST_WITHOUT_MODEL:
                self.unmet.append((at_work, inner, looks))
            return
        self.unmet.clear()
        self._count_forward(at_work, inner, looks)

    def _count_forward(self, at_work: OwnLine | None, inner: OwnLine | None, looks: int) -> None:
        self.forward_looks += looks
        count_line(self.lines, at_work, looks)
        count_line(self.forward_lines, inner, looks)

    def _without_model(self) -> None:
        """Counts the looks until now, if none has met a model: that takes next to nothing of forward, or there is none.

        What is before it is not told from forward then.
        """
        if not self.model:
            for one in self.unmet:
                self._count_forward(*one)
            self.unmet.clear()

    def count_inner(self, key: Key, path: Sequence[tuple[CodeType, int]], looks: int = 1) -> None:
        """Counts the innermost line of looks that found the loop before the model, or besides training."""
        if key.way is None and key.early >= key.after:  # both: after the last step
            count_line(self.early_lines if key.early > key.after else self.besides, line_of(path), looks)


def count_line(found: Counter[OwnLine], one: OwnLine | None, looks: int = 1) -> None:
    """Counts looks that found this line, if there is one, and room for it."""
    if looks and one is not None and (one in found or len(found) < MOST_PLACES):
        found[one] += looks


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
