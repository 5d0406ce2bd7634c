"""Tells what a loop does besides waiting and training: a device's work, or callbacks and logging. Pure.

Looks say in which line the loop was and what that line called. A loop that waits for a device does so in its own lines
(`loss.item()`) or in a function that trains; callbacks and logging are functions that say so by their names. What takes
place in some iterations only is no device's work, and neither is what needs a core. On CUDA, a wait may need a core;
the device's own clock says whether it trained meanwhile. A script that trains on no device waits for none.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from pipebench.watch.read.device_idle import besides_share
from pipebench.watch.read.gather import Run
from pipebench.watch.record.trial_lines import BETWEEN, LoopLooks, PlaceLooks

Kind = Literal["device", "callbacks", "unsure"]
FEWEST = 20  # looks
_FEWEST_OF_PLACE = 6  # looks, which must be surely more than half of all
FEWEST_TURNS = 8
_SECOND, _FEWEST_OF_SECOND = 0.2, 5  # of all looks: a second place that is told
_EACH = 0.8  # of the iterations in which a place that is reached in each of them would be seen by chance
_ON_CPU = 0.5
_SURELY_NS = 50_000_000  # ten pairs of rare looks: fewer may all have met a thread that gave up its core
_IDLE = 0.5  # of the time, a device has no training to do: then the loop does not wait for it
# Functions of Python's library in which a thread does nothing but wait.
_FOR_OTHERS = frozenset({
    "Condition.wait", "Event.wait", "Barrier.wait", "Thread.join", "Thread._wait_for_tstate_lock", "Popen.wait",
    "_ConnectionBase.poll", "Connection._recv",
})  # fmt: skip
_AWAITS = "await"
_ONLY_WAIT = _FOR_OTHERS | {"EpollSelector.select", "SelectSelector.select", "PollSelector.select"}
_CALLBACKS = (
    "log", "logs", "logger", "logging", "metric", "report", "track", "callback", "save", "saver", "saving",
    "checkpoint",
    "ckpt", "dump", "write", "send", "upload", "publish", "print", "plot", "draw", "notify", "push", "record",
    "monitor", "progress", "summar", "emit", "flush", "visual", "snapshot", "backup", "export", "store",
    "persist", "stats", "board", "wandb", "mlflow", "json", "pickle", "serialization", "display", "render", "post",
    "eval", "valid", "after", "hook", "on", "event", "archive", "sync_to", "histogram", "tensorboard", "image",
)  # fmt: skip
_TRAINING = (
    "device", "accelerator", "gpu", "cuda", "tpu", "kernel", "synchronize", "item", "step", "train", "forward",
    "backward", "optim", "model", "loss", "update", "fit", "compute", "net", "run", "iteration", "batch", "epoch",
    "clip", "scale", "schedul",
)  # fmt: skip
_NEEDED = ("ema", "teacher", "target", "polyak", "swa", "momentum", "averag", "moving", "shadow")
_METRIC = (
    "metric", "score", "accuracy", "iou", "confusion", "dice", "meter", "auc", "recall", "precision", "bleu", "rouge",
    "psnr", "ssim",
)  # fmt: skip
_F1 = re.compile(r"(?<![A-Za-z])[fF]1(?![0-9])|F1")
_WHOLE = (
    "on", "log", "logs", "net", "run", "item", "post", "after", "save", "fit", "ema", "swa", "auc",
)  # words that begin many others  # fmt: skip


class Where(NamedTuple):
    """A line of a loop, and the function that is called there ("": the line itself ran).

    Where that only hands on, `function` is the innermost one of the user's that has most of the time, called `by` it.
    """

    file: str
    line: int
    function: str
    by: str = ""


class Part(NamedTuple):
    """A place of some work, and its share of the looks at all of it."""

    where: Where
    share: float


@dataclass(frozen=True)
class Apart:
    """The shares of what a loop does besides waiting and training; they add up to 1.

    `file`, `line`, `function` and `by` are where most of the callbacks are (see `Where`), or with `less` the largest
    part of them, less than half. `rests`: there, the loop needs no core, but waits, as looks that followed each other
    say. `models`: there, a model runs once more. `part` is the share of the callbacks there, and `second` is another
    large part of them.
    """

    device: float
    callbacks: float
    unsure: float
    file: str = ""
    line: int = 0
    function: str = ""
    by: str = ""
    less: bool = False
    rests: bool = False
    models: bool = False
    part: float = 1.0
    second: Part | None = None


def on_host(lines: Sequence[LoopLooks]) -> bool:
    """Whether the script of these lines trains on no device, so that no wait of its loops is for one."""
    return bool(lines) and lines[-1].on_host


def told_apart(run: Run, loader: int) -> Apart | None:
    """What looks at the loop of a loader say; None without enough of them."""
    lines = run.looks(loader)
    places = summed(one for line in lines for one in line.places if one.early == one.after)  # both: after the last step
    looks = sum(one.looks for one in places)
    if not enough(lines, looks):
        return None
    turns, idle = sum(one.turns for one in lines), 1.0 if on_host(lines) else besides_share(run, loader)
    kinds = [(kind_of(one, turns, idle), one) for one in with_neighbours(places)]
    share = {kind: sum(one.looks for found, one in kinds if found == kind) / looks for kind, _ in kinds}
    callbacks = [one for kind, one in kinds if kind != "device"]
    most = max(by_first_call(callbacks), key=lambda one: one.looks, default=None)
    shares = share.get("device", 0.0), share.get("callbacks", 0.0), share.get("unsure", 0.0)
    if most is None:
        return Apart(*shares)
    first, *second = largest_parts(callbacks, lines)
    inside = [one for one in callbacks if one.functions[:1] == most.functions[:1] and one.file == most.file]
    rests = any(map(surely_rests, (most, max(inside, key=lambda one: one.looks))))
    less, where = 2 * first.share < 1, first.where
    return Apart(
        *shares, where.file, where.line, where.function, where.by, less, rests, models_run(most), first.share,
        next(iter(second), None),
    )  # fmt: skip


def largest_parts(places: Sequence[PlaceLooks], lines: Sequence[LoopLooks]) -> list[Part]:
    """The largest place of some work, and the second one if it is large, too, with their shares of the looks at it."""
    rows = sorted(_with_own_work(by_first_call(places)), key=lambda one: -one.looks)
    whole = sum(one.looks for one in rows)
    found = []
    for at, one in enumerate(rows[:2]):
        where = innermost(one, places, lines, one.looks if at else whole)
        looks = _looks_of(where, one, places)
        if not at or (looks >= _FEWEST_OF_SECOND and looks >= _SECOND * whole):
            found.append(Part(where, looks / whole))
    return found


def _with_own_work(rows: Sequence[PlaceLooks]) -> list[PlaceLooks]:
    """The same, where what a line does itself and the function that it calls are one place: what has more names it."""
    found = list(rows)
    for own in (one for one in rows if not one.functions):
        called = (one for one in found if one.functions and (one.file, one.line) == (own.file, own.line))
        if (most := max(called, key=lambda one: one.looks, default=None)) is not None:
            named = most if most.looks >= own.looks else own
            found = [one for one in found if one not in (own, most)]
            found.append(named._replace(looks=own.looks + most.looks))
    return found


def _looks_of(where: Where, first: PlaceLooks, places: Iterable[PlaceLooks]) -> int:
    """The looks at the function that is named, where that is inside the `first` one; or else at that."""
    if not where.by:
        return first.looks
    same = (one for one in places if (one.file, one.functions[:1]) == (first.file, first.functions[:1]))
    return sum(one.looks for one in same if where.function in map(_named, one.functions[1 : one.own]))


def place_besides(run: Run, loader: int) -> dict[str, str | int | float]:
    """Where nearly all work besides training is, as values of a cause, where looks are too few for shares.

    None if they are too few for that, too, or if it may be a device's work.
    """
    lines = run.looks(loader)
    every = [one for line in lines for one in line.places if one.early == one.after]
    places = list(with_neighbours(by_first_call(_own_lines_as_one(every))))
    looks, turns = sum(one.looks for one in places), sum(one.turns for one in lines)
    most = max(places, key=lambda one: one.looks, default=None)
    idle = 1.0 if on_host(lines) else None
    if most is None or looks < _FEWEST_OF_PLACE or turns < FEWEST_TURNS or kind_of(most, turns, idle) == "device":
        return {}
    if not surely_most(most.looks, looks):
        return {}
    return as_values(*innermost(most, every, lines, looks)) | ({"models": 1} if models_run(most) else {})


def _own_lines_as_one(places: Sequence[PlaceLooks]) -> list[PlaceLooks]:
    """The same, with the lines of the loop itself as one place: that of the line that most looks found."""
    own = [one for one in places if not one.functions]
    most = max(own, key=lambda one: one.looks, default=None)
    return [one if one.functions or most is None else one._replace(line=most.line) for one in places]


def enough(lines: Sequence[LoopLooks], looks: int) -> bool:
    """Whether so many looks, of those that these lines are of, say how a loop divides its time."""
    return looks >= FEWEST and sum(one.turns for one in lines) >= FEWEST_TURNS


def surely_most(count: int, looks: int) -> bool:
    """Whether what `count` of these looks found is more than half: of a half, chance finds so many once in 40 times."""
    return 2 * count - looks >= 2 * math.sqrt(looks)


def place_of(place: PlaceLooks, lines: Sequence[LoopLooks]) -> tuple[str, int, str]:
    """The file, the line, and the function that is called there ("": the line itself ran)."""
    return place.file or lines[0].file, place.line, place.functions[0] if place.functions else ""


def innermost(most: PlaceLooks, places: Iterable[PlaceLooks], lines: Sequence[LoopLooks], looks: int) -> Where:
    """Where `most` of these places is, with the innermost function below it that has half of so many looks."""
    file, line, first = place_of(most, lines)
    same = [one for one in places if one.file == most.file and one.functions[:1] == most.functions[:1]]
    inner = _innermost(same, looks)
    return Where(file, line, inner or first, first if inner not in ("", first) else "")


def as_values(file: str, line: int, function: str, by: str = "") -> dict[str, str | int | float]:
    """A place in the user's own code, as the values of a cause; none if it is not known."""
    named = {"function": function, "by": by} if by else {"function": function} if function else {}
    return {"file": file, "line": line, **named} if line else {}


def of_parts(first: float, second: Part | None, spent_s: float) -> dict[str, str | int | float]:
    """The seconds of the place that is named, and the second place, as the values of a cause.

    Of that one, the names have a 2 at their end. `first` is the share of the first one.
    """
    if first >= 1.0:
        return {}
    found: dict[str, str | int | float] = {"part_s": first * spent_s}
    if second is not None:
        values = as_values(*second.where)
        found |= {f"{name}2": value for name, value in values.items()} | {"part2_s": second.share * spent_s}
    return found


def between_loops(run: Run) -> dict[str, str | int | float]:
    """Where most of the time between loops went, as the values of a cause; none if looks do not say it."""
    lines = run.looks(BETWEEN)
    every = [one for line in lines for one in line.places]
    places = by_first_call(every)
    looks = sum(one.looks for one in places)
    most = max(places, key=lambda one: one.looks, default=None)
    if most is None or looks < FEWEST or 2 * most.looks < looks:
        return {}
    return as_values(*innermost(most, every, lines, looks))


def _innermost(places: Sequence[PlaceLooks], looks: int) -> str:
    """The innermost function of the user's, below the first one, in which half of the looks were; "": there is none."""
    deep, found = 1, ""
    while True:
        inside = Counter[str]()
        for one in places:
            if one.own > deep:
                inside[one.functions[deep]] += one.looks
        name, count = max(inside.items(), key=lambda one: one[1], default=("", 0))
        if not count or 2 * count < looks:
            return _named(found)
        places = [one for one in places if one.own > deep and one.functions[deep] == name]
        deep, found = deep + 1, name


def _named(function: str) -> str:
    """The function that its reader knows, of what is inside it."""
    return function.partition(".<locals>.<")[0]


def made_between(run: Run, dataset: str) -> tuple[float, dict[str, str | int | float]]:
    """The share of the time between loops in which datasets of this class were made, and where, as values of a cause.

    0 if looks do not say it.
    """
    lines, name = run.looks(BETWEEN), f"{dataset}.__init__"
    places = [one for line in lines for one in line.places]
    within = [one for one in places if name in one.functions]
    looks, made = (sum(one.looks for one in found) for found in (places, within))
    if looks < FEWEST or not made:
        return 0.0, {}
    most = max(within, key=lambda one: one.looks)
    file, line, _ = place_of(most, lines)
    return made / looks, as_values(file, line, name)


def summed(places: Iterable[PlaceLooks]) -> list[PlaceLooks]:
    """One row for each way of calls, whatever its line: a call of several lines has several."""
    found: dict[tuple[str, tuple[str, ...] | int], list[PlaceLooks]] = {}
    for one in places:
        found.setdefault((one.file, tuple(one.functions) or one.line), []).append(one)
    return [
        same[0]._replace(**{name: sum(getattr(one, name) for one in same) for name in _SUMS}) for same in found.values()
    ]


def by_first_call(places: Iterable[PlaceLooks]) -> list[PlaceLooks]:
    """One row for each function that the loop calls, with all its lines and whatever it calls."""
    return summed(one._replace(functions=one.functions[:1]) for one in places)


def with_neighbours(places: Sequence[PlaceLooks]) -> Iterable[PlaceLooks]:
    """The same rows. Where no looks followed each other in one, those in all that its first function calls count."""
    near = [one.functions[0] if one.functions else one.line for one in places]
    ns: Counter[str | int] = Counter()
    cpu_ns: Counter[str | int] = Counter()
    for key, one in zip(near, places, strict=True):
        ns[key] += one.ns
        cpu_ns[key] += one.cpu_ns
    for key, one in zip(near, places, strict=True):
        yield one if one.ns else one._replace(ns=ns[key], cpu_ns=cpu_ns[key])


_SUMS = ("looks", "turns", "ns", "cpu_ns", "models")


def kind_of(place: PlaceLooks, turns: int, idle: float | None = None) -> Kind:
    """What a place is, which was seen while the loop made so many turns.

    `idle` is the share of such time for which a CUDA device had no training to do (None: not known).
    """
    if needs_core(place) if idle is None else idle >= _IDLE:
        return "callbacks"
    if models_run(place):
        return "callbacks"
    words = [word for name in place.functions for word in words_of(name)]
    each = place.turns >= _EACH * turns * (1 - math.exp(-place.looks / turns))
    if not each or _any(words, _CALLBACKS):
        return "callbacks"
    return "device" if not words or _any(words, _TRAINING) else "unsure"


def models_run(place: PlaceLooks) -> bool:
    """Whether a model runs in most looks at a place, which is after the backward."""
    return 2 * place.models > place.looks


def needs_core(place: PlaceLooks) -> bool:
    """Whether the thread used a core there, or waited for one, most of the time."""
    return place.cpu_ns > _ON_CPU * place.ns > 0


def surely_rests(place: PlaceLooks) -> bool:
    """Whether the thread waits there, and needs no core, as enough looks that followed each other say.

    In a function that does nothing else, it does so for certain: a wait may be too short for such looks, and end in one
    for a core, or for the lock of the interpreter that another thread computes with.
    """
    if not _ONLY_WAIT.isdisjoint(place.functions):
        return True
    return not needs_core(place) and (place.ns >= _SURELY_NS or _AWAITS in place.functions)


def waits_for_others(place: PlaceLooks) -> bool:
    """Whether what is called there waits for another thread, a process or the event loop, and does nothing else."""
    if not _FOR_OTHERS.isdisjoint(place.functions):
        return True
    return _AWAITS in place.functions and not needs_core(place)  # else other coroutines work meanwhile


def needed_in_each(function: str) -> bool:
    """Whether a function keeps weights that training needs in each step, as a teacher or an average, by its name."""
    return _any(words_of(function), _NEEDED) and not keeps_metric(function)


def keeps_metric(function: str) -> bool:
    return _any(words_of(function), _METRIC) or _F1.search(function) is not None


def words_of(name: str) -> list[str]:
    """The words of a qualified name, in lower case.

    >>> words_of("MetricsClient.send_all.<locals>.run2")
    ['metrics', 'client', 'send', 'all', 'run']
    """
    return [one.lower() for one in re.findall("[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name.replace("<locals>", ""))]


def _any(words: Sequence[str], known: Sequence[str]) -> bool:
    return any(word == one or (one not in _WHOLE and word.startswith(one)) for word in words for one in known)
