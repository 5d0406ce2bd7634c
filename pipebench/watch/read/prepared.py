"""Tells work on a batch in the loop itself, as decoding or augmenting before the model, from forward. Pure.

The clock takes all time before a backward for forward. Looks at the loop's stack say more: what they find in a line
above the first one that calls a model, and needs a core, makes the batch ready. Workers could do that. In a loop
without a loader or a device, what needs no core there waits for data: for a queue, a thread, another process, a file.
So it does in any loop of a script that trains on no device.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from pipebench.results.watched import PhaseResult, WatchResult
from pipebench.watch.read.compiling import compiled
from pipebench.watch.read.device_idle import in_waits
from pipebench.watch.read.gather import NO_LOADER, Run
from pipebench.watch.read.in_loop import (
    FEWEST,
    Part,
    Where,
    enough,
    largest_parts,
    needs_core,
    on_host,
    summed,
    surely_rests,
    waits_for_others,
    with_neighbours,
    words_of,
)
from pipebench.watch.read.moves import busy, idle_cores, room_of
from pipebench.watch.record.lines import LoopSums
from pipebench.watch.record.record_file import FORWARD, TRANSFER
from pipebench.watch.record.trial_lines import LoopLooks, PlaceLooks

ROW = "prepare"  # of the account, and of the causes
FORWARDS = ("forward", "before-backward")  # rows and phases that it is a part of
_NEARLY = 0.9  # of the most that any number of workers saves
_MOST = 64  # workers, as in trials
_WHOLE = ("log", "logs", "net")  # as whole words: they begin others
_OF_SOUND = ("mel", "spec", "amplitude")  # as in log_mel: no logging
_OTHERS = (
    "logger", "logging", "metric", "report", "print", "plot", "save", "checkpoint", "callback", "wandb", "tensorboard",
    "progress", "loss", "regular", "penalt", "backward", "model", "optim", "schedul",
)  # fmt: skip

_TOGETHER = frozenset({"_exception_logger.<locals>.wrapper", "barrier", "all_reduce", "broadcast"})  # of torch


@dataclass(frozen=True)
class Prepared:
    """The share of forward that makes batches ready, and where most of it is.

    `rests`: there, the loop needs no core, but waits, as looks that followed each other say. `part` is the share of
    such work there, and `second` is another large part of it. `for_others` is the share of forward in which a loop
    without a loader waits for other threads, for processes, or for what asyncio runs meanwhile: `awaits` says that most
    of it is the last.
    """

    share: float
    where: Where
    rests: bool = False
    part: float = 1.0
    second: Part | None = None
    for_others: float = 0.0
    awaits: bool = False


def prepared(run: Run, loader: int) -> Prepared | None:
    """What looks at the loop of a loader say; None if they found no such work, or are too few."""
    lines = run.looks(loader)
    early = [one for line in lines for one in line.places if one.early and not one.after]
    looks = looks_at_forward(lines)
    on_device = in_waits(run.turns(loader)) is not None  # then a line of the loop may copy to it
    before = [one for one in early if one.functions or not on_device]
    waits = on_host(lines) or (loader == NO_LOADER and not on_device and not copies(run, loader))  # for no device
    found = [one for one in with_neighbours(summed(before)) if (waits or needs_core(one)) and not _other_work(one)]
    if not enough(lines, looks) or not found:
        return None
    first, *second = largest_parts(found, lines)
    rests = surely_rests(max(found, key=lambda one: one.looks))
    share = sum(one.looks for one in found) / looks
    others = [one for one in found if waits and loader == NO_LOADER and waits_for_others(one)]
    count = sum(one.looks for one in others)
    awaits = 2 * sum(one.looks for one in others if "await" in one.functions) > count
    return Prepared(share, first.where, rests, first.share, next(iter(second), None), count / looks, awaits)


def copies(run: Run, loader: int) -> bool:
    """Whether the loop of a loader copies to a device."""
    return any(sum(one.phases_ns[TRANSFER:FORWARD]) for one in run.turns(loader))


def late_share(run: Run, loader: int) -> float:
    """The share of what comes before the backward that is other work after the last step, in a loop without a loader.

    0 if looks do not say it.
    """
    lines = run.looks(loader)
    late = sum(one.looks for line in lines for one in line.places if one.early and one.after)
    return late / looks_at_forward(lines) if late >= FEWEST else 0.0


def waits_share(run: Run, loader: int) -> float:
    """The share of what comes before the backward in which a loop without a loader waits for others: see `Prepared`.

    0 if looks do not say it.
    """
    told = prepared(run, loader) if loader == NO_LOADER else None
    return told.for_others if told is not None else 0.0


def outside_ns(run: Run) -> int:
    """How long a loop without a loader was left for the loops around it, between its passes.

    The clock takes that for what comes before the backward. 0 if looks are too few to say it.
    """
    lines = run.looks(NO_LOADER)
    return sum(one.outside_ns for one in lines) if sum(one.outside_looks for one in lines) >= FEWEST else 0


def looks_at_forward(lines: Iterable[LoopLooks]) -> int:
    """All looks between a batch and the backward of its iteration."""
    return sum(line.forward_looks + sum(one.looks for one in line.places if one.early) for line in lines)


def _other_work(place: PlaceLooks) -> bool:
    """Whether the function that is called there is named like training or logging: then it makes no batch ready.

    Neither does a wait for other ranks.
    """
    if not _TOGETHER.isdisjoint(place.functions):
        return True
    words = words_of(place.functions[0].rpartition(".")[2]) if place.functions else []
    sound = any(word.startswith(_OF_SOUND) for word in words)
    return not sound and any(word in _WHOLE or word.startswith(_OTHERS) for word in words)


class Idle(NamedTuple):
    """The workers of a loader, the share of the time for which they are busy, and the cores that none uses.

    `cores` is a share of the usable ones. Without workers, `busy` is the share for which the loop makes batches.
    There may be `most` workers: as many as cores, if there are data and memory for them. `threads` is how many cores
    the script's own process uses, and so perhaps the work in its loop: a worker has one.
    """

    workers: int
    busy: float
    cores: float
    most: int
    threads: float = 1.0


class Moved(NamedTuple):
    """The seconds that workers would save, and how many workers that takes."""

    s: float
    workers: int


def idle_of(result: WatchResult) -> dict[int, Idle]:
    """What the workers of each loader could take over."""
    found = {}
    for one in result.loaders:
        own = [worker for worker in result.workers if worker.loader == one.loader]
        idle = max(0.0, idle_cores(result, own, one.script_cores)) / result.usable_cores
        threads = max(1.0, one.script_cores or 0.0)
        most = room_of(result, one).most(min(_MOST, int(result.usable_cores)))
        found[one.loader] = Idle(one.workers, busy(own) if one.workers else one.wait_share, idle, most, threads)
    return found


def moved(spent_s: float, loop_s: float, idle: Idle) -> Moved | None:
    """What workers would save of work that took `spent_s` of a loop of `loop_s`; None if they would save nothing.

    The loop then takes as long as the workers or the cores need for the same work, at least. More workers than now are
    named only if they save clearly more.
    """
    counts = range(max(1, idle.workers), idle.most + 1)
    found = [Moved(_saved_s(spent_s, loop_s, idle, workers), workers) for workers in counts]
    best = max((one.s for one in found), default=0.0)
    return next((one for one in found if one.s >= _NEARLY * best), None) if best > 0 else None


def taken_over(told: Prepared, spent_s: float, loop_s: float, idle: Idle) -> Moved | None:
    """The same of what looks say of work before the model. Where it only waits, workers need no core for it."""
    return moved(spent_s, loop_s, idle._replace(cores=1.0, threads=1.0) if told.rests else idle)


def _saved_s(spent_s: float, loop_s: float, idle: Idle, workers: int) -> float:
    made = idle.busy * max(1, idle.workers) / workers
    of_workers = loop_s * (1.0 - made) - spent_s * idle.threads / workers
    return max(0.0, min(spent_s, of_workers, loop_s * idle.cores))


def with_prepared(run: Run, phases: Iterable[PhaseResult], loaders: Iterable[int]) -> Iterable[PhaseResult]:
    """The phases of an iteration over these loaders, with a part of forward as one of its own."""
    spent = {one: sum(sum(line.phases_ns[FORWARD : FORWARD + 1]) for line in run.turns(one)) for one in loaders}
    told = {one: found.share for one in spent if (found := prepared(run, one)) is not None}
    told = {one: share * (1 - _compiled_share(run, one, spent[one])) for one, share in told.items()}
    share = sum(told[one] * spent[one] for one in told) / max(1, sum(spent.values()))
    by_name = {one.phase: one for one in _without_outside(run, list(phases))}
    if (before := by_name.get("before-backward")) and (late := late_share(run, NO_LOADER)):
        by_name["before-backward"], moved_s = _scaled(before, 1 - late), before.s_per_iteration * late
        share = share / (1 - late) if late < 1 else 0.0
        other = by_name["other"]
        by_name["other"] = PhaseResult("other", other.s_per_iteration + moved_s, other.share + before.share * late)
    for one in by_name.values():
        if one.phase in FORWARDS and share:
            yield replace(_scaled(one, share), phase=ROW)
            one = _scaled(one, 1 - share)
        yield one


def _compiled_share(run: Run, loader: int, spent_ns: int) -> float:
    """The share of what comes before the backward, after the first iterations, that torch's compiler took."""
    found = compiled(run, loader)
    return min(1.0, min(found.forward_s, found.later_s) * 1e9 / spent_ns) if spent_ns else 0.0


def _without_outside(run: Run, phases: Sequence[PhaseResult]) -> Iterable[PhaseResult]:
    """The phases without what lies between the passes of a loop without a loader: no iteration has a part in it."""
    spent = sum(sum(one.phases_ns[FORWARD : FORWARD + 1]) for one in run.of_loader(LoopSums, NO_LOADER))
    part = 1 - min(1.0, outside_ns(run) / max(1, spent))
    rest = [
        replace(one, s_per_iteration=one.s_per_iteration * (part if one.phase == "before-backward" else 1.0))
        for one in phases
    ]
    whole = sum(one.s_per_iteration for one in rest) or 1.0
    return (replace(one, share=one.s_per_iteration / whole) for one in rest) if part < 1 else phases


def _scaled(one: PhaseResult, part: float) -> PhaseResult:
    return PhaseResult(one.phase, one.s_per_iteration * part, one.share * part)
